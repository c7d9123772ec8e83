// Tracks values that were read from unwritten memory. Such a value is a fault only if it determines a branch, an
// address or the contents of device memory. Active in runs that look for races.
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

/**
 * The tracked facts about a lane's register: which bytes depend on unwritten memory (bits 0 to 7), and the origin (bits
 * 8 to 15).
 */
using Tag = uint16_t;
using Tags = std::array<Tag, LANES>;

class Taint {
  static constexpr unsigned NO_ROW = LANES;

 public:
  void begin(BlockRun& block);
  /** True if step() must execute the warp's instructions, because some register is tracked. */
  bool follows(const Warp& w) const { return followed_[w.index] != 0; }
  /** True if the latest instruction has read unwritten memory. The caller must then call after(). */
  bool has_read() const { return has_read_; }
  const Ins* step(Warp& w, const Ins* i);
  void after(Warp& w, const Ins* i);
  /**
   * Records which bytes of a row an access has read unwritten, as one bit per byte. Rows are lanes, except for
   * instructions that read matrices. The record lasts until after().
   */
  void read(unsigned row, uint64_t bytes, uint8_t origin);
  /** The origin of the tracked value in a byte of shared memory; 0 if it is not tracked. */
  uint8_t origin_in_shared(uint32_t offset) const {
    return offset < shared_origins_.size() ? shared_origins_[offset] : uint8_t(0);
  }
  /** A copy has put a value that depends on unwritten memory into a byte of shared memory. */
  void copy_to_shared(uint32_t offset, uint8_t origin);
  enum class Source : uint8_t { Memory, Shuffle, Register, Local };
  /** The origin that an earlier read at this line has; 0 if this is the first read there. */
  uint8_t origin_at(const Ins* i, Source source) const;
  uint8_t add_origin(const Ins* i, Source source, Fault fault);
  /** The origin of a value that some launch stored to a workspace; `number` is GlobalShadow's number of its fault. */
  uint8_t origin_from_workspace(uint32_t number, const Fault& fault);
  const Fault& fault_of(uint8_t origin) const { return origins_[origin - 1u]; }
  /** True if what the instruction reads can be tracked. If not, an unwritten read is itself a fault. */
  bool carries(const Ins* i) const;
  /** True if the instruction is a copy, for which Shadow::follow_copies() looks for unwritten bytes when it lands. */
  bool copies(const Ins* i) const;
  /**
   * A lane reads or writes bytes of the block's local memory. Written bytes count as known unless step() decides
   * otherwise.
   */
  void local(const LaneAccess& by, const char* at);
  /**
   * Sets the row that the following accesses belong to. Without an argument, accesses belong to the lanes that make
   * them.
   */
  void name_row(unsigned row = NO_ROW) { named_row_ = row; }
  /** These lanes read from a lane that takes no part in the shuffle. */
  void shuffled_from_outside(Warp& w, const Ins* i, uint32_t lanes);
  /** Assigns what a wgmma has just read to rows. `outer_of` gives the row of A or the column of B for each byte. */
  template <class Outer>
  void to_operand(bool is_left, const Outer& outer_of) {
    for (unsigned row = 0; row < LANES; ++row)
      for (uint64_t left = read_[row]; left; left &= left - 1)
        operand(is_left, outer_of(row, static_cast<unsigned>(__builtin_ctzll(left)))) = read_origin_[row];
    read_.fill(0);
  }
  /** A value that depends on unwritten memory reaches device memory, a branch or an address. */
  void reach(const LaneAt& at, uint8_t origin, const char* what);
  /** The first fault of reach() since the latest barrier. */
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
  /** A register of some lanes. */
  struct Register {
    uint32_t slot, lanes;
  };
  void reach_by(Warp& w, const Ins* i, const Register& used, const char* what);
  void look_at_sinks(Warp& w, const Ins* i, const Flow& flow, uint32_t m);
  void move(Warp& w, const Ins* i, const Flow& flow, uint32_t m);
  void clear(const Warp& w, const std::vector<uint32_t>& slots, uint32_t lanes);
  void to_results(const Warp& w, const Flow& flow, uint32_t lanes, const Tags& tags);
  struct Sources {
    const Flow::Source *begin, *end;
  };
  Tags any_of(Warp& w, const Ins* i, const Flow& flow, uint32_t m) {
    return any_of(w, i, m, {flow.sources.data(), flow.sources.data() + flow.sources.size()});
  }
  Tags any_of(Warp& w, const Ins* i, uint32_t m, const Sources& sources);
  void load(Warp& w, const Ins* i, const Flow& flow, uint32_t m);
  void store(Warp& w, const Ins* i, const Flow& flow, uint32_t m);
  void store_bytes(const LaneAt& at, uint64_t address, unsigned bytes, const uint8_t* origins);
  void move_halves(Warp& w, const Ins* i, const Flow& flow, uint32_t m);
  void move_bytes(Warp& w, const Ins* i, const Flow& flow, uint32_t m);
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
  size_t words_ = 0;  // number of words in a warp's frame
  std::vector<int16_t> index_;  // by warp and word: index into tags_, or NO_TAGS
  std::vector<std::vector<Tags>> tags_;  // by warp
  std::vector<std::vector<int16_t>> unused_;
  std::vector<uint32_t> followed_;  // by warp: number of registers with tags
  std::vector<Fault> origins_;  // the origins, numbered from 1
  std::map<uint64_t, uint8_t> origins_at_;
  std::map<uint32_t, uint8_t> origins_from_workspace_;
  std::vector<uint8_t> shared_origins_, local_origins_;  // by byte
  bool has_read_ = false, follows_local_ = false;
  unsigned named_row_ = NO_ROW;
  std::array<uint64_t, LANES> read_{};
  std::array<uint8_t, LANES> read_origin_{};
  uint32_t from_outside_ = 0;
  uint8_t outside_origin_ = 0;
  Operands operands_{};  // origins by row of A and by column of B
  uint32_t decided_ = 0;  // the lanes in which a known source decides the result (FlowKind::Both, Either)
};

}  // namespace flashcore::emu::ptx
