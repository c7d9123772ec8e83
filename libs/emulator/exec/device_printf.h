#pragma once
#include <cstddef>
#include <string>

namespace flashcore::emu {

/** Writes what kernels printed to stdout; called when a launch has ended. */
void flush_device_printf();

/** Most that a GPU keeps of what a launch prints; more of one conversion is not made either. */
constexpr size_t PRINTF_BUFFER_BYTES = 1 << 20;

/** Keeps a text, which may have zeros in it, until the launch has ended. */
void collect_printf(const std::string& text);

}  // namespace flashcore::emu
