#include "taint.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "block.h"
#include "lower.h"
#include "races.h"

namespace flashcore::emu::ptx {

namespace {

constexpr int16_t NO_TAGS = -1;
// These origins have no line yet. They get the line of the first instruction that computes with the value.
constexpr uint8_t UNWRITTEN_REGISTER = 255, UNWRITTEN_LOCAL = 254, MOST_ORIGINS = 253;
constexpr uint64_t MOST_LOCAL_FOLLOWED = 64 << 20;  // bytes per block
constexpr size_t MOST_TAGS = 32000;

Tag make_tag(uint8_t origin, uint8_t bytes) { return bytes ? static_cast<Tag>(origin << 8 | bytes) : Tag(0); }
uint8_t origin_of(Tag tag) { return static_cast<uint8_t>(tag >> 8); }
uint8_t bytes_of(Tag tag) { return static_cast<uint8_t>(tag); }
Tag joined(Tag a, Tag b) { return a ? static_cast<Tag>(a | bytes_of(b)) : b; }
unsigned lowest(uint32_t lanes) { return static_cast<unsigned>(__builtin_ctz(lanes)); }

struct Space {
  uint8_t number;
  uint64_t window;
};

/** True if an address of the instruction is in this space. Then also sets the address's offset in the space. */
bool lies_in(const Ins* i, const Space& space, uint64_t address, uint64_t* offset) {
  if (i->space == space.number) {
    *offset = address;
    return true;
  }
  *offset = address & ~WINDOW_MASK;
  return i->space == GENERIC_SPACE && (address & WINDOW_MASK) == space.window;
}
bool is_local(const Ins* i, uint64_t address, uint64_t* offset) {
  return lies_in(i, {LOCAL_SPACE, LOCAL_WINDOW}, address, offset);
}
bool is_shared(const Ins* i, uint64_t address, uint64_t* offset) {
  return lies_in(i, {SHARED_SPACE, SHARED_WINDOW}, address, offset);
}

/**
 * Converts a row's bits for its n-th element to bits for the bytes of a register, which is at least as wide as the
 * element.
 */
uint8_t element_bytes(uint64_t read, unsigned n, unsigned bytes, unsigned register_bytes) {
  const uint64_t all = bytes >= 64 ? ~0ull : (1ull << bytes) - 1;
  const auto own = static_cast<uint8_t>(read >> (n * bytes) & all);
  return own && register_bytes != bytes ? ALL_BYTES : own;
}

}  // namespace

void Taint::begin(BlockRun& block) {
  block_ = &block;
  const Kernel& kernel = block.kernel();
  const size_t warps = (block.threads() + LANES - 1) / LANES;
  const bool was_used = std::any_of(followed_.begin(), followed_.end(), [](uint32_t count) { return count != 0; });
  if (was_used || words_ != kernel.frame_bytes / 4 || index_.size() != words_ * warps) {
    words_ = kernel.frame_bytes / 4;
    index_.assign(words_ * warps, NO_TAGS);
  }
  tags_.resize(warps);
  unused_.resize(warps);
  for (size_t n = 0; n < warps; ++n) {
    tags_[n].clear();
    unused_[n].clear();
  }
  const uint64_t local_bytes = block.local_stride * warps * LANES;
  follows_local_ = local_bytes && local_bytes <= MOST_LOCAL_FOLLOWED;
  followed_.assign(warps, 0);
  origins_.clear();
  origins_at_.clear();
  origins_from_workspace_.clear();
  shared_origins_.clear();
  local_origins_.assign(follows_local_ ? local_bytes : 0, UNWRITTEN_LOCAL);
  has_read_ = false;
  read_.fill(0);
  from_outside_ = 0;
  named_row_ = NO_ROW;
  reached.reset();
  for (const Warp& w : block.warps()) begin_registers(w);
}

void Taint::begin_registers(const Warp& w) {
  if (block_->kernel().read_before_written.empty()) return;
  Tags tags;
  tags.fill(make_tag(UNWRITTEN_REGISTER, ALL_BYTES));
  for (const Kernel::Constant& poison : block_->kernel().read_before_written) set(w, poison.slot, ALL, tags);
}

// --- registers -------------------------------------------------------------------------------------------------------

const Tags* Taint::find(const Warp& w, uint32_t slot) const {
  if (slot == NO_SLOT) return nullptr;
  const int16_t at = index_[w.index * words_ + slot / 4];
  return at == NO_TAGS ? nullptr : &tags_[w.index][static_cast<size_t>(at)];
}

Tag Taint::tag(const Warp& w, uint32_t slot, unsigned lane) const {
  const Tags* tags = find(w, slot);
  return tags ? (*tags)[lane] : Tag(0);
}

void Taint::set(const Warp& w, uint32_t slot, uint32_t lanes, const Tags& tags) {
  if (slot == NO_SLOT) return;
  int16_t& at = index_[w.index * words_ + slot / 4];
  std::vector<Tags>& all = tags_[w.index];
  std::vector<int16_t>& unused = unused_[w.index];
  bool any = false;
  for (unsigned k = 0; k < LANES; ++k) any |= (lanes >> k & 1) && tags[k];
  if (at == NO_TAGS) {
    if (!any || (unused.empty() && all.size() == MOST_TAGS)) return;
    if (unused.empty()) {
      all.emplace_back();
      at = static_cast<int16_t>(all.size() - 1);
    } else {
      at = unused.back();
      unused.pop_back();
    }
    all[static_cast<size_t>(at)].fill(0);
    ++followed_[w.index];
  }
  Tags& own = all[static_cast<size_t>(at)];
  Tag left = 0;
  for (unsigned k = 0; k < LANES; ++k) {
    if (lanes >> k & 1) own[k] = tags[k];
    left |= own[k];
  }
  if (left) return;
  unused.push_back(at);
  at = NO_TAGS;
  --followed_[w.index];
}

void Taint::clear(const Warp& w, const std::vector<uint32_t>& slots, uint32_t lanes) {
  for (const uint32_t slot : slots)
    if (find(w, slot)) set(w, slot, lanes, Tags{});
}

void Taint::to_results(const Warp& w, const Flow& flow, uint32_t lanes, const Tags& tags) {
  for (const uint32_t slot : flow.results) set(w, slot, lanes, tags);
}

uint32_t Taint::tagged_lanes(const Warp& w, uint32_t slot, uint32_t lanes, uint8_t bytes) const {
  const Tags* tags = find(w, slot);
  uint32_t tagged = 0;
  for (unsigned k = 0; tags && k < LANES; ++k)
    if ((lanes >> k & 1) && ((*tags)[k] & bytes)) tagged |= 1u << k;
  return tagged;
}

// --- where unwritten values come from --------------------------------------------------------------------------------

uint8_t Taint::origin_at(const Ins* i, Source source) const {
  const auto found = origins_at_.find(uint64_t(i->place) << 2 | static_cast<unsigned>(source));
  return found == origins_at_.end() ? uint8_t(0) : found->second;
}

uint8_t Taint::add_origin(const Ins* i, Source source, Fault fault) {
  if (origins_.size() < MOST_ORIGINS) origins_.push_back(std::move(fault));
  const auto origin = static_cast<uint8_t>(origins_.size());
  origins_at_[uint64_t(i->place) << 2 | static_cast<unsigned>(source)] = origin;
  return origin;
}

uint8_t Taint::origin_from_workspace(uint32_t number, const Fault& fault) {
  uint8_t& origin = origins_from_workspace_[number];
  if (origin) return origin;
  if (origins_.size() < MOST_ORIGINS) origins_.push_back(fault);
  return origin = static_cast<uint8_t>(origins_.size());
}

uint8_t Taint::with_line(Warp& w, const Ins* i, unsigned lane, uint8_t origin) {
  if (origin != UNWRITTEN_REGISTER && origin != UNWRITTEN_LOCAL) return origin;
  const bool is_local = origin == UNWRITTEN_LOCAL;
  const Source source = is_local ? Source::Local : Source::Register;
  if (const uint8_t known = origin_at(i, source)) return known;
  return add_origin(i, source,
                    unwritten_fault(w, i, lane,
                                    is_local ? "read an array of its own that it has not written there"
                                             : "read a variable that it has not given a value"));
}

Fault Taint::unwritten_fault(Warp& w, const Ins* i, unsigned lane, const char* what) {
  Fault fault;
  fault.kind = "UNINITIALISED_READ";
  fault.access = "read";
  fault.message = what;
  try {
    w.fail(i, lane, std::move(fault));
  } catch (Fault& whole) {
    return std::move(whole);
  }
}

void Taint::read(unsigned row, uint64_t bytes, uint8_t origin) {
  has_read_ = true;
  if (named_row_ != NO_ROW) row = named_row_;
  read_[row] |= bytes;
  read_origin_[row] = origin;
}

bool Taint::carries(const Ins* i) const {
  switch (block_->kernel().flows[i->statement].kind) {
    case FlowKind::Load:
    case FlowKind::MatrixLoad:
    case FlowKind::WarpLoad:
    case FlowKind::WarpSums:
    case FlowKind::GroupProduct: return true;
    default: return false;
  }
}

bool Taint::copies(const Ins* i) const { return block_->kernel().flows[i->statement].kind == FlowKind::Copy; }

void Taint::copy_to_shared(uint32_t offset, uint8_t origin) {
  shared_origins_.resize(block_->shared_bytes);
  if (offset >= block_->shared_bytes) return;
  shared_origins_[offset] = origin;
  block_->shadow->forget_written(offset);
}

void Taint::shuffled_from_outside(Warp& w, const Ins* i, uint32_t lanes) {
  uint8_t origin = origin_at(i, Source::Shuffle);
  if (!origin)
    origin = add_origin(i, Source::Shuffle,
                        unwritten_fault(w, i, lowest(lanes), "shuffled from a lane that takes no part in the shuffle"));
  has_read_ = true;
  from_outside_ = lanes;
  outside_origin_ = origin;
}

// --- where unwritten values must not get -----------------------------------------------------------------------------

void Taint::reach(const LaneAt& at, uint8_t origin, const char* what) {
  if (reached) return;
  reached = origins_[with_line(at.w, at.i, at.lane, origin) - 1u];
  reached->message += std::string("; ") + what + " at " + block_->place_of(at.i) + " depends on it";
}

void Taint::reach_by(Warp& w, const Ins* i, const Register& used, const char* what) {
  if (const uint32_t tagged = tagged_lanes(w, used.slot, used.lanes))
    reach({w, i, lowest(tagged)}, origin_of(tag(w, used.slot, lowest(tagged))), what);
}

void Taint::look_at_sinks(Warp& w, const Ins* i, const Flow& flow, uint32_t m) {
  for (const uint32_t slot : flow.addresses) reach_by(w, i, {slot, m}, "an address");
  const bool decides = flow.kind == FlowKind::Ends || flow.kind == FlowKind::Copy || flow.kind == FlowKind::Atomic;
  if (!decides) return;
  const char* what = flow.kind == FlowKind::Atomic ? "an atomic" : "what happens";
  for (const Flow::Source& source : flow.sources) reach_by(w, i, {source.slot, m}, what);
  reach_by(w, i, {flow.guard, w.mask}, flow.kind == FlowKind::Atomic ? "an atomic" : "a branch");
}

const Ins* Taint::step(Warp& w, const Ins* i) {
  if (i->fn == label_handler()) return i->fn(w, i);
  const Flow& flow = block_->kernel().flows[i->statement];
  const uint32_t m = w.active(i);
  uint32_t meeting = m;
  look_at_sinks(w, i, flow, m);
  for (const Split& split : w.others)
    if (split.pc == i && split.state == SplitState::AtSync) meeting |= split.mask;
  if (flow.kind == FlowKind::Both || flow.kind == FlowKind::Either) note_decided(w, flow);
  const uint32_t guarded = tagged_lanes(w, flow.guard, w.mask);
  const Ins* next;
  try {
    next = i->fn(w, i);
  } catch (Fault& fault) {
    if (reached && fault.kind != "RACE") throw *std::exchange(reached, std::nullopt);
    throw;
  }
  for (const Split& split : w.others)
    if (split.pc == i && split.state == SplitState::AtSync) meeting &= ~split.mask;
  follow(w, i, flow, meeting | guarded);
  if (guarded) {
    Tags tags{};
    for (unsigned k = 0; k < LANES; ++k) tags[k] = tag(w, flow.guard, k);
    for (Tag& each : tags) each = make_tag(origin_of(each), bytes_of(each) ? ALL_BYTES : 0);
    to_results(w, flow, guarded, tags);
  }
  return next;
}

void Taint::after(Warp& w, const Ins* i) {
  const Flow& flow = block_->kernel().flows[i->statement];
  follow(w, i, flow,
         flow.kind == FlowKind::Load || flow.kind == FlowKind::Shuffle ? w.active(i) | from_outside_ : w.live);
}

/** Tracks the effect of a completed instruction on the lanes in `m`. */
void Taint::follow(Warp& w, const Ins* i, const Flow& flow, uint32_t m) {
  if (m) move(w, i, flow, m);
  if (!has_read_) return;
  has_read_ = false;
  read_.fill(0);
  from_outside_ = 0;
  if (flow.kind == FlowKind::GroupProduct) operands_ = {};
}

// --- lane by lane ----------------------------------------------------------------------------------------------------

void Taint::move(Warp& w, const Ins* i, const Flow& flow, uint32_t m) {
  switch (flow.kind) {
    case FlowKind::Ends:
    case FlowKind::Copy:
    case FlowKind::Atomic:
    case FlowKind::Clean: return clear(w, flow.results, m);
    case FlowKind::Load: return load(w, i, flow, m);
    case FlowKind::Store: return store(w, i, flow, m);
    case FlowKind::MatrixLoad: return load_matrices(w, i);
    case FlowKind::MatrixStore: return store_matrices(w, i, m);
    case FlowKind::MatrixMove: return move_matrix(w, i);
    case FlowKind::WarpLoad: return load_fragment(w, i);
    case FlowKind::WarpSums: return move_sums(w, i);
    case FlowKind::Product:
    case FlowKind::WarpProduct:
    case FlowKind::GroupProduct: return multiply(w, i, flow);
    case FlowKind::Shuffle: return shuffle(w, i, flow, m);
    default: break;
  }
  const bool any = std::any_of(flow.sources.begin(), flow.sources.end(),
                               [&](const Flow::Source& source) { return find(w, source.slot) != nullptr; });
  if (!any) return clear(w, flow.results, m);
  Tags tags{};
  switch (flow.kind) {
    case FlowKind::Move:
      for (unsigned k = 0; k < LANES; ++k) tags[k] = tag(w, flow.sources[0].slot, k);
      return to_results(w, flow, m, tags);
    case FlowKind::Pack:
    case FlowKind::Unpack:
    case FlowKind::Widen: return pack(w, flow, m);
    case FlowKind::Run: return add_up(w, i, flow, m);
    case FlowKind::Halves:
    case FlowKind::PackHalves: return move_halves(w, i, flow, m);
    case FlowKind::Bytes: return move_bytes(w, i, flow, m);
    case FlowKind::Permute: return permute(w, flow, m);
    case FlowKind::Select: return select(w, flow, m);
    case FlowKind::Meeting: {
      const Tags each = any_of(w, i, flow, m);
      for (unsigned k = 0; k < LANES; ++k)
        if (m >> k & 1) tags[0] = joined(tags[0], each[k]);
      tags.fill(tags[0]);
      return to_results(w, flow, m, tags);
    }
    default: break;
  }
  tags = any_of(w, i, flow, m);
  if (flow.kind == FlowKind::Both || flow.kind == FlowKind::Either)
    for (unsigned k = 0; k < LANES; ++k)
      if (decided_ >> k & 1) tags[k] = 0;
  to_results(w, flow, m, tags);
}

Tags Taint::any_of(Warp& w, const Ins* i, uint32_t m, const Sources& sources) {
  Tags tags{};
  for (const Flow::Source* source = sources.begin; source < sources.end; ++source) {
    if (const Tags* own = find(w, source->slot))
      for (unsigned k = 0; k < LANES; ++k)
        if ((m >> k & 1) && !tags[k] && ((*own)[k] & source->bytes))
          tags[k] = make_tag(with_line(w, i, k, origin_of((*own)[k])), ALL_BYTES);
  }
  return tags;
}

void Taint::add_up(Warp& w, const Ins* i, const Flow& flow, uint32_t m) {
  std::vector<Tags> tags;
  const Flow::Source* at = flow.sources.data();
  for (const uint32_t length : flow.lengths) {
    tags.push_back(any_of(w, i, m, {at, at + length}));
    at += length;
  }
  for (size_t n = 0; n < tags.size(); ++n) set(w, flow.results[n], m, tags[n]);
}

/**
 * Finds the lanes in which a known predicate already decides the result: a false one for `and`, a true one for `or`.
 */
void Taint::note_decided(Warp& w, const Flow& flow) {
  decided_ = 0;
  for (const Flow::Source& source : flow.sources) {
    if (!source.is_predicate) continue;
    const uint32_t value = w.pred(source.slot) ^ (source.is_negated ? ALL : 0);
    decided_ |= (flow.kind == FlowKind::Both ? ~value : value) & ~tagged_lanes(w, source.slot, ALL);
  }
}

void Taint::move_halves(Warp& w, const Ins* i, const Flow& flow, uint32_t m) {
  Tags tags{};
  for (size_t n = 0; n < flow.sources.size(); ++n)
    for (unsigned k = 0; k < LANES; ++k) {
      const Tag own = m >> k & 1 ? tag(w, flow.sources[n].slot, k) : Tag(0);
      if (!own) continue;
      uint8_t bytes = 0;
      if (flow.kind == FlowKind::PackHalves)
        bytes = n == 0 ? 0x0c : 0x03;
      else
        bytes = static_cast<uint8_t>((own & 0x03 ? 0x03 : 0) | (own & 0x0c ? 0x0c : 0));
      tags[k] = joined(tags[k], make_tag(with_line(w, i, k, origin_of(own)), bytes));
    }
  to_results(w, flow, m, tags);
}

void Taint::move_bytes(Warp& w, const Ins* i, const Flow& flow, uint32_t m) {
  const auto distance = static_cast<unsigned>(std::abs(flow.shift));
  const unsigned whole = distance / 8, next = whole + (distance % 8 != 0);
  const auto moved = [&](unsigned bytes) {
    unsigned to = flow.shift < 0 ? bytes >> whole | bytes >> next : bytes << whole | bytes << next;
    // The sign flows into the byte that it is in after the shift, and into all above.
    const unsigned top = bytes & (flow.bytes & ~(flow.bytes >> 1));
    if (flow.is_signed && top) to |= ~(std::max(top >> next, 1u) - 1);
    return static_cast<uint8_t>(flow.shift > 0 ? to & flow.bytes : to);
  };
  Tags tags{};
  for (const Flow::Source& source : flow.sources)
    for (unsigned k = 0; k < LANES; ++k) {
      const Tag own = m >> k & 1 ? tag(w, source.slot, k) : Tag(0);
      const uint8_t bytes = moved(bytes_of(own) & source.bytes & flow.bytes);
      if (bytes) tags[k] = joined(tags[k], make_tag(with_line(w, i, k, origin_of(own)), bytes));
    }
  to_results(w, flow, m, tags);
}

void Taint::pack(Warp& w, const Flow& flow, uint32_t m) {
  const bool unpacks = flow.kind != FlowKind::Pack;
  const size_t parts = unpacks ? flow.results.size() : flow.sources.size();
  const unsigned bits = flow.selector;
  const auto part = static_cast<uint8_t>((1u << bits) - 1);
  std::vector<Tags> tags(unpacks ? parts : 1, Tags{});
  for (unsigned k = 0; k < LANES; ++k)
    for (size_t n = 0; n < parts; ++n) {
      const Tag own = tag(w, flow.sources[unpacks ? 0 : n].slot, k);
      const auto shift = static_cast<unsigned>(n) * bits;
      const auto own_part = static_cast<uint8_t>(bytes_of(own) >> shift & part);
      if (unpacks)
        tags[n][k] = make_tag(origin_of(own), flow.kind == FlowKind::Widen && own_part ? ALL_BYTES : own_part);
      else
        tags[0][k] =
            joined(tags[0][k], make_tag(origin_of(own), static_cast<uint8_t>((bytes_of(own) & part) << shift)));
    }
  for (size_t n = 0; n < flow.results.size(); ++n) set(w, flow.results[n], m, tags[unpacks ? n : 0]);
}

void Taint::permute(Warp& w, const Flow& flow, uint32_t m) {
  Tags tags{};
  for (unsigned k = 0; k < LANES; ++k)
    for (unsigned n = 0; n < 4; ++n) {
      const unsigned from = flow.selector >> (4 * n) & 7;
      const Tag own = tag(w, flow.sources[from / 4].slot, k);
      if (bytes_of(own) >> (from % 4) & 1)
        tags[k] = joined(tags[k], make_tag(origin_of(own), static_cast<uint8_t>(1u << n)));
    }
  to_results(w, flow, m, tags);
}

void Taint::select(Warp& w, const Flow& flow, uint32_t m) {
  Tags tags{};
  const uint32_t first = w.pred(flow.sources[2].slot);
  for (unsigned k = 0; k < LANES; ++k) {
    const Tag by = tag(w, flow.sources[2].slot, k);
    tags[k] = by ? make_tag(origin_of(by), ALL_BYTES) : tag(w, flow.sources[first >> k & 1 ? 0 : 1].slot, k);
  }
  to_results(w, flow, m, tags);
}

void Taint::shuffle(Warp& w, const Ins* i, const Flow& flow, uint32_t m) {
  Tags tags{};
  if (const Tags* own = find(w, i->a)) {
    uint32_t computed[LANES];
    const uint32_t* const sources = shuffle_sources(w, i, computed);
    for (unsigned k = 0; k < LANES; ++k) tags[k] = (*own)[sources[k] & 31];
  }
  for (unsigned k = 0; k < LANES; ++k) {
    if (from_outside_ >> k & 1) tags[k] = make_tag(outside_origin_, ALL_BYTES);
    if (const Tag by = tag(w, i->b, k)) tags[k] = make_tag(origin_of(by), ALL_BYTES);
  }
  set(w, i->d, m, tags);
  if (flow.results.size() > 1) set(w, flow.results[1], m, Tags{});
}

// --- memory ----------------------------------------------------------------------------------------------------------

void Taint::load(Warp& w, const Ins* i, const Flow& flow, uint32_t m) {
  const Listed<Operand>& operands = block_->kernel().function->statements[i->statement].operands;
  for (size_t n = 0; n < flow.results.size(); ++n) {
    const Operand& d = flow.results.size() > 1 ? operands[0].items[n] : operands[0];
    if (d.reg < 0) continue;
    const unsigned wide = block_->kernel().function->registers[static_cast<size_t>(d.reg)].bytes;
    Tags tags{};
    for (unsigned k = 0; k < LANES; ++k)
      tags[k] = make_tag(read_origin_[k], element_bytes(read_[k], static_cast<unsigned>(n), i->bytes, wide));
    set(w, flow.results[n], m, tags);
  }
}

void Taint::store(Warp& w, const Ins* i, const Flow& flow, uint32_t m) {
  const Tags* guards = find(w, flow.guard);
  for (unsigned k = 0; k < LANES; ++k) {
    if (!(m >> k & 1)) continue;
    Tag tags[8] = {};
    for (size_t n = 0; n < flow.sources.size() && n < 8; ++n) tags[n] = tag(w, flow.sources[n].slot, k);
    if (guards && (*guards)[k])
      for (Tag& each : tags) each = make_tag(origin_of((*guards)[k]), ALL_BYTES);
    uint8_t bytes[64] = {};
    for (unsigned n = 0; n < flow.sources.size() * i->bytes && n < 64; ++n) {
      const Tag own = tags[n / i->bytes];
      if (bytes_of(own) >> n % i->bytes & 1) bytes[n] = origin_of(own);
    }
    store_bytes({w, i, k}, address_of(w, i, k), static_cast<unsigned>(flow.sources.size()) * i->bytes, bytes);
  }
}

/** `origins` has one origin per byte; 0 if the byte is not tracked. */
void Taint::store_bytes(const LaneAt& at, uint64_t address, unsigned bytes, const uint8_t* origins) {
  const auto& [w, i, lane] = at;
  uint64_t offset;
  const bool any = std::any_of(origins, origins + bytes, [](uint8_t origin) { return origin != 0; });
  if (is_local(i, address, &offset)) {
    if (!follows_local_) return;
    std::copy_n(origins, bytes,
                local_origins_.begin() + static_cast<std::ptrdiff_t>(w.linear(lane) * block_->local_stride + offset));
  } else if (is_shared(i, address, &offset)) {
    if (!any) return;  // the bytes are already marked as written
    shared_origins_.resize(block_->shared_bytes);
    for (unsigned n = 0; n < bytes; ++n) {
      if (!origins[n] || offset + n >= block_->shared_bytes) continue;
      shared_origins_[offset + n] = with_line(w, i, lane, origins[n]);
      block_->shadow->forget_written(static_cast<uint32_t>(offset) + n);
    }
  } else if (any && i->space != PARAMETER_SPACE) {
    for (unsigned n = 0; n < bytes; ++n)
      if (origins[n] &&
          !GlobalShadow::instance().leave_unwritten(address + n, fault_of(with_line(w, i, lane, origins[n]))))
        return reach(at, origins[n], "a store to device memory");
  }
}

void Taint::local(const LaneAccess& by, const char* at) {
  if (!follows_local_) return;
  uint8_t* const origins = local_origins_.data() + (at - block_->local);
  if (by.access != Access::Read) {
    memset(origins, 0, by.bytes);
    return;
  }
  uint64_t unknown = 0;
  for (unsigned n = 0; n < by.bytes; ++n) unknown |= uint64_t(origins[n] != 0) << n % 64;
  if (unknown) read(by.lane, unknown, with_line(by.w, by.i, by.lane, origins[__builtin_ctzll(unknown)]));
}

// --- matrices --------------------------------------------------------------------------------------------------------

/** Element (row, column) of an 8 x 8 matrix of halves is in lane 4 * row + column / 2. */
void Taint::load_matrices(Warp& w, const Ins* i) {
  for (unsigned n = 0; n < i->extra->d.size(); ++n) {
    Tags tags{};
    for (unsigned row = 0; row < 8; ++row)
      for (uint64_t left = read_[8 * n + row]; left; left &= left - 1) {
        const auto byte = static_cast<unsigned>(__builtin_ctzll(left));
        const bool turned = i->extra->options[1] != 0;
        const unsigned lane = turned ? byte / 2 * 4 + row / 2 : row * 4 + byte / 4;
        const unsigned at = turned ? row % 2 * 2 + byte % 2 : byte % 4;
        tags[lane] = joined(tags[lane], make_tag(read_origin_[8 * n + row], static_cast<uint8_t>(1u << at)));
      }
    set(w, i->extra->d[n], w.live, tags);
  }
}

void Taint::store_matrices(Warp& w, const Ins* i, uint32_t m) {
  if (m != ALL) return;
  for (unsigned n = 0; n < i->extra->d.size(); ++n) {
    const Tags* own = find(w, i->extra->d[n]);
    if (!own) continue;
    const Tags tags = i->extra->options[1] ? turned(*own) : *own;
    for (unsigned row = 0; row < 8; ++row) {
      uint8_t origins[16] = {};
      for (unsigned byte = 0; byte < 16; ++byte) {
        const Tag each = tags[4 * row + byte / 4];
        if (bytes_of(each) >> byte % 4 & 1) origins[byte] = origin_of(each);
      }
      store_bytes({w, i, 8 * n + row}, address_of(w, i, 8 * n + row), 16, origins);
    }
  }
}

Tags Taint::turned(const Tags& tags) {
  Tags out{};
  for (unsigned row = 0; row < 8; ++row)
    for (unsigned column = 0; column < 8; ++column) {
      const Tag own = tags[4 * column + row / 2];
      if (bytes_of(own) >> (row % 2 * 2) & 3) {
        Tag& to = out[4 * row + column / 2];
        to = joined(to, make_tag(origin_of(own), static_cast<uint8_t>(3u << column % 2 * 2)));
      }
    }
  return out;
}

void Taint::move_matrix(Warp& w, const Ins* i) {
  const Tags* own = find(w, i->a);
  set(w, i->d, w.live, own ? turned(*own) : Tags{});
}

void Taint::load_fragment(Warp& w, const Ins* i) {
  const Extra& x = *i->extra;
  const Shape shape{x.options[0], x.options[1]};
  const bool is_left = x.options[2] != 0, along_depth = x.options[3] != 0;
  const int distinct = (is_left ? shape.rows : shape.columns) / 8 * 2;
  for (int reg = 0; reg < x.options[4]; ++reg) {
    const Corner corner = corner_of(is_left, shape, reg % distinct);
    Tags tags{};
    for (int outer = 0; outer < 8; ++outer)
      for (int depth = 0; depth < 8; ++depth) {
        const int line = along_depth ? corner.outer + outer : corner.depth + depth;
        const int at = along_depth ? corner.depth + depth : corner.outer + outer;
        if (!(read_[static_cast<size_t>(line)] >> (2 * at) & 3)) continue;
        Tag& to = tags[static_cast<size_t>(4 * outer + depth / 2)];
        to = joined(to, make_tag(read_origin_[static_cast<size_t>(line)], static_cast<uint8_t>(3 << depth % 2 * 2)));
      }
    set(w, x.d[static_cast<size_t>(reg)], w.live, tags);
  }
}

/** Tracks wmma.load and wmma.store of accumulators. */
void Taint::move_sums(Warp& w, const Ins* i) {
  const Extra& x = *i->extra;
  const Shape shape{x.options[0], x.options[1]};
  const bool by_columns = x.options[3] != 0, half = x.options[4] != 0, stores = x.options[5] != 0;
  const unsigned element = half ? 2 : 4;
  const unsigned lane = lowest(w.live);
  const auto stride = static_cast<int64_t>(static_cast<int32_t>(w.reg<uint32_t>(i->b)[lane])) * element;
  for (int number = 0; number < x.options[2]; ++number) {
    const uint32_t slot = x.d[static_cast<size_t>(half ? number / 2 : number)];
    const auto mask = static_cast<uint8_t>(half ? 3 << number % 2 * 2 : 0x0f);
    Tags tags{};
    if (const Tags* own = find(w, slot)) tags = *own;
    for (int k = 0; k < LANES; ++k) {
      Tag& each = tags[static_cast<size_t>(k)];
      const Element at = element_of(shape, number, k);
      const auto line = static_cast<size_t>(by_columns ? at.column : at.row);
      const auto column = static_cast<unsigned>(by_columns ? at.row : at.column);
      if (stores) {
        if (!(each & mask)) continue;
        uint8_t origins[4];
        std::fill_n(origins, 4, origin_of(each));
        const uint64_t base = address_of(w, i, lane);
        store_bytes({w, i, lane}, base + static_cast<uint64_t>(stride * static_cast<int64_t>(line)) + column * element,
                    element, origins);
      } else {
        each = make_tag(origin_of(each), static_cast<uint8_t>(each & ~mask));
        const uint64_t all = (1ull << element) - 1;
        // read_ has one bit per byte and 64 bits per row, but a line of 32 floats has 128 bytes.
        const bool read = column * element < 64 && (read_[line] >> (column * element) & all);
        if (read) each = joined(each, make_tag(read_origin_[line], mask));
      }
    }
    if (!stores) set(w, slot, w.live, tags);
  }
}

/** Tracks a product: a row of it depends on a row of A and all of B, and a column on a column of B and all of A. */
void Taint::multiply(Warp& w, const Ins* i, const Flow& flow) {
  const Extra& x = *i->extra;
  const bool of_group = flow.kind == FlowKind::GroupProduct, of_warp = flow.kind == FlowKind::WarpProduct;
  const Shape shape = of_warp ? Shape{x.options[0], x.options[1]}
                              : Shape{of_group || x.a.size() > 1 ? 16 : 8, of_group ? x.options[1] : 8};
  const auto is_followed = [&](const std::vector<uint32_t>& slots) {
    return std::any_of(slots.begin(), slots.end(), [&](uint32_t slot) { return find(w, slot) != nullptr; });
  };
  const bool adds = !of_group || adds_to_sums(w, i, lowest(w.live));
  const std::vector<uint32_t>& sums = of_group ? x.d : x.c;
  if (!has_read_ && !is_followed(x.a) && !is_followed(x.b) && !(adds && is_followed(sums)))
    return clear(w, x.d, w.live);
  const Operands read = std::exchange(operands_, Operands{});
  const auto origin = [&](uint32_t slot, unsigned lane) {
    const Tag own = tag(w, slot, lane);
    return own ? with_line(w, i, lane, origin_of(own)) : uint8_t(0);
  };
  uint8_t rows[32] = {}, columns[256] = {};
  for (int row = 0; row < shape.rows; ++row) {
    const size_t half = shape.rows == 8 ? 0 : static_cast<size_t>(row / 16 * 4 + row % 16 / 8);
    if (of_group) rows[row] = read[0][w.index % 4 * 16 + static_cast<unsigned>(row)];
    for (size_t n = half; n < (shape.rows == 32 ? half / 4 * 4 + 4 : x.a.size()); n += shape.rows == 8 ? 1 : 2)
      for (unsigned k = 0; k < 4 && !rows[row]; ++k) rows[row] = origin(x.a[n], static_cast<unsigned>(row % 8) * 4 + k);
  }
  for (int column = 0; column < shape.columns; ++column) {
    if (of_group) columns[column] = read[1][column];
    const size_t first = of_warp ? static_cast<size_t>(column / 8 * 2) : 0, end = of_warp ? first + 2 : x.b.size();
    for (size_t n = first; n < end && !of_group; ++n)
      for (unsigned k = 0; k < 4 && !columns[column]; ++k)
        columns[column] = origin(x.b[n], static_cast<unsigned>(column % 8) * 4 + k);
  }
  const bool of_pairs = !of_warp && shape.rows == 16 && x.c.size() == 2;  // f64 has as few registers, but only 8 rows
  const bool half_d = of_group  ? (x.options[5] & HALF_SUMS) != 0
                      : of_warp ? x.options[4] != 0
                                : shape.rows == 16 && x.d.size() == 2;
  const bool half_c = of_warp ? x.options[3] != 0 : of_group ? half_d : of_pairs;
  const int numbers = shape.rows * shape.columns / LANES;
  std::vector<Tags> tags(x.d.size(), Tags{});
  for (int number = 0; number < numbers; ++number)
    for (unsigned k = 0; k < LANES; ++k) {
      const Element at = element_of(shape, number, static_cast<int>(k));
      const auto from = static_cast<size_t>(half_c ? number / 2 : number),
                 to = static_cast<size_t>(half_d ? number / 2 : number);
      const Tag own = adds ? tag(w, sums[from], k) : Tag(0);
      uint8_t by = rows[at.row] ? rows[at.row] : columns[at.column];
      if (!by && (own & (half_c ? 3 << number % 2 * 2 : 0xff))) by = with_line(w, i, k, origin_of(own));
      if (by)
        tags[to][k] = joined(tags[to][k], make_tag(by, half_d ? static_cast<uint8_t>(3 << number % 2 * 2) : ALL_BYTES));
    }
  for (size_t n = 0; n < tags.size(); ++n) set(w, x.d[n], w.live, tags[n]);
}

}  // namespace flashcore::emu::ptx
