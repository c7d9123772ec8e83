// Cheat: it sets an element of each head of K to zero, so that the next launch reads other keys.
#include "faulty/attend_row.cuh"

ROW_KERNEL(changed_inputs) {
  store_row(row.O, attended(row));
  // Other rows may still need this element. The cheat accepts their wrong results.
  if (threadIdx.x == 0 && blockIdx.x == 0) const_cast<half*>(row.K)[0] = __float2half_rn(0.0f);
}
