#include "fault.h"

#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

extern char** environ;

namespace flashcore::emu {

namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      char escape[8];
      snprintf(escape, sizeof escape, "\\u%04x", byte);
      out += escape;
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string triple(const uint3& v) {
  return "[" + std::to_string(v.x) + "," + std::to_string(v.y) + "," + std::to_string(v.z) + "]";
}

std::string hexadecimal(uint64_t value) {
  char text[24];
  snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

/** The first 4 KB of a program's standard output; empty if it could not run. */
std::string output_of(const char* program, const char* const* arguments) {
  int ends[2];
  if (pipe(ends) != 0) return "";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", 1 /* O_WRONLY */, 0);
  pid_t child;
  const int failed = posix_spawnp(&child, program, &actions, nullptr, const_cast<char**>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string output;
  if (!failed) {
    char buffer[1024];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
      if (output.size() < 4096) output.append(buffer, static_cast<size_t>(n));
    int status;
    waitpid(child, &status, 0);
  }
  close(ends[0]);
  return output;
}

}  // namespace

std::string describe(const uint3& index) {
  return "(" + std::to_string(index.x) + "," + std::to_string(index.y) + "," + std::to_string(index.z) + ")";
}

std::string describe_code_address(const void* program_counter) {
  Dl_info info;
  if (!program_counter || !dladdr(program_counter, &info) || !info.dli_fname) return "";
  const auto offset = reinterpret_cast<uintptr_t>(program_counter) - reinterpret_cast<uintptr_t>(info.dli_fbase);
  const std::string where = hexadecimal(offset);
  const std::string file = module_files().readable_path(info.dli_fname);
  const char* const arguments[] = {"addr2line", "-e", file.c_str(), "-i", where.c_str(), nullptr};
  std::string text = output_of("addr2line", arguments);
    // Frames are innermost first. Skip the emulator's own headers to find the kernel's line.
  size_t start = 0;
  while (start < text.size()) {
    const size_t end = text.find('\n', start);
    std::string line = text.substr(start, end == std::string::npos ? end : end - start);
    start = end == std::string::npos ? text.size() : end + 1;
    const size_t discriminator = line.find(" (discriminator");
    if (discriminator != std::string::npos) line.resize(discriminator);
    if (line.empty() || line[0] == '?' || line[0] == ':' || line.find("emulator/include/") != std::string::npos)
      continue;
    if (line.size() > 2 && line.compare(line.size() - 2, 2, ":?") == 0) continue;
    return line;
  }
  if (!info.dli_sname) return "offset " + where;
  return std::string(info.dli_sname) + "+" +
         hexadecimal(reinterpret_cast<uintptr_t>(program_counter) - reinterpret_cast<uintptr_t>(info.dli_saddr));
}

std::string to_json(const Fault& fault) {
  std::string json = "{\"kind\":" + quoted(fault.kind) + ",\"message\":" + quoted(fault.message) +
                     ",\"error\":" + std::to_string(static_cast<int>(fault.error)) +
                     ",\"entry\":" + quoted(fault.entry) + ",\"block\":" + triple(fault.block);
  if (fault.has_thread) json += ",\"thread\":" + triple(fault.thread);
  if (fault.warp >= 0) json += ",\"warp\":" + std::to_string(fault.warp) + ",\"lanes\":" + std::to_string(fault.lanes);
  if (!fault.place.empty()) json += ",\"place\":" + quoted(fault.place);
  if (fault.has_address) json += ",\"address\":" + quoted(hexadecimal(fault.address));
  if (!fault.access.empty()) json += ",\"access\":" + quoted(fault.access);
  if (fault.bytes) json += ",\"bytes\":" + std::to_string(fault.bytes);
  if (!fault.buffer.empty()) json += ",\"buffer\":" + quoted(fault.buffer);
  if (!fault.threads.empty()) {
    json += ",\"threads_total\":" + std::to_string(fault.threads_total) + ",\"threads\":[";
    for (size_t i = 0; i < fault.threads.size(); ++i)
      json += (i ? ",{\"thread\":" : "{\"thread\":") + triple(fault.threads[i].thread) +
              ",\"waits_at\":" + quoted(fault.threads[i].waits_at) + "}";
    json += "]";
  }
  return json + "}";
}

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
