// Loads and stores with cache hints, and address spaces.
#pragma once
#include "../vector_types.h"
#include "warp.h"

FLASHCORE_DEVICE void* memcpy(void* to, const void* from, size_t bytes) { return __builtin_memcpy(to, from, bytes); }
FLASHCORE_DEVICE void* memset(void* to, int value, size_t bytes) { return __builtin_memset(to, value, bytes); }

namespace flashcore::device {

/** The type that moves a value of BYTES bytes. */
template <int BYTES>
struct WordOf;
template <>
struct WordOf<1> {
  using type = unsigned char;
};
template <>
struct WordOf<2> {
  using type = unsigned short;
};
template <>
struct WordOf<4> {
  using type = unsigned;
};
template <>
struct WordOf<8> {
  using type = uint2;
};
template <>
struct WordOf<16> {
  using type = uint4;
};

template <class T>
using Word = typename WordOf<static_cast<int>(sizeof(T))>::type;

}  // namespace flashcore::device

// Loads of one hint. 8 bytes are moved as two words, 16 bytes as four.
#define FLASHCORE_HINTED_LOAD(NAME, HINT, VOLATILE)                                                 \
  namespace flashcore::device {                                                                     \
  FLASHCORE_DEVICE void NAME(unsigned char& to, const void* from) {                                 \
    unsigned short word;                                                                            \
    asm VOLATILE("ld.global." HINT ".u8 %0, [%1];" : "=h"(word) : "l"(from));                       \
    to = static_cast<unsigned char>(word);                                                          \
  }                                                                                                 \
  FLASHCORE_DEVICE void NAME(unsigned short& to, const void* from) {                                \
    asm VOLATILE("ld.global." HINT ".u16 %0, [%1];" : "=h"(to) : "l"(from));                        \
  }                                                                                                 \
  FLASHCORE_DEVICE void NAME(unsigned& to, const void* from) {                                      \
    asm VOLATILE("ld.global." HINT ".u32 %0, [%1];" : "=r"(to) : "l"(from));                        \
  }                                                                                                 \
  FLASHCORE_DEVICE void NAME(uint2& to, const void* from) {                                         \
    asm VOLATILE("ld.global." HINT ".v2.u32 {%0, %1}, [%2];" : "=r"(to.x), "=r"(to.y) : "l"(from)); \
  }                                                                                                 \
  FLASHCORE_DEVICE void NAME(uint4& to, const void* from) {                                         \
    asm VOLATILE("ld.global." HINT ".v4.u32 {%0, %1, %2, %3}, [%4];"                                \
                 : "=r"(to.x), "=r"(to.y), "=r"(to.z), "=r"(to.w)                                   \
                 : "l"(from));                                                                      \
  }                                                                                                 \
  }                                                                                                 \
  template <class T>                                                                                \
  FLASHCORE_DEVICE T __##NAME(const T* address) {                                                   \
    flashcore::device::Word<T> word;                                                                \
    flashcore::device::NAME(word, address);                                                         \
    return __builtin_bit_cast(T, word);                                                             \
  }
FLASHCORE_HINTED_LOAD(ldg, "nc", )
FLASHCORE_HINTED_LOAD(ldcg, "cg", volatile)
FLASHCORE_HINTED_LOAD(ldca, "ca", volatile)
FLASHCORE_HINTED_LOAD(ldcs, "cs", volatile)
FLASHCORE_HINTED_LOAD(ldlu, "lu", volatile)
FLASHCORE_HINTED_LOAD(ldcv, "cv", volatile)
#undef FLASHCORE_HINTED_LOAD

#define FLASHCORE_HINTED_STORE(NAME, HINT)                                                                             \
  namespace flashcore::device {                                                                                        \
  FLASHCORE_DEVICE void NAME(void* to, unsigned char from) {                                                           \
    asm volatile("st.global." HINT ".u8 [%0], %1;" ::"l"(to), "h"(static_cast<unsigned short>(from)) : "memory");      \
  }                                                                                                                    \
  FLASHCORE_DEVICE void NAME(void* to, unsigned short from) {                                                          \
    asm volatile("st.global." HINT ".u16 [%0], %1;" ::"l"(to), "h"(from) : "memory");                                  \
  }                                                                                                                    \
  FLASHCORE_DEVICE void NAME(void* to, unsigned from) {                                                                \
    asm volatile("st.global." HINT ".u32 [%0], %1;" ::"l"(to), "r"(from) : "memory");                                  \
  }                                                                                                                    \
  FLASHCORE_DEVICE void NAME(void* to, uint2 from) {                                                                   \
    asm volatile("st.global." HINT ".v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(from.x), "r"(from.y) : "memory");          \
  }                                                                                                                    \
  FLASHCORE_DEVICE void NAME(void* to, uint4 from) {                                                                   \
    asm volatile("st.global." HINT ".v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(from.x), "r"(from.y), "r"(from.z), \
                 "r"(from.w)                                                                                           \
                 : "memory");                                                                                          \
  }                                                                                                                    \
  }                                                                                                                    \
  template <class T>                                                                                                   \
  FLASHCORE_DEVICE void __##NAME(T* address, T value) {                                                                \
    flashcore::device::NAME(address, __builtin_bit_cast(flashcore::device::Word<T>, value));                           \
  }
FLASHCORE_HINTED_STORE(stwb, "wb")
FLASHCORE_HINTED_STORE(stcg, "cg")
FLASHCORE_HINTED_STORE(stcs, "cs")
FLASHCORE_HINTED_STORE(stwt, "wt")
#undef FLASHCORE_HINTED_STORE

// In clang, shared memory is address space 3 and device memory is address space 1.
FLASHCORE_DEVICE size_t __cvta_generic_to_shared(const void* pointer) {
  return static_cast<size_t>((unsigned)(unsigned long)(__attribute__((address_space(3))) const void*)(pointer));
}
FLASHCORE_DEVICE void* __cvta_shared_to_generic(size_t address) {
  return (void*)(__attribute__((address_space(3))) void*)(unsigned long)(unsigned)address;
}
FLASHCORE_DEVICE size_t __cvta_generic_to_global(const void* pointer) {
  return (size_t)(__attribute__((address_space(1))) const void*)(pointer);
}
FLASHCORE_DEVICE unsigned __isShared(const void* pointer) { return __nvvm_isspacep_shared(pointer); }
FLASHCORE_DEVICE unsigned __isGlobal(const void* pointer) { return __nvvm_isspacep_global(pointer); }
