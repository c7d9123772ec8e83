// fp16 scalars, pairs and arithmetic.
#pragma once
#include "flashcore_emulator/atomics.h"
#include "flashcore_emulator/half_bits.h"
#include "flashcore_emulator/intrinsics.h"
#include "flashcore_emulator/warp.h"

#define FLASHCORE_FORMAT half
#define FLASHCORE_SCALAR __half
#define FLASHCORE_PAIR __half2
#define FLASHCORE_RAW __half_raw
#define FLASHCORE_INFINITY 0x7c00
#include "flashcore_emulator/sixteen_bit_float.h"

using half = __half;
using half2 = __half2;
using __nv_half = __half;
using __nv_half2 = __half2;
