// The types of the driver API that a kernel's signature needs.
#pragma once
#include <cuda_runtime.h>

typedef struct __attribute__((aligned(64))) CUtensorMap_st {
  unsigned long long opaque[16];
} CUtensorMap;
