// Phase barriers in shared memory (sm_90): threads arrive, bulk copies count bytes in. What a barrier knows is kept
// here, beside the 8 bytes of shared memory that it has for itself.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "../exec/tensor_map.h"

namespace flashcore::emu::ptx {

class BlockRun;
class Warp;
struct Ins;

/** A bulk copy to shared memory that was issued; it lands when somebody waits for its barrier. */
struct BulkCopy {
  const Ins* ins;
  BlockRun *issuer, *block;  // block: whose shared memory it writes
  unsigned warp, lane;       // of the issuer
  uint32_t to;
  unsigned bytes;
  const char* from;  // of a plain one
  bool tiled;
  TensorMap map;
  int32_t at[TENSOR_MAP_RANK];
};

/** cp.async.mbarrier.arrive: a thread arrives when its cp.async before it have landed. */
struct CopyArrival {
  unsigned warp, lane;
  uint64_t before;  // Copy::number
};

struct Mbarrier {
  uint32_t expected = 0;  // arrivals a phase
  int64_t pending = 0;    // arrivals that the phase still lacks
  int64_t bytes = 0;      // that copies still have to bring
  uint64_t phase = 0;
  bool awaited = false;            // threads are parked here
  const Ins* made = nullptr;       // where it was initialised
  const Ins* announced = nullptr;  // where bytes were announced last
  std::vector<BulkCopy> coming;
  std::vector<CopyArrival> arriving;
  bool has_something_coming() const { return !coming.empty() || !arriving.empty(); }
};

/** Those of a block, by their offset in its shared memory. */
class Mbarriers {
 public:
  void clear() { barriers_.clear(); }
  void forget(uint32_t offset) { barriers_.erase(offset); }
  Mbarrier& initialise(uint32_t offset, uint32_t count, const Ins* i);
  /** Null if there is none. */
  Mbarrier* find(uint32_t offset);
  /** Ends the phase if nothing is lacking: who waits goes on. */
  void complete_if_full(BlockRun& block, uint32_t offset, Mbarrier& barrier);
  /** Carries out the copies that count in at it. */
  void land(BlockRun& block, uint32_t offset, Mbarrier& barrier);
  /** The same for all; false if there was none. */
  bool land_all(BlockRun& block);
  /** Adds which ones threads wait for, and what these lack. */
  void describe_waited(const BlockRun& block, std::string& message) const;

 private:
  std::map<uint32_t, Mbarrier> barriers_;
};

/** The initialised barrier that a lane names. Faults where there is none. */
Mbarrier& barrier_at(Warp& w, const Ins* i, unsigned lane, uint64_t address, BlockRun** block, uint32_t* offset);

/** Carries out the cp.async of a lane with numbers below `before`. */
void land_copies(BlockRun& block, unsigned warp, unsigned lane, uint64_t before);

/** Does what a copy says. */
void carry_out(const BulkCopy& copy);

}  // namespace flashcore::emu::ptx
