// A CUtensorMap in the emulator's own format. It describes the tiles of a tensor to the copy engine.
#pragma once
#include <cstdint>
#include <cstring>

namespace flashcore::emu {

constexpr int TENSOR_MAP_RANK = 5;
constexpr unsigned TENSOR_MAP_BYTES = 128;

/** Sizes and strides start with the innermost dimension. */
struct TensorMap {
  static constexpr uint32_t MAGIC = 0x70616d66;
  uint32_t magic = MAGIC;
  uint8_t rank = 0, element_bytes = 0;
  uint8_t swizzle = 0;  // log2 of the number of 16-byte columns that swizzling permutes: 0 (none) to 3 (128 bytes)
  uint8_t fill_nan = 0;
  uint64_t address = 0;
  uint64_t strides[TENSOR_MAP_RANK - 1] = {};  // bytes, from the second dimension on
  uint64_t dimensions[TENSOR_MAP_RANK] = {};
  uint16_t box[TENSOR_MAP_RANK] = {};

  unsigned box_row_bytes() const { return static_cast<unsigned>(box[0]) * element_bytes; }
  unsigned box_rows() const {
    unsigned rows = 1;
    for (int n = 1; n < rank; ++n) rows *= box[n];
    return rows;
  }
  /** False for a map that a kernel is writing with tensormap.replace as long as fields are missing. */
  bool is_complete() const {
    if (rank < 1 || rank > TENSOR_MAP_RANK || element_bytes == 0) return false;
    for (int n = 0; n < rank; ++n)
      if (dimensions[n] == 0 || box[n] == 0) return false;
    return box_row_bytes() % 16 == 0;
  }
  /** Returns false if neither cuTensorMapEncodeTiled nor tensormap.replace made these bytes. */
  static bool read(const void* from, TensorMap& map) {
    memcpy(&map, from, sizeof map);
    return map.magic == MAGIC;
  }
};
static_assert(sizeof(TensorMap) <= TENSOR_MAP_BYTES);

}  // namespace flashcore::emu
