// Which source registers of a statement flow into which results; used to track unwritten values.
#pragma once
#include <cstdint>
#include <vector>

#include "program.h"

namespace flashcore::emu::ptx {

/** How sources flow into results. */
enum class FlowKind : uint8_t {
  Clean,      // the results carry nothing that is tracked
  Any,        // each source flows into all results, lane by lane
  Move,       // copied byte by byte
  Halves,     // pairs of 16 bits: each half flows into the same half
  PackHalves,  // packs two floats into a pair, the upper one first
  Pack,       // places several registers side by side
  Unpack,
  Widen,      // converts the halves of a pair to separate numbers
  Run,        // chains of multiply-adds: each flows into its own result
  Permute,    // prmt with a constant selector
  Select,     // chosen by the third source, a predicate
  Both,       // and of predicates, perhaps after a comparison: a false one decides
  Either,     // or of predicates: a true one decides
  Load,
  Store,
  Atomic,
  Shuffle,
  Meeting,    // any lane's source flows into all lanes' results
  MatrixLoad,
  MatrixStore,
  MatrixMove,
  Product,    // mma
  WarpLoad,   // wmma.load of A and B
  WarpSums,   // wmma.load and wmma.store of C and D
  WarpProduct,
  GroupProduct,  // wgmma
  Ends           // no results: the sources decide what happens
};

struct Flow {
  struct Source {
    uint32_t slot;
    uint8_t bytes;   // bit mask of the bytes that flow
    bool is_predicate = false, is_negated = false;
  };
  FlowKind kind = FlowKind::Clean;
  std::vector<Source> sources;
  std::vector<uint32_t> results;  // slots
  std::vector<uint32_t> addresses;
  std::vector<uint32_t> lengths;  // for Run: number of sources of each chain
  uint32_t guard = ~0u;
  uint32_t selector = 0;  // for Permute the selector; for Pack and Unpack the bytes of a part
};

/** `slots`: the slot of each register. */
Flow flow_of(const Statement& s, const std::vector<uint32_t>& slots, const std::vector<Register>& registers);

}  // namespace flashcore::emu::ptx
