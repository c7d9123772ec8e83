// NVIDIA's run-time compiler as a program, for hosts that have libnvrtc but no nvcc.
//
//   nvrtc <folder of libnvrtc> --version                           prints its release and the architectures it knows
//   nvrtc <folder of libnvrtc> <option>... -o <file.ptx> <file.cu>
//
// Options are passed to NVRTC unchanged. Messages of NVRTC and its ptxas go to standard error.
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int DOES_NOT_COMPILE = 1, NOT_USABLE = 3;

// Copied from nvrtc.h, because a host that has only the library lacks the header.
using Program = void*;
struct Nvrtc {
  int (*create)(Program*, const char* source, const char* name, int headers, const char* const*, const char* const*);
  int (*compile)(Program, int count, const char* const* options);
  int (*log_size)(Program, size_t*);
  int (*log)(Program, char*);
  int (*ptx_size)(Program, size_t*);
  int (*ptx)(Program, char*);
  int (*arch_count)(int*);
  int (*archs)(int*);
  const char* (*error_text)(int);
};

[[noreturn]] void stop(const std::string& why) {
  fprintf(stderr, "nvrtc: error: %s\n", why.c_str());
  exit(NOT_USABLE);
}

/** The files "<stem>.so", "<stem>.so.13" … of a folder. Longer versions come first. */
std::vector<std::string> libraries(const std::string& folder, const std::string& stem) {
  std::vector<std::string> found;
  DIR* all = opendir(folder.c_str());
  if (!all) stop(folder + " can't be read");
  const std::string begin = stem + ".so";
  while (const dirent* entry = readdir(all)) {
    const std::string name = entry->d_name;
    const std::string rest = name.compare(0, begin.size(), begin) == 0 ? name.substr(begin.size()) : "?";
    if (rest.find_first_not_of(".0123456789") == std::string::npos) found.push_back(folder + "/" + name);
  }
  closedir(all);
  std::sort(found.begin(), found.end(), [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  return found;
}

Nvrtc load(const std::string& folder) {
  // Opens this library by its path, because the loader may not find it by the bare name that NVRTC uses.
  for (const std::string& path : libraries(folder, "libnvrtc-builtins")) dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* library = nullptr;
  for (const std::string& path : libraries(folder, "libnvrtc"))
    if (!library) library = dlopen(path.c_str(), RTLD_NOW);
  if (!library) {
    const char* why = dlerror();
    stop(why ? why : folder + " has no libnvrtc.so");
  }
  const auto named = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (!function) stop(std::string(name) + " is missing: install NVRTC 11.2 or later");
  };
  Nvrtc nvrtc;
  named("nvrtcCreateProgram", nvrtc.create);
  named("nvrtcCompileProgram", nvrtc.compile);
  named("nvrtcGetProgramLogSize", nvrtc.log_size);
  named("nvrtcGetProgramLog", nvrtc.log);
  named("nvrtcGetPTXSize", nvrtc.ptx_size);
  named("nvrtcGetPTX", nvrtc.ptx);
  named("nvrtcGetNumSupportedArchs", nvrtc.arch_count);
  named("nvrtcGetSupportedArchs", nvrtc.archs);
  named("nvrtcGetErrorString", nvrtc.error_text);
  return nvrtc;
}

struct Compiled {
  bool done;
  std::string log, ptx;
};

Compiled compile(const Nvrtc& nvrtc, const std::string& source, const char* name,
                 const std::vector<const char*>& options) {
  const auto expect = [&](int result) {
    if (result) stop(nvrtc.error_text(result));
  };
  Program program = nullptr;
  expect(nvrtc.create(&program, source.c_str(), name, 0, nullptr, nullptr));
  const int result = nvrtc.compile(program, static_cast<int>(options.size()), options.data());
  Compiled compiled{result == 0, "", ""};
  size_t bytes = 0;
  expect(nvrtc.log_size(program, &bytes));
  compiled.log.resize(bytes);
  expect(nvrtc.log(program, &compiled.log[0]));
  compiled.log.resize(strlen(compiled.log.c_str()));
  if (!compiled.done) {
    if (compiled.log.empty()) stop(nvrtc.error_text(result));
    return compiled;
  }
  expect(nvrtc.ptx_size(program, &bytes));
  compiled.ptx.resize(bytes);
  expect(nvrtc.ptx(program, &compiled.ptx[0]));
  compiled.ptx.resize(strlen(compiled.ptx.c_str()));
  return compiled;
}

/**
 * Prints the version that NVRTC writes into PTX ("V13.0.88"), then "sm_75" and the other architectures, one per line.
 */
int describe(const Nvrtc& nvrtc) {
  const Compiled empty = compile(nvrtc, "extern \"C\" __global__ void empty() {}", "empty.cu", {});
  const size_t at = empty.ptx.find(", V");
  if (at == std::string::npos) stop("does not say its version: " + empty.log);
  puts(empty.ptx.substr(at + 2, empty.ptx.find('\n', at) - at - 2).c_str());
  int count = 0;
  if (nvrtc.arch_count(&count)) stop("does not say its architectures");
  std::vector<int> archs(static_cast<size_t>(count));
  if (nvrtc.archs(archs.data())) stop("does not say its architectures");
  for (const int arch : archs) printf("sm_%d\n", arch);
  return 0;
}

std::string text_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) stop(std::string(path) + " can't be read");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) stop("must be told the folder of libnvrtc, and what to do");
  const Nvrtc nvrtc = load(argv[1]);
  if (!strcmp(argv[2], "--version")) return describe(nvrtc);
  std::vector<const char*> options;
  const char *output = nullptr, *unit = nullptr;
  for (int n = 2; n < argc; ++n) {
    if (!strcmp(argv[n], "-o") && n + 1 < argc)
      output = argv[++n];
    else if (n == argc - 1)
      unit = argv[n];
    else
      options.push_back(argv[n]);
  }
  if (!output || !unit) stop("must be told what to write: -o file.ptx file.cu");
  const Compiled compiled = compile(nvrtc, text_of(unit), unit, options);
  fputs(compiled.log.c_str(), stderr);
  if (!compiled.done) return DOES_NOT_COMPILE;
  std::ofstream file(output, std::ios::binary);
  file << compiled.ptx;
  file.close();
  if (!file) stop(std::string(output) + " can't be written: No space left on device");
  return 0;
}
