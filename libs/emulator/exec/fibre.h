// A CUDA thread: a fibre with its own stack. The fibres of a block share one OS thread and never leave it.
#pragma once
#include <vector>

#include "../include/flashcore_emulator/abi.h"

namespace flashcore::emu {

class Block;
struct Warp;

/** A cp.async that has been issued and not yet carried out. */
struct AsyncCopy {
  void* destination;
  const void* source;
  unsigned bytes;
  unsigned source_bytes;
  unsigned group;
};

enum class FibreState : unsigned char { Ready, AtBarrier, AtWarpMeeting, Exited };

/** A switch touches the second cache line, and `answer`. */
struct alignas(64) Fibre : ThreadState {
  void* context = nullptr;      // where it stands while it does not run
  Fibre* next = nullptr;        // in the ready queue or in a barrier's list
  Warp* warp = nullptr;
  const char* waits_for = nullptr;
  Place place{};
  FibreState state = FibreState::Ready;
  unsigned char meeting = 0;    // slot within its warp

  void* answer = nullptr;       // what the call that it waits in will return
  char* stack_top = nullptr;
  std::vector<AsyncCopy> copies;
  unsigned open_group = 0;
};

inline Fibre* current_fibre() { return static_cast<Fibre*>(flashcore_emu_thread); }

/** Stacks of one OS thread's fibres, grown on demand and used again by the next block. */
class StackPool {
 public:
  static constexpr size_t STACK_BYTES = 128 * 1024;

  StackPool() = default;
  StackPool(const StackPool&) = delete;
  ~StackPool();
    /** Top of the stack of fibre `index`. Below the stack lies a guard page. */
  char* top(size_t index);
    /** True if the address lies in the guard page below one of the stacks. */
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
