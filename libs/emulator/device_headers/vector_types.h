// CUDA's built-in vector types, their make_ functions, dim3, and threadIdx to gridDim.
#pragma once
#include "flashcore_device/keywords.h"

#define FLASHCORE_VECTORS(NAME, TYPE, ALIGN2, ALIGN4)                                 \
  struct NAME##1 { TYPE x; };                                                         \
  struct __attribute__((aligned(ALIGN2))) NAME##2 { TYPE x, y; };                     \
  struct NAME##3 { TYPE x, y, z; };                                                   \
  struct __attribute__((aligned(ALIGN4))) NAME##4 { TYPE x, y, z, w; };               \
  FLASHCORE_BOTH NAME##1 make_##NAME##1(TYPE x) { return {x}; }                       \
  FLASHCORE_BOTH NAME##2 make_##NAME##2(TYPE x, TYPE y) { return {x, y}; }            \
  FLASHCORE_BOTH NAME##3 make_##NAME##3(TYPE x, TYPE y, TYPE z) { return {x, y, z}; } \
  FLASHCORE_BOTH NAME##4 make_##NAME##4(TYPE x, TYPE y, TYPE z, TYPE w) { return {x, y, z, w}; }

FLASHCORE_VECTORS(char, signed char, 2, 4)
FLASHCORE_VECTORS(uchar, unsigned char, 2, 4)
FLASHCORE_VECTORS(short, short, 4, 8)
FLASHCORE_VECTORS(ushort, unsigned short, 4, 8)
FLASHCORE_VECTORS(int, int, 8, 16)
FLASHCORE_VECTORS(uint, unsigned, 8, 16)
FLASHCORE_VECTORS(long, long, 16, 16)
FLASHCORE_VECTORS(ulong, unsigned long, 16, 16)
FLASHCORE_VECTORS(longlong, long long, 16, 16)
FLASHCORE_VECTORS(ulonglong, unsigned long long, 16, 16)
FLASHCORE_VECTORS(float, float, 8, 16)
FLASHCORE_VECTORS(double, double, 16, 16)
#undef FLASHCORE_VECTORS

struct dim3 {
  unsigned x, y, z;
  FLASHCORE_MEMBER constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  FLASHCORE_MEMBER constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  FLASHCORE_MEMBER constexpr operator uint3() const { return {x, y, z}; }
};

constexpr int warpSize = 32;

namespace flashcore::device {

/** The fields of threadIdx and its like. Reading a field reads a special register. */
#define FLASHCORE_FIELD(NAME, BUILTIN)                   \
  __declspec(property(get = read_##NAME)) unsigned NAME; \
  FLASHCORE_DEVICE_MEMBER static unsigned read_##NAME() { return BUILTIN(); }
#define FLASHCORE_VARIABLE(TYPE, REGISTER, AS)                        \
  struct TYPE {                                                       \
    FLASHCORE_FIELD(x, __nvvm_read_ptx_sreg_##REGISTER##_x)           \
    FLASHCORE_FIELD(y, __nvvm_read_ptx_sreg_##REGISTER##_y)           \
    FLASHCORE_FIELD(z, __nvvm_read_ptx_sreg_##REGISTER##_z)           \
    FLASHCORE_DEVICE_MEMBER operator AS() const { return {x, y, z}; } \
  };
FLASHCORE_VARIABLE(ThreadIndex, tid, uint3)
FLASHCORE_VARIABLE(BlockIndex, ctaid, uint3)
FLASHCORE_VARIABLE(BlockExtent, ntid, dim3)
FLASHCORE_VARIABLE(GridExtent, nctaid, dim3)
#undef FLASHCORE_VARIABLE
#undef FLASHCORE_FIELD

}  // namespace flashcore::device

extern const __attribute__((device, weak)) flashcore::device::ThreadIndex threadIdx;
extern const __attribute__((device, weak)) flashcore::device::BlockIndex blockIdx;
extern const __attribute__((device, weak)) flashcore::device::BlockExtent blockDim;
extern const __attribute__((device, weak)) flashcore::device::GridExtent gridDim;
