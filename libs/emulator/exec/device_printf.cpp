// Device printf. The output is collected in a buffer as large as a GPU's (1 MB), and written when the launch has ended.
#include "launch_plan.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <string>

#include "../include/flashcore_emulator/abi.h"

namespace flashcore::emu {

namespace {
std::mutex mutex;
std::string collected;
size_t dropped = 0;
}  // namespace

void flush_device_printf() {
  const std::lock_guard<std::mutex> lock(mutex);
  if (collected.empty()) return;
  fwrite(collected.data(), 1, collected.size(), stdout);
  if (dropped) fprintf(stdout, "[%zu more lines did not fit the printf buffer]\n", dropped);
  fflush(stdout);
  collected.clear();
  dropped = 0;
}

void collect_printf(const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (collected.size() + text.size() > PRINTF_BUFFER_BYTES)
    ++dropped;
  else
    collected += text;
}

}  // namespace flashcore::emu

extern "C" __attribute__((visibility("default"))) int flashcore_emu_printf(const char* format, ...) {
  using namespace flashcore::emu;
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (length < 0) return length;
  collect_printf({line, std::min(static_cast<size_t>(length), sizeof line - 1)});
  return length;
}
