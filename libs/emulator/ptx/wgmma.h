// Watches the accumulators of a warp's asynchronous products until the warp waits for them.
#pragma once
#include <cstdint>
#include <map>

namespace flashcore::emu::ptx {

class BlockRun;
class Warp;
struct Ins;

/**
 * The products of one warp. Uses the program's registers, not slots, because a slot may be reused by another register.
 */
class Products {
 public:
  void start(const BlockRun& block, const Ins* i);
  void commit() { ++committed_; }
  /** Number of groups committed so far. */
  uint32_t committed() const { return committed_; }
  /** Marks the first `groups` groups as finished. */
  void wait(uint32_t groups);
  /** Faults if the instruction reads an unfinished accumulator. */
  void check(Warp& w, const Ins* i);

 private:
  struct Busy {
    const Ins* ins;
    uint32_t group;
  };
  std::map<int, Busy> busy_;
  uint32_t committed_ = 0;
};

}  // namespace flashcore::emu::ptx
