// Phase barriers in shared memory (sm_90): threads arrive, and bulk copies count their bytes. A barrier's state is kept
// here, separate from the 8 bytes that the barrier occupies in shared memory.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "../exec/tensor_map.h"
#include "orders.h"

namespace flashcore::emu::ptx {

class BlockRun;
class Warp;
struct Ins;

/** A bulk copy to shared memory that was issued. It is carried out when a thread waits for its barrier. */
struct BulkCopy {
  const Ins* ins;
  BlockRun *issuer, *block;  // `block`: the block whose shared memory is written
  unsigned warp, lane;  // of the issuer
  uint32_t to;
  unsigned bytes;
  const char* from;  // source of a copy without a tensor map
  bool tiled;
  TensorMap map;
  int32_t at[TENSOR_MAP_RANK];
};

/** cp.async.mbarrier.arrive: the thread arrives when its earlier cp.async have been carried out. */
struct CopyArrival {
  unsigned warp, lane;
  uint64_t before;  // Copy::number
  uint32_t stamp;  // for the race check
};

struct Mbarrier {
  uint32_t expected = 0;  // arrivals per phase
  int64_t pending = 0;  // arrivals still missing in this phase
  int64_t bytes = 0;  // bytes that copies still have to deliver
  uint64_t phase = 0;
  bool awaited = false;  // true if threads wait here
  const Ins* made = nullptr;  // the instruction that initialized it
  const Ins* announced = nullptr;  // the instruction that last announced bytes
  std::vector<BulkCopy> coming;
  std::vector<CopyArrival> arriving;
  PhaseClocks clocks;  // for the race check, like the next two members
  unsigned copier = 0;
  bool from_outside = false;  // another block of the cluster arrived in this phase
  bool has_something_coming() const { return !coming.empty() || !arriving.empty(); }
};

/** The mbarriers of a block, by their offset in its shared memory. */
class Mbarriers {
 public:
  void clear() {
    barriers_.clear();
    made_ = 0;
  }
  void forget(uint32_t offset) { barriers_.erase(offset); }
  Mbarrier& initialise(uint32_t offset, uint32_t count, const Ins* i);
  /** The barrier at this offset; null if there is none. */
  Mbarrier* find(uint32_t offset);
  /** Ends the phase if nothing is missing, which releases the waiting threads. */
  void complete_if_full(BlockRun& block, uint32_t offset, Mbarrier& barrier);
  /** Carries out the copies that count their bytes at this barrier. */
  void land(BlockRun& block, uint32_t offset, Mbarrier& barrier);
  /** Carries out the copies of all barriers. Returns false if there were none. */
  bool land_all(BlockRun& block);
  /** Adds the barriers that threads wait for, and what each of them lacks. */
  void describe_waited(const BlockRun& block, std::string& message) const;

 private:
  std::map<uint32_t, Mbarrier> barriers_;
  unsigned made_ = 0;
};

/** The initialized barrier that a lane names. Faults if there is none. */
Mbarrier& barrier_at(Warp& w, const Ins* i, unsigned lane, uint64_t address, BlockRun** block, uint32_t* offset);

/** Carries out the cp.async that an arrival waits for. */
void land_copies(BlockRun& block, const CopyArrival& arrival);

/** Carries out a bulk copy, whose bytes are counted by a barrier of the block `counting`. */
void carry_out(const BulkCopy& copy, BlockRun& counting, Mbarrier& barrier);

}  // namespace flashcore::emu::ptx
