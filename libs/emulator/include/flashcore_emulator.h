// The first include of every emulated kernel: everything that nvcc provides without an include.
#pragma once
// Standard headers come first because some use names that CUDA defines as macros.
#include <algorithm>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#include "flashcore_emulator/abi.h"
#include "flashcore_emulator/registration.h"

#include "flashcore_emulator/qualifiers.h"

#include "flashcore_emulator/synchronisation.h"
#include "flashcore_emulator/warp.h"
#include "flashcore_emulator/intrinsics.h"
#include "flashcore_emulator/atomics.h"
#include "flashcore_emulator/memory.h"

#ifndef FLASHCORE_EMULATOR
#define FLASHCORE_EMULATOR 1
#endif
#define __CUDA_ARCH__ 890
#define __CUDACC__ 1

// Device versions of printf, assert and __trap.
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

// Describes the module. Every translation unit is one module.
extern "C" __attribute__((visibility("default"))) flashcore::emu::Module flashcore_emu_module;
flashcore::emu::Module flashcore_emu_module = {FLASHCORE_EMULATOR_ABI,
#if defined(FLASHCORE_INSTRUMENTED)
                                               1,
#else
                                               0,
#endif
                                               nullptr};

inline flashcore::emu::Module& flashcore::emu::this_module() { return flashcore_emu_module; }
