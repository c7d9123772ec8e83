// Fault: a 16-byte load from an address that is only 2-byte aligned.
#include "faulty/attend_row.cuh"

ROW_KERNEL(misaligned_address) {
  RowState state = attended(row);
  // Rows start every 128 bytes. One half further on, the address is not aligned for a 16-byte load.
  const uint4 misaligned = *reinterpret_cast<const uint4*>(row.V + 1);
  if (misaligned.x == 0x7e007e00u) state.row_sum += 1.0f;    // so that the compiler keeps the load
  store_row(row.O, state);
}
