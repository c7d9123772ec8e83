// Loads and stores with cache hints (the hint has no effect), address spaces, and cp.async.
#pragma once
#include "qualifiers.h"

#define FLASHCORE_LOAD(NAME)                 \
  template <class T>                         \
  __forceinline__ T NAME(const T* address) { \
    return *address;                         \
  }
FLASHCORE_LOAD(__ldg)
FLASHCORE_LOAD(__ldcg)
FLASHCORE_LOAD(__ldca)
FLASHCORE_LOAD(__ldcs)
FLASHCORE_LOAD(__ldlu)
FLASHCORE_LOAD(__ldcv)
#undef FLASHCORE_LOAD

#define FLASHCORE_STORE(NAME)                             \
  template <class T>                                      \
  __forceinline__ void NAME(T* address, const T& value) { \
    *address = value;                                     \
  }
FLASHCORE_STORE(__stwb)
FLASHCORE_STORE(__stcg)
FLASHCORE_STORE(__stcs)
FLASHCORE_STORE(__stwt)
#undef FLASHCORE_STORE

/** Shared memory has 32-bit addresses, as on a GPU; flashcore::emu::shared_pointer converts one back to a pointer. */
inline size_t __cvta_generic_to_shared(const void* pointer) { return flashcore_emu_shared_address(pointer); }
inline void* __cvta_shared_to_generic(size_t address) {
  return flashcore_emu_shared_pointer(static_cast<unsigned>(address));
}
inline size_t __cvta_generic_to_global(const void* pointer) { return reinterpret_cast<size_t>(pointer); }

namespace flashcore::emu {

template <class T = void>
inline T* shared_pointer(unsigned address) {
  return static_cast<T*>(flashcore_emu_shared_pointer(address));
}

/** cp.async of 4, 8 or 16 bytes; bytes beyond `source_bytes` are filled with zeros. */
inline void cp_async(void* destination, const void* source, unsigned bytes, unsigned source_bytes) {
  flashcore_emu_cp_async(destination, source, bytes, source_bytes);
}
inline void cp_async_commit() { flashcore_emu_cp_async_commit(); }
/** cp.async.wait_group pending */
inline void cp_async_wait(int pending) { flashcore_emu_cp_async_wait(pending); }
/** cp.async.wait_all: also waits for copies that are not committed yet. */
inline void cp_async_wait_all() { flashcore_emu_cp_async_wait(-1); }

}  // namespace flashcore::emu
