// Which registers of a statement go into which others: for what follows values that nobody has written.
#pragma once
#include <cstdint>
#include <vector>

#include "program.h"

namespace flashcore::emu::ptx {

/** How sources get into results. */
enum class FlowKind : uint8_t {
  Clean,      // the results are of nothing that is followed
  Any,        // each source into all results, lane by lane
  Move,       // a copy, byte by byte
  Halves,     // half by half: results and sources are pairs of 16 bits
  PackHalves,  // two floats into a pair, the upper one first
  Pack,       // several registers side by side
  Unpack,
  Widen,      // the halves of a pair into numbers of their own
  Run,        // chains of multiply-adds: each into its own result
  Permute,    // prmt by a constant
  Select,     // by a predicate, the third source
  Both,       // and of predicates, perhaps behind a comparison: one that is false decides
  Either,     // or: one that is true does
  Load,
  Store,
  Atomic,
  Shuffle,
  Meeting,    // any lane's source into all lanes' results
  MatrixLoad,
  MatrixStore,
  MatrixMove,
  Product,    // mma
  WarpLoad,   // wmma.load of A and B
  WarpSums,   // wmma.load and wmma.store of C and D
  WarpProduct,
  GroupProduct,  // wgmma
  Ends           // nothing is made of its sources: they decide what happens
};

struct Flow {
  struct Source {
    uint32_t slot;
    uint8_t bytes;   // bits of those that count
    bool is_predicate = false, is_negated = false;
  };
  FlowKind kind = FlowKind::Clean;
  std::vector<Source> sources;
  std::vector<uint32_t> results;  // slots
  std::vector<uint32_t> addresses;
  std::vector<uint32_t> lengths;  // of Run: sources of each chain
  uint32_t guard = ~0u;
  uint32_t selector = 0;  // of Permute; of Pack and Unpack bytes of a part
};

/** `slots`: where registers lie. */
Flow flow_of(const Statement& s, const std::vector<uint32_t>& slots, const std::vector<Register>& registers);

}  // namespace flashcore::emu::ptx
