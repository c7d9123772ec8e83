#pragma once
#include <cstddef>
#include <string>

namespace flashcore::emu {

/** Writes the kernels' collected output to stdout; called after each launch. */
void flush_device_printf();

/** The most that a GPU keeps of a launch's output. A single conversion is cut to this size too. */
constexpr size_t PRINTF_BUFFER_BYTES = 1 << 20;

/** Collects a text, which may contain zeros, until the launch has ended. */
void collect_printf(const std::string& text);

}  // namespace flashcore::emu
