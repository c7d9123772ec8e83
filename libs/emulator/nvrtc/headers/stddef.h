// What NVRTC lacks of the C and C++ library, as far as device code uses it: it reads none of the host's. Functions
// (printf, memcpy, expf, …) and size_t are its own.
#pragma once
typedef decltype(static_cast<char*>(nullptr) - static_cast<char*>(nullptr)) ptrdiff_t;
#ifndef offsetof
#define offsetof(TYPE, MEMBER) __builtin_offsetof(TYPE, MEMBER)
#endif
