// Reductions over the members of a group. Every member gets the result.
#pragma once
#include <cooperative_groups.h>

namespace cooperative_groups {

#define FLASHCORE_OPERATION(NAME, EXPRESSION)                                          \
  template <class T>                                                                   \
  struct NAME {                                                                        \
    FLASHCORE_MEMBER T operator()(const T& a, const T& b) const { return EXPRESSION; } \
  };
FLASHCORE_OPERATION(plus, a + b)
FLASHCORE_OPERATION(less, b < a ? b : a)
FLASHCORE_OPERATION(greater, a < b ? b : a)
FLASHCORE_OPERATION(bit_and, a& b)
FLASHCORE_OPERATION(bit_or, a | b)
FLASHCORE_OPERATION(bit_xor, a ^ b)
#undef FLASHCORE_OPERATION

template <unsigned SIZE, class Parent, class T, class Operation>
FLASHCORE_DEVICE T reduce(const thread_block_tile<SIZE, Parent>& tile, T value, Operation operation) {
#pragma unroll
  for (unsigned lanes = SIZE / 2; lanes > 0; lanes /= 2) value = operation(value, tile.shfl_xor(value, lanes));
  return value;
}
template <class T, class Operation>
FLASHCORE_DEVICE T reduce(const coalesced_group& group, T value, Operation operation) {
  T result = group.shfl(value, 0);
  for (unsigned rank = 1; rank < group.size(); ++rank) result = operation(result, group.shfl(value, rank));
  return result;
}

}  // namespace cooperative_groups
