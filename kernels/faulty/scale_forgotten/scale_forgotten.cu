// Mistake: logits are not multiplied by 1/sqrt(D). Rows whose values or logits are all equal are still right.
#include "faulty/attend_row.cuh"

ROW_KERNEL(scale_forgotten) {
  row.scale = 1.0f;
  store_row(row.O, attended(row));
}
