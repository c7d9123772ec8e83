#pragma once

namespace flashcore::emu {

/** Writes what kernels printed to stdout; called when a launch has ended. */
void flush_device_printf();

}  // namespace flashcore::emu
