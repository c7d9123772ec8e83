// Atomics. Blocks run on several OS threads, so these use the host's atomics. A thread that calls them repeatedly lets
// the others run now and then, so that another thread of the block can release a lock.
#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "qualifiers.h"

namespace flashcore::emu {

inline void breathe() {
  if ((++self().atomic_calls & 255) == 0) flashcore_emu_yield();
}

/** Atomically replaces *address by change(*address) and returns the old value. The race detector does not see it. */
template <class T, class Change>
__attribute__((no_sanitize("thread"))) inline T atomic_change(T* address, Change change) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;
  check_aligned<sizeof(T)>(address, true);
  auto* bits = reinterpret_cast<Bits*>(address);
  Bits old_bits = __atomic_load_n(bits, __ATOMIC_RELAXED);
  for (;;) {
    T old_value;
    memcpy(static_cast<void*>(&old_value), &old_bits, sizeof(T));
    const T new_value = change(old_value);
    Bits new_bits;
    memcpy(&new_bits, &new_value, sizeof(T));
    if (__atomic_compare_exchange_n(bits, &old_bits, new_bits, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
      breathe();
      return old_value;
    }
  }
}

}  // namespace flashcore::emu

template <class T>
struct flashcore_same {
  using type = T;
};
template <class T>
using flashcore_same_t = typename flashcore_same<T>::type;

template <class T>
inline T atomicAdd(T* address, flashcore_same_t<T> value) {
  return flashcore::emu::atomic_change(address, [=](T old) { return T(old + value); });
}
template <class T>
inline T atomicSub(T* address, flashcore_same_t<T> value) {
  return flashcore::emu::atomic_change(address, [=](T old) { return T(old - value); });
}
template <class T>
inline T atomicMax(T* address, flashcore_same_t<T> value) {
  return flashcore::emu::atomic_change(address, [=](T old) { return old < value ? value : old; });
}
template <class T>
inline T atomicMin(T* address, flashcore_same_t<T> value) {
  return flashcore::emu::atomic_change(address, [=](T old) { return value < old ? value : old; });
}
template <class T>
inline T atomicExch(T* address, flashcore_same_t<T> value) {
  return flashcore::emu::atomic_change(address, [=](T) { return value; });
}
template <class T>
inline T atomicCAS(T* address, flashcore_same_t<T> expected, flashcore_same_t<T> desired) {
  return flashcore::emu::atomic_change(address,
                                       [=](T old) { return memcmp(&old, &expected, sizeof(T)) == 0 ? desired : old; });
}
template <class T>
inline T atomicAnd(T* address, flashcore_same_t<T> value) {
  return flashcore::emu::atomic_change(address, [=](T old) { return T(old & value); });
}
template <class T>
inline T atomicOr(T* address, flashcore_same_t<T> value) {
  return flashcore::emu::atomic_change(address, [=](T old) { return T(old | value); });
}
template <class T>
inline T atomicXor(T* address, flashcore_same_t<T> value) {
  return flashcore::emu::atomic_change(address, [=](T old) { return T(old ^ value); });
}
inline unsigned atomicInc(unsigned* address, unsigned limit) {
  return flashcore::emu::atomic_change(address, [=](unsigned old) { return old >= limit ? 0u : old + 1; });
}
inline unsigned atomicDec(unsigned* address, unsigned limit) {
  return flashcore::emu::atomic_change(address,
                                       [=](unsigned old) { return old == 0 || old > limit ? limit : old - 1; });
}
