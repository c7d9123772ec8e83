// The parts of the C and C++ library that device code uses and NVRTC lacks, because NVRTC does not read the host's
// headers. NVRTC itself declares size_t and functions such as printf, memcpy and expf.
#pragma once
typedef decltype(static_cast<char*>(nullptr) - static_cast<char*>(nullptr)) ptrdiff_t;
#ifndef offsetof
#define offsetof(TYPE, MEMBER) __builtin_offsetof(TYPE, MEMBER)
#endif
