// memcpy and memset, which become loads and stores.
#pragma once
#include <cuda_runtime.h>

FLASHCORE_DEVICE void* memcpy(void* to, const void* from, size_t bytes) { return __builtin_memcpy(to, from, bytes); }
FLASHCORE_DEVICE void* memset(void* to, int value, size_t bytes) { return __builtin_memset(to, value, bytes); }
