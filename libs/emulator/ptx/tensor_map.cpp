// Tensor maps that a kernel writes: tensormap.replace changes a field of a map, and tensormap.cp_fenceproxy copies a
// map to device memory. The race check sees neither of these accesses to shared memory.
#include <array>

#include "cluster.h"
#include "lower.h"

namespace flashcore::emu::ptx {

namespace {

constexpr unsigned TENSOR_MAP_ALIGNMENT = 64;

enum class Field : int {
  Address,
  Rank,
  Box,
  Dimension,
  Stride,
  ElementStride,
  Type,
  Interleave,
  Swizzle,
  Fill,
};

/** A field's modifier. `of_dimension` is true for a field with one value per dimension. */
struct FieldName {
  const char* mod;
  Field field;
  bool of_dimension;
};
constexpr FieldName FIELDS[] = {
    {"global_address", Field::Address, false},
    {"rank", Field::Rank, false},
    {"box_dim", Field::Box, true},
    {"global_dim", Field::Dimension, true},
    {"global_stride", Field::Stride, true},
    {"element_stride", Field::ElementStride, true},
    {"elemtype", Field::Type, false},
    {"interleave_layout", Field::Interleave, false},
    {"swizzle_mode", Field::Swizzle, false},
    {"fill_mode", Field::Fill, false},
};

/**
 * Bytes of an element for each number of .elemtype (PTX ISA, "tensormap.replace"): u8, u16, u32, s32, u64, s64, f16,
 * f32 …
 */
constexpr std::array<uint8_t, 13> ELEMENT_BYTES = {1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4};

/**
 * Sets a field. Returns false if the hardware leaves the value undefined, or the emulator's copy engine lacks the mode.
 */
bool set(TensorMap& map, Field field, unsigned dimension, uint64_t value) {
  switch (field) {
    case Field::Address: map.address = value; return value % 16 == 0;
    case Field::Rank: map.rank = static_cast<uint8_t>(value + 1); return value < TENSOR_MAP_RANK;
    case Field::Box: map.box[dimension] = static_cast<uint16_t>(value); return value >= 1 && value <= 256;
    case Field::Dimension: map.dimensions[dimension] = value; return true;
    case Field::Stride: map.strides[dimension] = value; return value % 16 == 0 && value < 1ull << 40;
    case Field::ElementStride: return value == 1;
    case Field::Type:
      if (value >= ELEMENT_BYTES.size()) return false;
      map.element_bytes = ELEMENT_BYTES[value];
      return true;
    case Field::Interleave: return value == 0;
    case Field::Swizzle: map.swizzle = static_cast<uint8_t>(value); return value <= 3;
    case Field::Fill: map.fill_nan = value != 0; return value <= 1;
  }
  return false;
}

/** The bytes of the map that a lane's address names. The access is hidden from the race check. */
char* map_bytes(Warp& w, const Ins* operand, unsigned lane, Access access) {
  Shadow* const shadow = w.block->shadow;
  w.block->shadow = nullptr;
  char* const bytes =
      resolve_one({{w, operand, lane}, TENSOR_MAP_BYTES, access}, address_of(w, operand, lane), TENSOR_MAP_ALIGNMENT);
  w.block->shadow = shadow;
  return bytes;
}

/**
 * Operands: addresses has the map, b the value. options[0] is the field, [1] the dimension, [2] is true for 64 bits.
 */
const Ins* replace(Warp& w, const Ins* i) {
  return each_active(w, i, [&](unsigned lane) {
    char* const bytes = map_bytes(w, i->extra->addresses.data(), lane, Access::ReadWrite);
    TensorMap map;
    memcpy(&map, bytes, sizeof map);
    map.magic = TensorMap::MAGIC;
    const uint64_t value = i->extra->options[2] ? w.reg<uint64_t>(i->b)[lane] : w.reg<uint32_t>(i->b)[lane];
    if (!set(map, static_cast<Field>(i->extra->options[0]), static_cast<unsigned>(i->extra->options[1]), value))
      misused({w, i, lane}, "INVALID_COPY",
              "put " + std::to_string(value) + " into a field of a tensor map that can't have it");
    memcpy(bytes, &map, sizeof map);
  });
}

/** Operands: addresses has destination and source. The warp copies one map. */
const Ins* copy_map(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  if (!m) return i + 1;
  const auto lane = static_cast<unsigned>(__builtin_ctz(m));
  const Ins* const to = &i->extra->addresses[0];
  const char* const from = map_bytes(w, &i->extra->addresses[1], lane, Access::Read);
  memcpy(resolve_one({{w, to, lane}, TENSOR_MAP_BYTES, Access::Write}, address_of(w, to, lane), TENSOR_MAP_ALIGNMENT),
         from, TENSOR_MAP_BYTES);
  return i + 1;
}

}  // namespace

bool lower_tensor_map(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.op != "tensormap" || s.mods.empty()) return false;
  Extra& extra = l.extra(ins);
  const auto add = [&](const Operand& operand, uint8_t space) {
    Ins at = ins;
    at.extra = nullptr;
    at.space = space;
    l.address(operand, at);
    extra.addresses.push_back(at);
  };
  const uint8_t space = has(s, "shared::cta") ? SHARED_SPACE : has(s, "global") ? GLOBAL_SPACE : GENERIC_SPACE;
  if (s.mods[0] == "cp_fenceproxy") {
    if (s.operands.size() != 3 || !has(s, "global") || !has(s, "shared::cta")) return false;
    add(s.operands[0], GLOBAL_SPACE);
    add(s.operands[1], SHARED_SPACE);
    ins.fn = copy_map;
    return true;
  }
  if (s.mods[0] != "replace" || !has(s, "tile") || !has(s, "b1024")) return false;
  for (const FieldName& each : FIELDS) {
    if (!has(s, each.mod)) continue;
    if (s.operands.size() != (each.of_dimension ? 3u : 2u)) return false;
    const int64_t dimension = each.of_dimension ? s.operands[1].value : 0;
    const int64_t dimensions = each.field == Field::Stride ? TENSOR_MAP_RANK - 1 : TENSOR_MAP_RANK;
    if (each.of_dimension && s.operands[1].kind != OperandKind::Immediate) return false;
    if (dimension < 0 || dimension >= dimensions) return false;
    const bool wide = s.mods.back() == "b64";
    add(s.operands[0], space);
    ins.b = l.slot(s.operands.back(), wide ? 8 : 4);
    extra.options[0] = static_cast<int>(each.field);
    extra.options[1] = static_cast<int>(dimension);
    extra.options[2] = wide;
    ins.fn = replace;
    return true;
  }
  return false;
}

}  // namespace flashcore::emu::ptx
