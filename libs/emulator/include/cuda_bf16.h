// bf16 scalars, pairs and arithmetic.
#pragma once
#include "flashcore_emulator/atomics.h"
#include "flashcore_emulator/half_bits.h"
#include "flashcore_emulator/intrinsics.h"
#include "flashcore_emulator/warp.h"

#define FLASHCORE_FORMAT bfloat16
#define FLASHCORE_SCALAR __nv_bfloat16
#define FLASHCORE_PAIR __nv_bfloat162
#define FLASHCORE_RAW __nv_bfloat16_raw
#define FLASHCORE_INFINITY 0x7f80
#include "flashcore_emulator/sixteen_bit_float.h"

using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;
