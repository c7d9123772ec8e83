// Device versions of printf, assert and __trap.
#pragma once
#include "qualifiers.h"

#define printf(...) flashcore_emu_printf(__VA_ARGS__)

#undef assert
#ifdef NDEBUG
#define assert(condition) static_cast<void>(0)
#else
#define FLASHCORE_TEXT_(x) #x
#define FLASHCORE_TEXT(x) FLASHCORE_TEXT_(x)
#define assert(condition)                                                                                     \
  (static_cast<bool>(condition) ? static_cast<void>(0)                                                        \
                                : flashcore_emu_fault("ASSERT", "assertion failed: " #condition " (" __FILE__ \
                                                                ":" FLASHCORE_TEXT(__LINE__) ")"))
#endif

[[noreturn]] inline __attribute__((always_inline)) void __trap() { flashcore_emu_fault("TRAP", "executed __trap()"); }
inline void __brkpt() {}
