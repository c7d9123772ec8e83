// The PTX engine as one translation unit, compiled for the processor that it runs on: 32 lanes are vectors of it.
#include "halves.h"
// The standard library's headers first: half_bits.h has CUDA's names as macros.
#include "block.cpp"
#include "collective.cpp"
#include "control.cpp"
#include "loaded.cpp"
#include "lower.cpp"
#include "memory.cpp"
#include "parse.cpp"
#include "shadow.cpp"
#include "tensor.cpp"
#include "warp.cpp"
