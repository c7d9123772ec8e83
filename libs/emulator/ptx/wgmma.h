// The accumulators of a warp's asynchronous products, watched until they are waited for.
#pragma once
#include <cstdint>
#include <map>

namespace flashcore::emu::ptx {

class BlockRun;
class Warp;
struct Ins;

/** Of one warp. Registers are those of the program, not slots: a slot may serve another one meanwhile. */
class Products {
 public:
  void start(const BlockRun& block, const Ins* i);
  void commit() { ++committed_; }
  /** Groups so far. */
  uint32_t committed() const { return committed_; }
  /** The first `groups` groups are there. */
  void wait(uint32_t groups);
  /** Faults where the instruction reads what is not there yet. */
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
