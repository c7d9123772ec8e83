// The bulk copy engine of sm_90: rows of bytes, and tiles described by a tensor map. A copy to shared memory is carried
// out when a thread waits for the mbarrier that counts its bytes. A copy to device memory is carried out at once.
#include <algorithm>
#include <cmath>
#include <utility>

#include "cluster.h"
#include "lower.h"
#include "races.h"

namespace flashcore::emu::ptx {

namespace {

constexpr unsigned TILE_ALIGNMENT = 128, BULK_ALIGNMENT = 16;

/** Permutes the 16-byte columns of a row. The address itself determines the row's number. */
inline uint32_t swizzled(uint32_t address, unsigned mode) {
  return address ^ ((address >> 7 & ((1u << mode) - 1)) << 4);
}

/**
 * Calls visit(row of the box, its address in device memory, first byte, number of bytes inside the tensor) for each
 * row.
 */
template <class Visit>
void each_row(const TensorMap& map, const int32_t* at, const Visit& visit) {
  const int64_t first = at[0], last = first + map.box[0];
  const int64_t from = std::max<int64_t>(first, 0), to = std::min(last, static_cast<int64_t>(map.dimensions[0]));
  unsigned place[TENSOR_MAP_RANK] = {};
  for (unsigned row = 0; row < map.box_rows(); ++row) {
    bool inside = from < to;
    uint64_t address = map.address + static_cast<uint64_t>(inside ? from : 0) * map.element_bytes;
    for (int n = 1; n < map.rank; ++n) {
      const int64_t index = static_cast<int64_t>(at[n]) + place[n];
      inside = inside && index >= 0 && index < static_cast<int64_t>(map.dimensions[n]);
      address += inside ? static_cast<uint64_t>(index) * map.strides[n - 1] : 0;
    }
    if (inside)
      visit(row, address, static_cast<unsigned>(from - first) * map.element_bytes,
            static_cast<unsigned>(to - from) * map.element_bytes);
    else
      visit(row, uint64_t(0), 0u, 0u);
    for (int n = 1; n < map.rank && ++place[n] == map.box[n]; ++n) place[n] = 0;
  }
}

void fill_outside(const TensorMap& map, char* row, unsigned bytes) {
  memset(row, 0, bytes);
  if (!map.fill_nan) return;
  for (unsigned at = 0; at < bytes; at += map.element_bytes) {
    memset(row + at, 0xff, map.element_bytes);
    row[at + map.element_bytes - 1] = 0x7f;
  }
}

void note_begin(BlockRun& block, Warp& w, const BulkCopy& copy) {
  if (!block.shadow) return;
  if (&block != w.block) return block.shadow->written_from_outside(copy.to, copy.bytes);
  uint32_t offsets[LANES];
  std::fill_n(offsets, LANES, copy.to);
  block.shadow->by_async_proxy({w, copy.ins, copy.lane}, copy.to, copy.bytes, true);
  block.shadow->copy_begins({w, copy.ins, 1u << copy.lane, copy.bytes, Access::Write}, offsets);
}

void note_end(const BulkCopy& copy, const BlockRun& counting, Mbarrier& barrier) {
  BlockRun& block = *copy.block;
  if (!block.shadow) return;
  if (copy.issuer != &block || &counting != &block) return block.shadow->written_from_outside(copy.to, copy.bytes);
  block.shadow->copy_lands(copy.ins, {copy.warp * LANES + copy.lane, barrier.copier, copy.to, copy.bytes},
                           barrier.clocks);
}

/** Carries bytes that nobody has written along with the copy. */
void follow(const BulkCopy& copy) {
  Shadow* const shadow = copy.block->shadow;
  if (!shadow) return;
  Warp& w = copy.issuer->warps()[copy.warp];
  if (!copy.tiled)
    return shadow->follow_copy({w, copy.ins, copy.lane}, copy.to, reinterpret_cast<uint64_t>(copy.from), copy.bytes);
  const unsigned row_bytes = copy.map.box_row_bytes();
  each_row(copy.map, copy.at, [&](unsigned number, uint64_t from, unsigned first, unsigned bytes) {
    if (!bytes || shadow->is_quiet(from)) return;
    for (unsigned at = first, next; at < first + bytes; at = next) {
      next = std::min(at / 16 * 16 + 16, first + bytes);
      shadow->follow_copy({w, copy.ins, copy.lane}, swizzled(copy.to + number * row_bytes + at, copy.map.swizzle),
                          from + at - first, next - at);
    }
  });
}

TensorMap map_at(const LaneAt& at, const Ins& operand, size_t coordinates) {
  const auto& [w, i, lane] = at;
  TensorMap map;
  const char* bytes =
      resolve_one({{w, &operand, lane}, TENSOR_MAP_BYTES, Access::Read}, address_of(w, &operand, lane), 64);
  if (!TensorMap::read(bytes, map))
    misused(at, "INVALID_COPY", "copied a tile by a tensor map that cuTensorMapEncodeTiled did not make");
  if (!map.is_complete())
    misused(at, "INVALID_COPY", "copied a tile by a tensor map that lacks an extent or the type of its elements");
  if (map.rank != coordinates)
    misused(at, "INVALID_COPY",
            "named " + std::to_string(coordinates) + " coordinates in a tensor of " + std::to_string(map.rank) +
                " dimensions");
  return map;
}

/** Faults if the tile would read or write anything outside device memory. */
void check_rows(const LaneAt& tensor, const TensorMap& map, const int32_t* at, Access access) {
  Ins device = *tensor.i;
  device.space = GLOBAL_SPACE;
  each_row(map, at, [&](unsigned, uint64_t address, unsigned, unsigned bytes) {
    if (bytes) resolve_one({{tensor.w, &device, tensor.lane}, bytes, access}, address, 1);
  });
}

/**
 * Operands: addresses has destination, tensor or source, and barrier. b is the mask of receiving blocks, or NO_SLOT.
 */
void start(const LaneAt& by, BulkCopy copy, unsigned alignment) {
  Warp& w = by.w;
  const Ins* const i = by.i;
  const unsigned lane = by.lane;
  const Ins& to = i->extra->addresses[0];
  const Ins& at = i->extra->addresses[2];
  const SharedPlace place = shared_place({w, &to, lane}, copy.bytes, alignment);
  const SharedPlace barrier = shared_place({w, &at, lane}, 8, 8);
  copy.ins = i;
  copy.issuer = w.block;
  copy.warp = w.index;
  copy.lane = lane;
  copy.to = place.offset;
  const Cluster& cluster = *w.block->cluster;
  const auto send = [&](BlockRun& block, BlockRun& counting) {
    Mbarrier* counter = counting.mbarriers.find(barrier.offset);
    if (!counter)
      misused(by, "INVALID_COPY",
              "counts in at the mbarrier at byte " + std::to_string(barrier.offset) +
                  " of shared memory, which nobody has initialised");
    copy.block = &block;
    counter->coming.push_back(copy);
    note_begin(block, w, copy);
    if (counter->awaited) counting.mbarriers.land(counting, barrier.offset, *counter);
  };
  if (i->b == NO_SLOT) return send(*place.block, *barrier.block);
  const uint16_t blocks = w.reg<uint16_t>(i->b)[lane];
  if (!blocks || blocks >> cluster.size())
    misused(by, "INVALID_COPY",
            "sent a copy to the blocks in mask " + std::to_string(blocks) + " of a cluster that has " +
                std::to_string(cluster.size()));
  for (unsigned rank = 0; rank < cluster.size(); ++rank)
    if (blocks >> rank & 1) send(cluster.block(rank), cluster.block(rank));
}

template <class Visit>
const Ins* each_active(Warp& w, const Ins* i, const Visit& visit) {
  const uint32_t m = w.active(i);
  for (unsigned lane = 0; lane < LANES; ++lane)
    if (m >> lane & 1) visit(lane);
  return w.others.empty() ? i + 1 : w.go_on_at(i + 1);
}

/** Operands: extra->c has the coordinates. */
void read_coordinates(Warp& w, const Ins* i, unsigned lane, int32_t* at) {
  for (size_t n = 0; n < i->extra->c.size(); ++n) at[n] = w.reg<int32_t>(i->extra->c[n])[lane];
}

const Ins* load_tile(Warp& w, const Ins* i) {
  return each_active(w, i, [&](unsigned lane) {
    const Ins& tensor = i->extra->addresses[1];
    BulkCopy copy{};
    copy.tiled = true;
    copy.map = map_at({w, i, lane}, tensor, i->extra->c.size());
    read_coordinates(w, i, lane, copy.at);
    check_rows({w, &tensor, lane}, copy.map, copy.at, Access::Read);
    copy.bytes = copy.map.box_row_bytes() * copy.map.box_rows();
    start({w, i, lane}, copy, TILE_ALIGNMENT);
  });
}

/** Operands: extra->a[0] has the number of bytes. */
unsigned bulk_bytes(Warp& w, const Ins* i, unsigned lane) {
  const uint32_t bytes = w.reg<uint32_t>(i->extra->a[0])[lane];
  if (bytes % BULK_ALIGNMENT)
    misused({w, i, lane}, "INVALID_COPY", "copied " + std::to_string(bytes) + " bytes: must be a multiple of 16");
  return bytes;
}

const Ins* load_bulk(Warp& w, const Ins* i) {
  return each_active(w, i, [&](unsigned lane) {
    const Ins& source = i->extra->addresses[1];
    BulkCopy copy{};
    copy.bytes = bulk_bytes(w, i, lane);
    if (!copy.bytes) return;
    copy.from =
        resolve_one({{w, &source, lane}, copy.bytes, Access::Read}, address_of(w, &source, lane), BULK_ALIGNMENT);
    start({w, i, lane}, copy, BULK_ALIGNMENT);
  });
}

void note_store(const LaneAt& at, uint32_t from, unsigned bytes) {
  Shadow* const shadow = at.w.block->shadow;
  if (!shadow) return;
  shadow->by_async_proxy(at, from, bytes, false);
  shadow->bulk_store_begins(at, from, bytes);
}

/** Operands: addresses has tensor and source. */
const Ins* store_tile(Warp& w, const Ins* i) {
  return each_active(w, i, [&](unsigned lane) {
    const Ins &tensor = i->extra->addresses[0], &source = i->extra->addresses[1];
    const TensorMap map = map_at({w, i, lane}, tensor, i->extra->c.size());
    int32_t at[TENSOR_MAP_RANK] = {};
    read_coordinates(w, i, lane, at);
    const unsigned row_bytes = map.box_row_bytes();
    const uint64_t address = address_of(w, &source, lane);
    resolve_one({{w, &source, lane}, row_bytes * map.box_rows(), Access::Read}, address, TILE_ALIGNMENT);
    check_rows({w, &tensor, lane}, map, at, Access::Write);
    const auto from = static_cast<uint32_t>(address & SHARED_OFFSET_MASK);
    note_store({w, i, lane}, from, row_bytes * map.box_rows());
    std::vector<char> row(row_bytes);
    each_row(map, at, [&](unsigned number, uint64_t to, unsigned first, unsigned bytes) {
      if (!bytes) return;
      for (unsigned at = first, next; w.block->shadow && at < first + bytes; at = next) {
        next = std::min(at / 16 * 16 + 16, first + bytes);
        w.block->shadow->copied({w, i, lane}, swizzled(from + number * row_bytes + at, map.swizzle), next - at,
                                to + at - first);
      }
      for (unsigned column = 0; column < row_bytes; column += 16)
        memcpy(&row[column], w.block->shared + swizzled(from + number * row_bytes + column, map.swizzle), 16);
      memcpy(reinterpret_cast<char*>(to), &row[first], bytes);
    });
  });
}

/** put(to, from, bytes) stores the bytes to device memory or adds them there. */
template <class Put>
const Ins* send_bulk(Warp& w, const Ins* i, Access access, const Put& put) {
  return each_active(w, i, [&](unsigned lane) {
    const Ins &to = i->extra->addresses[0], &source = i->extra->addresses[1];
    const unsigned bytes = bulk_bytes(w, i, lane);
    if (!bytes) return;
    const uint64_t address = address_of(w, &source, lane);
    const char* from = resolve_one({{w, &source, lane}, bytes, Access::Read}, address, BULK_ALIGNMENT);
    note_store({w, i, lane}, static_cast<uint32_t>(address & SHARED_OFFSET_MASK), bytes);
    char* const target = resolve_one({{w, &to, lane}, bytes, access}, address_of(w, &to, lane), BULK_ALIGNMENT);
    if (w.block->shadow)
      w.block->shadow->copied({w, i, lane}, static_cast<uint32_t>(address & SHARED_OFFSET_MASK), bytes,
                              access == Access::Write ? reinterpret_cast<uint64_t>(target) : 0);
    put(target, from, bytes);
  });
}

const Ins* store_bulk(Warp& w, const Ins* i) {
  return send_bulk(w, i, Access::Write, [](char* to, const char* from, unsigned bytes) { memcpy(to, from, bytes); });
}

float flushed(float value) { return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value; }

/** Adds each float in a separate atomic. Subnormal inputs and results count as 0, as in vector atomics. */
const Ins* add_bulk(Warp& w, const Ins* i) {
  return send_bulk(w, i, Access::ReadWrite, [](char* to, const char* from, unsigned bytes) {
    for (unsigned at = 0; at < bytes; at += sizeof(float)) {
      auto* const place = reinterpret_cast<uint32_t*>(to + at);
      uint32_t found = __atomic_load_n(place, __ATOMIC_RELAXED), wanted;
      do {
        float was, more;
        memcpy(&was, &found, sizeof was);
        memcpy(&more, from + at, sizeof more);
        const float sum = flushed(flushed(was) + flushed(more));
        memcpy(&wanted, &sum, sizeof wanted);
      } while (!__atomic_compare_exchange_n(place, &found, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    }
  });
}

const Ins* no_prefetch(Warp&, const Ins* i) { return i + 1; }

// Stores have been carried out when they were issued. Groups matter only to the race check.
const Ins* commit_stores(Warp& w, const Ins* i) {
  if (!w.block->shadow) return i + 1;
  return each_active(w, i, [&](unsigned lane) { w.block->shadow->commit_bulk_stores(w, lane); });
}

/** Operands: imm is the number of groups that may still be reading. */
const Ins* wait_for_stores(Warp& w, const Ins* i) {
  if (!w.block->shadow) return i + 1;
  return each_active(
      w, i, [&](unsigned lane) { w.block->shadow->wait_for_bulk_stores(w, i, lane, static_cast<uint32_t>(i->imm)); });
}

}  // namespace

void carry_out(const BulkCopy& copy, BlockRun& counting, Mbarrier& barrier) {
  BlockRun& block = *copy.block;
  if (copy.tiled) {
    const unsigned row_bytes = copy.map.box_row_bytes();
    std::vector<char> row(row_bytes);
    each_row(copy.map, copy.at, [&](unsigned number, uint64_t from, unsigned first, unsigned bytes) {
      if (bytes < row_bytes) fill_outside(copy.map, row.data(), row_bytes);
      if (bytes) memcpy(&row[first], reinterpret_cast<const char*>(from), bytes);
      for (unsigned column = 0; column < row_bytes; column += 16)
        memcpy(block.shared + swizzled(copy.to + number * row_bytes + column, copy.map.swizzle), &row[column], 16);
    });
  } else {
    memcpy(block.shared + copy.to, copy.from, copy.bytes);
  }
  note_end(copy, counting, barrier);
  follow(copy);
}

bool lower_bulk_copy(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  const bool reduces = s.op == "cp" && !s.mods.empty() && s.mods[0] == "reduce";
  if (s.op != "cp" || !has(s, "bulk") || s.mods.size() < 2 || s.mods[reduces] != "async") return false;
  if (has(s, "commit_group") || has(s, "wait_group") || has(s, "prefetch")) {
    if (has(s, "wait_group")) ins.imm = s.operands[0].value;
    ins.fn = has(s, "commit_group") ? commit_stores : has(s, "wait_group") ? wait_for_stores : no_prefetch;
    return true;
  }
  const auto position = [&](const char* mod) { return std::find(s.mods.begin(), s.mods.end(), mod) - s.mods.begin(); };
  const auto shared = std::min(position("shared::cluster"), position("shared::cta")), global = position("global");
  const auto none = static_cast<std::ptrdiff_t>(s.mods.size());
  const bool tiled = has(s, "tensor"), loads = shared < global;
  for (const std::string& mod : s.mods)
    if (mod.rfind("im2col", 0) == 0 || mod.rfind("tile::", 0) == 0) return false;
  if (shared == none || (tiled && global == none)) return false;
  if (!loads && !has(s, "bulk_group")) return false;
  if (reduces && (loads || tiled || global == none || !has(s, "add") || !has(s, "f32"))) return false;
  Extra& extra = l.extra(ins);
  const auto add = [&](const Operand& operand, uint8_t space) {
    Ins at = ins;
    at.extra = nullptr;
    at.space = space;
    l.address(operand, at);
    extra.addresses.push_back(at);
  };
  const bool from_shared = global == none;
  const size_t source = 1;
  add(s.operands[0], loads ? CLUSTER_SPACE : (tiled ? GENERIC_SPACE : GLOBAL_SPACE));
  add(s.operands[source],
      loads ? (tiled ? GENERIC_SPACE : (from_shared ? CLUSTER_SPACE : GLOBAL_SPACE)) : CLUSTER_SPACE);
  size_t next = 2;
  if (tiled) {
    const Operand& tensor = s.operands[loads ? 1 : 0];
    if (tensor.items.size() != 1) return false;
    for (const Operand& coordinate : tensor.items[0].items) extra.c.push_back(l.slot(coordinate, 4));
  } else {
    extra.a.push_back(l.slot(s.operands[next++], 4));
  }
  if (loads) {
    if (next >= s.operands.size()) return false;
    add(s.operands[next++], CLUSTER_SPACE);
  }
  if (has(s, "multicast::cluster")) ins.b = l.slot(s.operands[next], 2);
  ins.fn = loads ? (tiled ? load_tile : load_bulk) : (reduces ? add_bulk : tiled ? store_tile : store_bulk);
  return true;
}

}  // namespace flashcore::emu::ptx
