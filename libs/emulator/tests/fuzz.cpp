// Fuzzes the PTX engine (fuzz.sh): loads, lowers and runs corpus texts whose tokens are cut, doubled and swapped. Each
// text must end with a result of the driver API, without a report of the sanitizers.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "driver.h"

namespace {

using Tokens = std::vector<std::string>;
using Random = std::mt19937_64;

constexpr unsigned BUFFER_BYTES = 65536;
constexpr unsigned PARAMETER_BYTES = 4096;
constexpr unsigned TIME_LIMIT_MS = 200;
constexpr size_t LONGEST_TEXT = 200'000;

bool is_word(char c) { return isalnum(static_cast<unsigned char>(c)) || strchr("_$%.", c); }

Tokens tokens_of(const std::string& text) {
  Tokens tokens;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (is_word(text[at]))
      while (end < text.size() && is_word(text[end])) ++end;
    tokens.push_back(text.substr(at, end - at));
    at = end;
  }
  return tokens;
}

size_t below(Random& random, size_t count) { return count ? random() % count : 0; }

const std::string& one_of(Random& random, const Tokens& tokens) { return tokens[below(random, tokens.size())]; }

const Tokens ODD_NUMBERS = {"0",
                            "1",
                            "-1",
                            "31",
                            "32",
                            "33",
                            "65535",
                            "2147483647",
                            "2147483648",
                            "4294967296",
                            "9223372036854775807",
                            "18446744073709551615",
                            "-9223372036854775808",
                            "0f7F800000",
                            "0d7FF8000000000000",
                            "1e999"};
const Tokens ODD = {"{",
                    "}",
                    "[",
                    "]",
                    "(",
                    ")",
                    ",",
                    ";",
                    ":",
                    "!",
                    "|",
                    "@",
                    "-",
                    "+",
                    "\"",
                    "_",
                    "<",
                    ">",
                    "/*",
                    "//",
                    "%p1",
                    "%r1",
                    "%rd1",
                    "%f1",
                    ".b8",
                    ".b16",
                    ".b128",
                    ".pred",
                    ".v2",
                    ".v4",
                    ".v8",
                    "bra",
                    "ret",
                    "call",
                    ".align",
                    ".reg",
                    ".param",
                    ".shared",
                    ".local",
                    ".global",
                    "%tid.x",
                    "brx.idx",
                    ".branchtargets"};

/** A token of the corpus whose last part (a type or a mode) is replaced. */
std::string other_modifier(Random& random, const std::string& opcode, const std::string& other) {
  const size_t dot = opcode.rfind('.'), from = other.rfind('.');
  if (dot == std::string::npos || from == std::string::npos) return other;
  return below(random, 2) ? opcode.substr(0, dot) + other.substr(from) : opcode.substr(0, dot);
}

void mutate(Random& random, Tokens& tokens, const Tokens& others) {
  const size_t at = below(random, tokens.size());
  const auto here = tokens.begin() + static_cast<ptrdiff_t>(at);
  const auto some = static_cast<ptrdiff_t>(std::min<size_t>(1 + below(random, 12), tokens.size() - at));
  switch (below(random, 9)) {
    case 0: tokens.erase(here, here + some); break;
    case 1: {
      const Tokens copy(here, here + some);
      tokens.insert(tokens.begin() + static_cast<ptrdiff_t>(below(random, tokens.size())), copy.begin(), copy.end());
      break;
    }
    case 2: std::swap(tokens[at], tokens[below(random, tokens.size())]); break;
    case 3: *here = one_of(random, others); break;
    case 4: *here = one_of(random, below(random, 2) ? ODD : ODD_NUMBERS); break;
    case 5: tokens.insert(here, one_of(random, ODD)); break;
    case 6: *here = other_modifier(random, *here, one_of(random, others)); break;
    case 7: (*here)[below(random, here->size())] = static_cast<char>(32 + below(random, 95)); break;
    default: {
      // Replaces a number, such as a size, an offset or a number of registers.
      const auto is_number = [](const std::string& t) { return isdigit(static_cast<unsigned char>(t[0])) != 0; };
      const auto number = std::find_if(here, tokens.end(), is_number);
      if (number != tokens.end()) *number = one_of(random, ODD_NUMBERS);
    }
  }
}

std::string mutated(Random& random, const std::vector<Tokens>& corpus) {
  Tokens tokens = corpus[below(random, corpus.size())];
  const size_t count = 1 + below(random, 4);
  for (size_t n = 0; n < count && !tokens.empty(); ++n) mutate(random, tokens, corpus[below(random, corpus.size())]);
  std::string text;
  for (const std::string& token : tokens) text += token;
  // Most texts begin with .version, because otherwise they are not recognized as PTX.
  return below(random, 16) ? ".version 8.4\n" + text : text;
}

Tokens entries_of(const std::string& text) {
  Tokens names;
  const std::string mark = ".entry ";
  for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos;) {
    at += mark.size();
    size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    names.push_back(text.substr(at, end - at));
  }
  return names;
}

class Device {
 public:
  Device() {
    CHECK_OK(cuInit(0));
    CHECK_OK(cuDeviceGet(&device_, 0));
    open();
  }

  void run(const std::string& text, Random& random) {
    CUmodule module;
    if (cuModuleLoadData(&module, text.c_str()) != CUDA_SUCCESS) return;
    ++loaded;
    CUfunction function;
    for (const std::string& name : entries_of(text))
      if (cuModuleGetFunction(&function, module, name.c_str()) == CUDA_SUCCESS) launch(function, random);
    cuModuleUnload(module);
  }

  unsigned loaded = 0, launched = 0, ended = 0;

 private:
  void open() {
    CHECK_OK(cuDevicePrimaryCtxRetain(&context_, device_));
    CHECK_OK(cuCtxSetCurrent(context_));
    CHECK_OK(cuMemAlloc_v2(&buffer_, BUFFER_BYTES));
    CHECK_OK(cuMemsetD8_v2(buffer_, 0, BUFFER_BYTES));
    for (CUdeviceptr& parameter : parameters_) parameter = buffer_;
  }

  void launch(CUfunction function, Random& random) {
    size_t bytes = sizeof parameters_;
    void* extra[] = {reinterpret_cast<void*>(1), parameters_, reinterpret_cast<void*>(2), &bytes, nullptr};
    const unsigned shared = below(random, 2) ? 8192 : 0;
    if (cuLaunchKernel(function, 2, 1, 1, 64, 1, 1, shared, nullptr, nullptr, extra) == CUDA_SUCCESS) ++launched;
    if (cuCtxSynchronize() == CUDA_SUCCESS) return void(++ended);
    CHECK_OK(cuDevicePrimaryCtxReset_v2(device_));
    open();
  }

  CUdevice device_;
  CUcontext context_ = nullptr;
  CUdeviceptr buffer_ = 0;
  CUdeviceptr parameters_[PARAMETER_BYTES / 8];
};

std::vector<Tokens> corpus_of(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& file : std::filesystem::directory_iterator(folder)) paths.push_back(file.path().string());
  std::sort(paths.begin(), paths.end());  // sorted, so that a seed gives the same text on every machine
  std::vector<Tokens> corpus;
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.push_back(tokens_of({std::istreambuf_iterator<char>(file), {}}));
  }
  return corpus;
}

}  // namespace

int main(int count, char** arguments) {
  CHECK(count == 5);
  const std::vector<Tokens> corpus = corpus_of(arguments[1]);
  CHECK(!corpus.empty());
  const uint64_t first = strtoull(arguments[2], nullptr, 0), seeds = strtoull(arguments[3], nullptr, 0);
  flashcore_emulator_time_limit(TIME_LIMIT_MS);
  Device device;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    Random random(seed);
    // Every second text runs with memory checks.
    const std::string text = (seed % 2 ? "// flashcore: races\n" : "") + mutated(random, corpus);
    if (text.size() > LONGEST_TEXT) continue;
    std::ofstream(arguments[4], std::ios::binary) << "// seed " << seed << "\n" << text;
    device.run(text, random);
  }
  printf("seeds %llu to %llu: %u loaded, %u launched, %u ended well\n", static_cast<unsigned long long>(first),
         static_cast<unsigned long long>(first + seeds - 1), device.loaded, device.launched, device.ended);
}
