// The parts of the C and C++ library that device code uses and NVRTC lacks, because NVRTC reads no host headers. NVRTC
// itself declares functions (printf, memcpy, expf, …) and size_t.
#pragma once
typedef decltype(static_cast<char*>(nullptr) - static_cast<char*>(nullptr)) ptrdiff_t;
#ifndef offsetof
#define offsetof(TYPE, MEMBER) __builtin_offsetof(TYPE, MEMBER)
#endif
