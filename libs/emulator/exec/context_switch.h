// The emulator's only assembly: it leaves one stack and continues on another.
//
// A switch ends with an indirect jump, not `ret`: a processor predicts the target of `ret` from the latest call, which
// another fibre made. Indirect jumps predict well because the lanes of a warp leave one line for the same next line. If
// the call of switch_context is a function's last statement it compiles to a jump, so a waiting fibre keeps only the
// frame of saved registers below.
#pragma once
#include <cstdint>

namespace flashcore::emu {

/**
 * Saves the current fibre's place in *from and continues at `to`, which an earlier switch saved or prepare_stack made.
 * The call of switch_context that saved `to` returns `answer`.
 */
void* switch_context(void** from, void* to, void* answer) __asm__("flashcore_emu_switch_context");

/** Returns a place from which switch_context calls `start` on a fresh stack that ends below `stack_top`. */
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
