// What a kernel of many entries has beside each body, so that a job waits for those alone that it launches:
//
//   extern "C" __global__ void NAME(…) { if constexpr (FLASHCORE_WANTED(NAME)) attention<…>(…); }
//
// The runner compiles a GPU's kernel whole, and at the same time what the job launches: each group of entries that a
// launch needs together by itself, with -DFLASHCORE_FIRST=1 and -DFLASHCORE_FIRST_<entry>=1 of each. An entry that is not
// wanted has no body then, and what it alone would instantiate is not compiled. The code of the others is compared
// afterwards, byte by byte. Entries that share a variable in device memory are not compiled apart.
#pragma once

#ifdef FLASHCORE_FIRST
#define FLASHCORE_TEXT_(x) #x
#define FLASHCORE_TEXT(x) FLASHCORE_TEXT_(x)
// "1" where it is defined, else its own name.
#define FLASHCORE_WANTED(NAME) (FLASHCORE_TEXT(FLASHCORE_FIRST_##NAME)[0] == '1')
#else
#define FLASHCORE_WANTED(NAME) true
#endif
