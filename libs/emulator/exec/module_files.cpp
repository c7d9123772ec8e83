#include "module_files.h"

#include <unistd.h>

namespace flashcore::emu {

ModuleFiles& module_files() {
  static ModuleFiles files;
  return files;
}

void ModuleFiles::add(const std::string& path, int descriptor) {
  const std::lock_guard<std::mutex> lock(mutex_);
  descriptors_[path] = descriptor;
}

void ModuleFiles::remove(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = descriptors_.find(path);
  if (found == descriptors_.end()) return;
  close(found->second);
  descriptors_.erase(found);
}

std::string ModuleFiles::readable_path(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = descriptors_.find(path);
  if (found == descriptors_.end()) return path;
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(found->second);
}

}  // namespace flashcore::emu
