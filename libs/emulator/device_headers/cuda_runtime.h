// What nvcc includes before a kernel, as far as device code uses it: for a clang without a CUDA toolkit. Thin: each
// function is an instruction of PTX, or as few as CUDA's own headers make. Nothing of a host's C or C++ library is
// read, so the PTX is the same on every host.
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
