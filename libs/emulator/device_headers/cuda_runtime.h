// The declarations that nvcc includes before a kernel, as far as device code uses them, for
// clang without a CUDA toolkit. Each function is one PTX instruction, or as few as in CUDA's
// own headers. The host's C and C++ library is not read, so the PTX is the same on every host.
#pragma once
#include "flashcore_device/atomics.h"
#include "flashcore_device/host.h"
#include "flashcore_device/intrinsics.h"
#include "flashcore_device/keywords.h"
#include "flashcore_device/math.h"
#include "flashcore_device/memory.h"
#include "flashcore_device/warp.h"
#include "vector_types.h"

// nvcc's headers include these implicitly.
#include <time.h>

#include <cmath>
#include <utility>
