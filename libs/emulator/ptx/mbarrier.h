// Phase barriers in shared memory (sm_90): threads arrive, and bulk copies count their bytes. A barrier's state is kept
// in these classes, not in the 8 bytes that the barrier occupies in shared memory.
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
struct LaneAt;
struct Ins;

/** A bulk copy to shared memory that was issued. It is carried out when a thread waits at its barrier. */
struct BulkCopy {
  const Ins* ins;
  BlockRun *issuer, *block;  // `block` is the block whose shared memory is written
  unsigned warp, lane;  // warp and lane of the thread that issued it
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
  uint64_t before;  // the arrival waits for copies whose Copy::number is below this
  uint32_t stamp;  // for the race check
};

struct Mbarrier {
  uint32_t expected = 0;  // number of arrivals per phase
  int64_t pending = 0;  // number of arrivals still missing in this phase
  int64_t bytes = 0;  // number of bytes that copies still have to deliver
  uint64_t phase = 0;
  bool awaited = false;  // true if threads wait at the barrier
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
  /** Ends the phase if no arrival or byte is missing, which releases the waiting threads. */
  void complete_if_full(BlockRun& block, uint32_t offset, Mbarrier& barrier);
  /** Carries out the copies that count their bytes at this barrier. */
  void land(BlockRun& block, uint32_t offset, Mbarrier& barrier);
  /** Carries out the copies of all barriers. Returns false if there were none. */
  bool land_all(BlockRun& block);
  /** Adds to the message the barriers that threads wait at, and what each barrier lacks. */
  void describe_waited(const BlockRun& block, std::string& message) const;

 private:
  std::map<uint32_t, Mbarrier> barriers_;
  unsigned made_ = 0;
};

/** The initialized barrier that a lane's address names. Faults if there is none. */
Mbarrier& barrier_at(const LaneAt& at, BlockRun** block, uint32_t* offset);

/** Carries out the cp.async copies that an arrival waits for. */
void land_copies(BlockRun& block, const CopyArrival& arrival);

/** Carries out a bulk copy whose bytes a barrier of the block `counting` counts. */
void carry_out(const BulkCopy& copy, BlockRun& counting, Mbarrier& barrier);

}  // namespace flashcore::emu::ptx
