// Tensor maps. Arguments are checked by the rules that cuda.h documents for cuTensorMapEncodeTiled.
#include "../exec/tensor_map.h"

#include "state.h"

using namespace flashcore::emu;

namespace {

/** Bytes of an element of this CUtensorMapDataType; 0 if unknown. */
unsigned element_bytes(int type) {
  constexpr uint8_t BYTES[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  return type >= 0 && type < static_cast<int>(sizeof BYTES) ? BYTES[type] : 0;
}

bool is_float(int type) { return type >= 6; }

}  // namespace

FLASHCORE_DRIVER_API CUresult cuTensorMapEncodeTiled(void* to, int type, uint32_t rank, void* address,
                                                     const uint64_t* dimensions, const uint64_t* strides,
                                                     const uint32_t* box, const uint32_t* element_strides,
                                                     int interleave, int swizzle, int, int fill) {
#if !FLASHCORE_PTX_ENGINE
  return CUDA_ERROR_NOT_SUPPORTED;  // the fibre engine has no copy engine
#endif
  FLASHCORE_REQUIRE(check_context());
  TensorMap map;
  const unsigned bytes = element_bytes(type);
  if (!to || reinterpret_cast<uintptr_t>(to) % 64 || !bytes || rank < 1 || rank > TENSOR_MAP_RANK ||
      reinterpret_cast<uintptr_t>(address) % 16 || !dimensions || (rank > 1 && !strides) || !box || !element_strides ||
      swizzle < 0 || (fill != 0 && !is_float(type)))
    return CUDA_ERROR_INVALID_VALUE;
  if (interleave != 0 || swizzle > 3) return CUDA_ERROR_NOT_SUPPORTED;
  map.rank = static_cast<uint8_t>(rank);
  map.element_bytes = static_cast<uint8_t>(bytes);
  map.swizzle = static_cast<uint8_t>(swizzle);
  map.fill_nan = fill != 0;
  map.address = reinterpret_cast<uint64_t>(address);
  for (uint32_t n = 0; n < rank; ++n) {
    if (dimensions[n] < 1 || dimensions[n] > 1ull << 32 || box[n] < 1 || box[n] > 256) return CUDA_ERROR_INVALID_VALUE;
    if (element_strides[n] < 1 || element_strides[n] > 8) return CUDA_ERROR_INVALID_VALUE;
    if (element_strides[n] != 1) return CUDA_ERROR_NOT_SUPPORTED;
    map.dimensions[n] = dimensions[n];
    map.box[n] = static_cast<uint16_t>(box[n]);
    if (n + 1 == rank) break;
    if (strides[n] % 16 || strides[n] >= 1ull << 40) return CUDA_ERROR_INVALID_VALUE;
    map.strides[n] = strides[n];
  }
  if (map.box_row_bytes() % 16 || (swizzle && map.box_row_bytes() > 16u << swizzle)) return CUDA_ERROR_INVALID_VALUE;
  memset(to, 0, TENSOR_MAP_BYTES);
  memcpy(to, &map, sizeof map);
  return CUDA_SUCCESS;
}
