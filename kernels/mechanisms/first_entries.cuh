// What a kernel of many entries has beside each body, so that they are compiled apart and side by side:
//
//   extern "C" __global__ void NAME(…) { if constexpr (FLASHCORE_WANTED(NAME)) attention<…>(…); }
//
// For a GPU the runner compiles each entry by itself, with -DFLASHCORE_FIRST=1 and -DFLASHCORE_FIRST_<entry>=1: those
// that a job launches first, the others beside what is done with them. An entry that is not wanted has no body then, and
// what it alone would instantiate is not compiled. Entries of a kernel with variables in device memory, which each part
// would have anew, are compiled together.
#pragma once

#ifdef FLASHCORE_FIRST
#define FLASHCORE_TEXT_(x) #x
#define FLASHCORE_TEXT(x) FLASHCORE_TEXT_(x)
// "1" where it is defined, else its own name.
#define FLASHCORE_WANTED(NAME) (FLASHCORE_TEXT(FLASHCORE_FIRST_##NAME)[0] == '1')
#else
#define FLASHCORE_WANTED(NAME) true
#endif
