// Atomic functions on device and shared memory. clang determines which of the two an address points to.
#pragma once
#include "memory.h"

#define FLASHCORE_ATOMIC(NAME, TYPE, BUILTIN, AS) \
  FLASHCORE_DEVICE TYPE NAME(TYPE* address, TYPE value) { return static_cast<TYPE>(BUILTIN((AS*)address, (AS)value)); }
FLASHCORE_ATOMIC(atomicAdd, int, __nvvm_atom_add_gen_i, int)
FLASHCORE_ATOMIC(atomicAdd, unsigned, __nvvm_atom_add_gen_i, int)
FLASHCORE_ATOMIC(atomicAdd, unsigned long long, __nvvm_atom_add_gen_ll, long long)
FLASHCORE_ATOMIC(atomicAdd, float, __nvvm_atom_add_gen_f, float)
FLASHCORE_ATOMIC(atomicExch, int, __nvvm_atom_xchg_gen_i, int)
FLASHCORE_ATOMIC(atomicExch, unsigned, __nvvm_atom_xchg_gen_i, int)
FLASHCORE_ATOMIC(atomicExch, unsigned long long, __nvvm_atom_xchg_gen_ll, long long)
FLASHCORE_ATOMIC(atomicMax, int, __nvvm_atom_max_gen_i, int)
FLASHCORE_ATOMIC(atomicMax, unsigned, __nvvm_atom_max_gen_ui, unsigned)
FLASHCORE_ATOMIC(atomicMax, long long, __nvvm_atom_max_gen_ll, long long)
FLASHCORE_ATOMIC(atomicMax, unsigned long long, __nvvm_atom_max_gen_ull, unsigned long long)
FLASHCORE_ATOMIC(atomicMin, int, __nvvm_atom_min_gen_i, int)
FLASHCORE_ATOMIC(atomicMin, unsigned, __nvvm_atom_min_gen_ui, unsigned)
FLASHCORE_ATOMIC(atomicMin, long long, __nvvm_atom_min_gen_ll, long long)
FLASHCORE_ATOMIC(atomicMin, unsigned long long, __nvvm_atom_min_gen_ull, unsigned long long)
FLASHCORE_ATOMIC(atomicAnd, int, __nvvm_atom_and_gen_i, int)
FLASHCORE_ATOMIC(atomicAnd, unsigned, __nvvm_atom_and_gen_i, int)
FLASHCORE_ATOMIC(atomicAnd, unsigned long long, __nvvm_atom_and_gen_ll, long long)
FLASHCORE_ATOMIC(atomicOr, int, __nvvm_atom_or_gen_i, int)
FLASHCORE_ATOMIC(atomicOr, unsigned, __nvvm_atom_or_gen_i, int)
FLASHCORE_ATOMIC(atomicOr, unsigned long long, __nvvm_atom_or_gen_ll, long long)
FLASHCORE_ATOMIC(atomicXor, int, __nvvm_atom_xor_gen_i, int)
FLASHCORE_ATOMIC(atomicXor, unsigned, __nvvm_atom_xor_gen_i, int)
FLASHCORE_ATOMIC(atomicXor, unsigned long long, __nvvm_atom_xor_gen_ll, long long)
FLASHCORE_ATOMIC(atomicInc, unsigned, __nvvm_atom_inc_gen_ui, unsigned)
FLASHCORE_ATOMIC(atomicDec, unsigned, __nvvm_atom_dec_gen_ui, unsigned)
#undef FLASHCORE_ATOMIC
FLASHCORE_DEVICE double atomicAdd(double* address, double value) { return __nvvm_atom_add_gen_d(address, value); }
FLASHCORE_DEVICE float atomicExch(float* address, float value) {
  return __int_as_float(__nvvm_atom_xchg_gen_i((int*)address, __float_as_int(value)));
}
FLASHCORE_DEVICE int atomicSub(int* address, int value) { return atomicAdd(address, -value); }
FLASHCORE_DEVICE unsigned atomicSub(unsigned* address, unsigned value) { return atomicAdd(address, 0u - value); }
FLASHCORE_DEVICE int atomicCAS(int* address, int expected, int desired) {
  return __nvvm_atom_cas_gen_i(address, expected, desired);
}
FLASHCORE_DEVICE unsigned atomicCAS(unsigned* address, unsigned expected, unsigned desired) {
  return static_cast<unsigned>(__nvvm_atom_cas_gen_i((int*)address, (int)expected, (int)desired));
}
FLASHCORE_DEVICE unsigned long long atomicCAS(unsigned long long* address, unsigned long long expected,
                                              unsigned long long desired) {
  return static_cast<unsigned long long>(
      __nvvm_atom_cas_gen_ll((long long*)address, (long long)expected, (long long)desired));
}
