// Which source registers of a statement flow into which results. Used to track unwritten values.
#pragma once
#include <cstdint>
#include <vector>

#include "program.h"

namespace flashcore::emu::ptx {

/** How sources flow into results. */
enum class FlowKind : uint8_t {
  Clean,      // the results contain no tracked value
  Any,        // each source flows into all results, lane by lane
  Bytes,      // each byte flows into the byte `shift` further up: logic, shifts, conversions of integers
  Move,       // copied byte by byte
  Halves,     // pairs of 16 bits: each half flows into the same half
  PackHalves,  // packs two floats into a pair, the first into the upper half
  Pack,       // places several registers side by side
  Unpack,
  Widen,      // converts the halves of a pair to separate numbers
  Run,        // chains of multiply-adds: the sources of a chain flow into its result
  Permute,    // prmt with a constant selector
  Select,     // select: the third source, a predicate, chooses
  Both,       // and of predicates, perhaps with a comparison: a false predicate decides the result
  Either,     // or of predicates: a true predicate decides the result
  Load,
  Store,
  Copy,       // cp.async and bulk copies; the source's bytes flow into the destination's
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
  Ends           // no results: the sources determine what happens next
};

struct Flow {
  struct Source {
    uint32_t slot;
    uint8_t bytes;   // bit mask of the register's bytes that flow
    bool is_predicate = false, is_negated = false;
  };
  FlowKind kind = FlowKind::Clean;
  std::vector<Source> sources;
  std::vector<uint32_t> results;  // slots
  std::vector<uint32_t> addresses;
  std::vector<uint32_t> lengths;  // for Run: the number of sources of each chain
  uint32_t guard = ~0u;
  int shift = 0;  // for Bytes: in bits, negative for a shift to the right
  uint8_t bytes = 0xff;  // for Bytes: bit mask of the bytes that a source may have
  bool is_signed = false;  // for Bytes: the topmost of these bytes flows into all above it, too
  uint32_t selector = 0;  // for Permute: the selector; for Pack and Unpack: the bytes of a part
};

/** `slots` has the slot of each register. */
Flow flow_of(const Statement& s, const std::vector<uint32_t>& slots, const std::vector<Register>& registers);

}  // namespace flashcore::emu::ptx
