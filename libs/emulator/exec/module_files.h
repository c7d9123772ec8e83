// The files of loaded modules. They are unlinked right after loading but kept open so that addr2line can read them.
#pragma once
#include <map>
#include <mutex>
#include <string>

namespace flashcore::emu {

class ModuleFiles {
 public:
  void add(const std::string& path, int descriptor);
  void remove(const std::string& path);
    /** A path under which another process can read the module loaded from `path`. */
  std::string readable_path(const std::string& path);

 private:
  std::mutex mutex_;
  std::map<std::string, int> descriptors_;
};

ModuleFiles& module_files();

}  // namespace flashcore::emu
