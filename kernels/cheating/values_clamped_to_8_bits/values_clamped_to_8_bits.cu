// Cheat: it clamps K and V to 448, so that they fit into 8 bits.
#include "faulty/changed_keys.cuh"

ROW_KERNEL(values_clamped_to_8_bits) {
  attend_changed(row, [](half x) { return __float2half_rn(fminf(fmaxf(__half2float(x), -448.0f), 448.0f)); });
}
