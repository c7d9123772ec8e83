// Shared-memory addresses in the form that PTX needs: 32 bits, relative to the CTA's shared window.
#pragma once
#include <cstdint>

__device__ __forceinline__ uint32_t smem_address(const void* smem) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(smem));
}

// Byte offset of a 16-byte chunk in a tile whose rows are ROW_BYTES (64, 128, 256 or 512) wide, chunks XOR-swizzled so
// that eight consecutive rows of one chunk column, which ldmatrix reads together, are in eight different groups of four
// banks.
template <int ROW_BYTES>
__device__ __forceinline__ uint32_t swizzled_offset(int row, int chunk) {
  static_assert(ROW_BYTES == 64 || ROW_BYTES == 128 || ROW_BYTES == 256 || ROW_BYTES == 512,
                "rows of 32, 64, 128 or 256 halves");
  const int phase = ROW_BYTES == 64 ? (row >> 1) & 3 : row & 7;
  return static_cast<uint32_t>(row * ROW_BYTES + ((chunk ^ phase) << 4));
}
