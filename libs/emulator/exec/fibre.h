// A CUDA thread as a fibre with a stack of its own. The fibres of a block share one OS thread and never leave it.
#pragma once
#include <cstdint>
#include <vector>

#include "../include/flashcore_emulator/abi.h"

namespace flashcore::emu {

class Block;
struct Warp;

/** A cp.async that was issued but has not run yet. */
struct AsyncCopy {
  void* destination;
  const void* source;
  unsigned bytes;
  unsigned source_bytes;
  unsigned group;
};

enum class FibreState : unsigned char { Ready, AtBarrier, AtWarpMeeting, Exited };

/** A CUDA thread's fibre. A switch touches only the second cache line, and `answer`. */
struct alignas(64) Fibre : ThreadState {
  void* context = nullptr;      // where the fibre continues; valid while it is not running
  Fibre* next = nullptr;        // in the ready queue or in a barrier's list
  Warp* warp = nullptr;
  const char* waits_for = nullptr;
  Place place{};
  FibreState state = FibreState::Ready;
  unsigned char meeting = 0;    // the slot of the warp's meeting that the fibre waits in

  void* answer = nullptr;       // return value of the call that the fibre waits in
  char* stack_top = nullptr;
  std::vector<AsyncCopy> copies;
  unsigned open_group = 0;
};

inline Fibre* current_fibre() { return static_cast<Fibre*>(flashcore_emu_thread); }

/** The stacks of one OS thread's fibres. They are allocated on demand and reused for the next block. */
class StackPool {
 public:
  static constexpr size_t STACK_BYTES = 128 * 1024;

  StackPool() = default;
  StackPool(const StackPool&) = delete;
  ~StackPool();
    /** Top of the stack of fibre `index`; a guard page is below the stack. */
  char* top(size_t index);
    /** True if the address is in the guard page below one of the stacks. */
  bool is_guard(const void* address) const;

 private:
  struct Slab {
    char* base;
    size_t bytes;
  };
  std::vector<Slab> slabs_;
  std::vector<char*> tops_;
};

size_t page_bytes();

// The emulator's only assembly: switches from one stack to another.
//
// A switch ends with an indirect jump, not `ret`: a processor predicts the target of `ret` from the latest call, which
// another fibre made. Indirect jumps predict well because the lanes of a warp all switch away at one line and continue
// at the same next line. If the call of switch_context is a function's last statement it compiles to a jump, so a
// waiting fibre keeps only the frame of saved registers below.

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
