// Values that nobody has written, followed from where they are read: they are a fault when one decides a branch, an
// address or what lies in device memory, and none as long as they do not. In runs that look for races.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "flow.h"
#include "warp.h"

namespace flashcore::emu::ptx {

/** Of a lane's register: which bytes are made of what nobody has written (bits 0 to 7), and its origin (8 to 15). */
using Tag = uint16_t;
using Tags = std::array<Tag, LANES>;

class Taint {
  static constexpr unsigned NO_ROW = LANES;

 public:
  void begin(BlockRun& block);
  /** Whether an instruction of the warp has to be carried out by step(). */
  bool follows(const Warp& w) const { return followed_[w.index] != 0; }
  /** The latest instruction has read what nobody has written: after() is to follow. */
  bool has_read() const { return has_read_; }
  const Ins* step(Warp& w, const Ins* i);
  void after(Warp& w, const Ins* i);
  /**
   * Bytes (bits) of what a row of an access reads. Rows are lanes, but for the instructions that read matrices. Kept
   * until after().
   */
  void read(unsigned row, uint64_t bytes, uint8_t origin);
  /** Where a byte of shared memory got a value that is followed; 0: nowhere. */
  uint8_t origin_in_shared(uint32_t offset) const {
    return offset < shared_origins_.size() ? shared_origins_[offset] : uint8_t(0);
  }
  enum class Source : uint8_t { Memory, Shuffle, Register, Local };
  /** Of the first read at this line; 0: it is the first one. */
  uint8_t origin_at(const Ins* i, Source source) const;
  uint8_t add_origin(const Ins* i, Source source, Fault fault);
  /** Whether what reads is followed; else it is a fault at once. */
  bool carries(const Ins* i) const;
  /**
   * A lane reads or writes bytes of the block's local memory. What it writes counts as known until step() says
   * otherwise.
   */
  void local(Warp& w, const Ins* i, unsigned lane, const char* at, unsigned bytes, bool writes);
  /** Accesses until the next call are of this row; no argument: of the lanes that make them. */
  void name_row(unsigned row = NO_ROW) { named_row_ = row; }
  /** Lanes get what a shuffle gives of a lane that does not take part. */
  void shuffled_from_outside(Warp& w, const Ins* i, uint32_t lanes);
  /** Of rows that a wgmma has read since: which row of A or column of B the element at a byte belongs to. */
  template <class Outer>
  void to_operand(bool is_left, const Outer& outer_of) {
    for (unsigned row = 0; row < LANES; ++row)
      for (uint64_t left = read_[row]; left; left &= left - 1)
        operand(is_left, outer_of(row, static_cast<unsigned>(__builtin_ctzll(left)))) = read_origin_[row];
    read_.fill(0);
  }
  /** Something that is written to device memory is of what nobody has written. */
  void reach(Warp& w, const Ins* i, unsigned lane, uint8_t origin, const char* what);
  /** The first one that matters, since the latest barrier. */
  std::optional<Fault> reached;

 private:
  using Operands = std::array<std::array<uint8_t, 256>, 2>;
  uint8_t& operand(bool is_left, unsigned outer) { return operands_[is_left ? 0 : 1][outer % 256]; }
  const Tags* find(const Warp& w, uint32_t slot) const;
  Tag tag(const Warp& w, uint32_t slot, unsigned lane) const;
  void set(const Warp& w, uint32_t slot, uint32_t lanes, const Tags& tags);
  uint32_t tagged_lanes(const Warp& w, uint32_t slot, uint32_t lanes, uint8_t bytes = 0xff) const;
  void begin_registers(const Warp& w);
  uint8_t with_line(Warp& w, const Ins* i, unsigned lane, uint8_t origin);
  Fault unwritten_fault(Warp& w, const Ins* i, unsigned lane, const char* what);
  void follow(Warp& w, const Ins* i, const Flow& flow, uint32_t m);
  void note_decided(Warp& w, const Flow& flow);
  static Tags turned(const Tags& tags);
  void reach_by(Warp& w, const Ins* i, uint32_t slot, uint32_t lanes, const char* what);
  void look_at_sinks(Warp& w, const Ins* i, const Flow& flow, uint32_t m);
  void move(Warp& w, const Ins* i, const Flow& flow, uint32_t m);
  void clear(const Warp& w, const std::vector<uint32_t>& slots, uint32_t lanes);
  void to_results(const Warp& w, const Flow& flow, uint32_t lanes, const Tags& tags);
  Tags any_of(Warp& w, const Ins* i, const Flow& flow, uint32_t m) {
    return any_of(w, i, flow, m, 0, flow.sources.size());
  }
  Tags any_of(Warp& w, const Ins* i, const Flow& flow, uint32_t m, size_t begin, size_t end);
  void load(Warp& w, const Ins* i, const Flow& flow, uint32_t m);
  void store(Warp& w, const Ins* i, const Flow& flow, uint32_t m);
  void store_bytes(Warp& w, const Ins* i, unsigned lane, uint64_t address, unsigned bytes, const uint8_t* origins);
  void move_halves(Warp& w, const Ins* i, const Flow& flow, uint32_t m);
  void pack(Warp& w, const Flow& flow, uint32_t m);
  void add_up(Warp& w, const Ins* i, const Flow& flow, uint32_t m);
  void permute(Warp& w, const Flow& flow, uint32_t m);
  void select(Warp& w, const Flow& flow, uint32_t m);
  void shuffle(Warp& w, const Ins* i, const Flow& flow, uint32_t m);
  void load_matrices(Warp& w, const Ins* i);
  void store_matrices(Warp& w, const Ins* i, uint32_t m);
  void move_matrix(Warp& w, const Ins* i);
  void load_fragment(Warp& w, const Ins* i);
  void move_sums(Warp& w, const Ins* i);
  void multiply(Warp& w, const Ins* i, const Flow& flow);

  const BlockRun* block_ = nullptr;
  size_t words_ = 0;  // of a warp's frame
  std::vector<int16_t> index_;  // by warp and word: into tags_, or NO_TAGS
  std::vector<std::vector<Tags>> tags_;  // by warp
  std::vector<std::vector<int16_t>> unused_;
  std::vector<uint32_t> followed_;  // by warp: how many registers have tags
  std::vector<Fault> origins_;  // from 1 on
  std::map<uint64_t, uint8_t> origins_at_;
  std::vector<uint8_t> shared_origins_, local_origins_;  // by byte
  bool has_read_ = false, follows_local_ = false;
  unsigned named_row_ = NO_ROW;
  std::array<uint64_t, LANES> read_{};
  std::array<uint8_t, LANES> read_origin_{};
  uint32_t from_outside_ = 0;
  uint8_t outside_origin_ = 0;
  Operands operands_{};  // origins by row of A, by column of B
  uint32_t decided_ = 0;  // lanes of Both and Either for which a source that is known decides
};

}  // namespace flashcore::emu::ptx
