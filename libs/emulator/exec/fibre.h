// A CUDA thread as a fibre with a stack of its own. The fibres of a block share one OS thread and never leave it.
#pragma once
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

/** A switch touches only the second cache line, and `answer`. */
struct alignas(64) Fibre : ThreadState {
  void* context = nullptr;      // saved place while the fibre is not running
  Fibre* next = nullptr;        // in the ready queue or in a barrier's list
  Warp* warp = nullptr;
  const char* waits_for = nullptr;
  Place place{};
  FibreState state = FibreState::Ready;
  unsigned char meeting = 0;    // slot within its warp

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

}  // namespace flashcore::emu
