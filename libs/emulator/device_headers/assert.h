#pragma once
#include <cuda_runtime.h>

#undef assert
#ifdef NDEBUG
#define assert(CONDITION) ((void)0)
#else
#define assert(CONDITION) ((CONDITION) ? (void)0 : __assertfail(#CONDITION, __FILE__, __LINE__, __func__, sizeof(char)))
#endif
