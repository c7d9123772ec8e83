// CUDA's built-in vector types, with a check that every access is aligned. A GPU refuses a 16-byte access to an address
// that is not a multiple of 16; a CPU does not. Copying a vector type therefore tests its address. For a local variable
// the compiler knows the answer and removes the test.
#pragma once
#include <cstdint>

#if defined(__clang__)
__attribute__((nomerge))  // each check keeps a separate call and so its own line
#endif
extern "C" [[noreturn]] void flashcore_emu_misaligned(const void* address, unsigned alignment, int is_write);

#if defined(__SANITIZE_THREAD__)
#define FLASHCORE_INSTRUMENTED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FLASHCORE_INSTRUMENTED 1
#endif
#endif

#if defined(FLASHCORE_INSTRUMENTED)
// The copies below call these hooks themselves, because compilers do not instrument all of them.
extern "C" void __tsan_read_range(void* address, unsigned long bytes);
extern "C" void __tsan_write_range(void* address, unsigned long bytes);
#define FLASHCORE_NOTE_COPY(FROM, TO, BYTES)                                   \
  __tsan_read_range(const_cast<void*>(static_cast<const void*>(FROM)), BYTES); \
  __tsan_write_range(TO, BYTES);
#else
#define FLASHCORE_NOTE_COPY(FROM, TO, BYTES)
#endif

namespace flashcore::emu {

template <unsigned ALIGNMENT>
inline __attribute__((always_inline)) void check_aligned(const void* address, bool is_write) {
#if defined(__clang__)
  __asm__("" : "+r"(address));  // clang trusts the type's alignment and would remove the test
#endif
  if (__builtin_expect((reinterpret_cast<uintptr_t>(address) & (ALIGNMENT - 1)) != 0, 0))
    flashcore_emu_misaligned(address, ALIGNMENT, is_write);
}

}  // namespace flashcore::emu

// Copying checks both addresses. In everything else the type behaves like an aggregate with the same members.
#define FLASHCORE_CHECKED_COPY(TYPE, ALIGNMENT)                              \
  TYPE() = default;                                                          \
  inline __attribute__((always_inline)) TYPE(const TYPE& other) {            \
    ::flashcore::emu::check_aligned<ALIGNMENT>(&other, false);               \
    ::flashcore::emu::check_aligned<ALIGNMENT>(this, true);                  \
    FLASHCORE_NOTE_COPY(&other, this, sizeof(TYPE))                          \
    __builtin_memcpy(static_cast<void*>(this), &other, sizeof(TYPE));        \
  }                                                                          \
  inline __attribute__((always_inline)) TYPE& operator=(const TYPE& other) { \
    ::flashcore::emu::check_aligned<ALIGNMENT>(&other, false);               \
    ::flashcore::emu::check_aligned<ALIGNMENT>(this, true);                  \
    FLASHCORE_NOTE_COPY(&other, this, sizeof(TYPE))                          \
    __builtin_memcpy(static_cast<void*>(this), &other, sizeof(TYPE));        \
    return *this;                                                            \
  }

#define FLASHCORE_VECTOR1(T, NAME) \
  struct NAME##1 { T x; };         \
  inline NAME##1 make_##NAME##1(T x) { return NAME##1 {x}; }

#define FLASHCORE_VECTOR2(T, NAME)                      \
  struct alignas(2 * sizeof(T)) NAME##2 {               \
    T x, y;                                             \
    FLASHCORE_CHECKED_COPY(NAME##2, 2 * sizeof(T))      \
    constexpr NAME##2(T x_, T y_ = 0) : x(x_), y(y_) {} \
  };                                                    \
  inline NAME##2 make_##NAME##2(T x, T y) { return NAME##2(x, y); }

#define FLASHCORE_VECTOR3(T, NAME) \
  struct NAME##3 { T x, y, z; };   \
  inline NAME##3 make_##NAME##3(T x, T y, T z) { return NAME##3 {x, y, z}; }

#define FLASHCORE_VECTOR4(T, NAME, ALIGNMENT)                                             \
  struct alignas(ALIGNMENT) NAME##4 {                                                     \
    T x, y, z, w;                                                                         \
    FLASHCORE_CHECKED_COPY(NAME##4, ALIGNMENT)                                            \
    constexpr NAME##4(T x_, T y_ = 0, T z_ = 0, T w_ = 0) : x(x_), y(y_), z(z_), w(w_) {} \
  };                                                                                      \
  inline NAME##4 make_##NAME##4(T x, T y, T z, T w) { return NAME##4(x, y, z, w); }

#define FLASHCORE_VECTORS(T, NAME, ALIGNMENT4) \
  FLASHCORE_VECTOR1(T, NAME)                   \
  FLASHCORE_VECTOR2(T, NAME)                   \
  FLASHCORE_VECTOR3(T, NAME)                   \
  FLASHCORE_VECTOR4(T, NAME, ALIGNMENT4)

FLASHCORE_VECTORS(signed char, char, 4)
FLASHCORE_VECTORS(unsigned char, uchar, 4)
FLASHCORE_VECTORS(short, short, 8)
FLASHCORE_VECTORS(unsigned short, ushort, 8)
FLASHCORE_VECTORS(int, int, 16)
FLASHCORE_VECTORS(unsigned int, uint, 16)
FLASHCORE_VECTORS(long long, longlong, 16)
FLASHCORE_VECTORS(unsigned long long, ulonglong, 16)
FLASHCORE_VECTORS(float, float, 16)
FLASHCORE_VECTORS(double, double, 16)

struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(const uint3& v) : x(v.x), y(v.y), z(v.z) {}
  operator uint3() const { return uint3{x, y, z}; }
};
