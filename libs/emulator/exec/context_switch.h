// The only assembly of the emulator: leaving one stack and going on where another was left.
//
// Whoever goes on returns by an indirect jump and not by `ret`: a processor predicts `ret` by the latest call, which is
// another fibre's, and lanes of a warp come from one line while they go to the next. As the last thing a function does
// the call of switch_context becomes a jump, so that a fibre that waits keeps one frame, of the registers below.
#pragma once
#include <cstdint>

namespace flashcore::emu {

/**
 * Saves where this fibre stands to *from and goes on at `to` (a saved place, or one of prepare_stack), where the call of
 * switch_context that left it returns `answer`.
 */
void* switch_context(void** from, void* to, void* answer) __asm__("flashcore_emu_switch_context");

/** A place from which switch_context starts `start` on a fresh stack that ends below `stack_top`. */
inline void* prepare_stack(char* stack_top, void (*start)()) {
  void** sp = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(stack_top) & ~uintptr_t(15));
#if defined(__x86_64__)
  constexpr int REGISTERS = 6;
  *--sp = nullptr;  // return address (start never returns): as after a call, the stack is 8 below a multiple of 16
  *--sp = reinterpret_cast<void*>(start);
#else
  constexpr int REGISTERS = 19;  // x19 to x29 and d8 to d15
  *--sp = reinterpret_cast<void*>(start);  // x30
#endif
  for (int i = 0; i < REGISTERS; ++i) *--sp = nullptr;
  return sp;
}

}  // namespace flashcore::emu
