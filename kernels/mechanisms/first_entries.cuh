// A kernel with many entries guards each body as follows, so that entries are compiled separately and in parallel:
//
//   extern "C" __global__ void NAME(…) { if constexpr (FLASHCORE_WANTED(NAME)) attention<…>(…); }
//
// For a GPU the runner compiles each entry by itself, with -DFLASHCORE_FIRST=1 and
// -DFLASHCORE_FIRST_<entry>=1. It starts with the entries that a job launches first, and compiles the others
// while those run. The other entries then have no body, so their templates are not instantiated. If a kernel
// has variables in device memory, all entries are compiled together, because each part would get its own copy.
#pragma once

#ifdef FLASHCORE_FIRST
#define FLASHCORE_TEXT_(x) #x
#define FLASHCORE_TEXT(x) FLASHCORE_TEXT_(x)
// The text is "1" if the macro is defined, else the macro's name.
#define FLASHCORE_WANTED(NAME) (FLASHCORE_TEXT(FLASHCORE_FIRST_##NAME)[0] == '1')
#else
#define FLASHCORE_WANTED(NAME) true
#endif
