// Sums in device memory that other threads add to as well; nothing is read back.
#pragma once

// Adds four floats to four in a row, aligned to 16 bytes (sm_90 and later). Each is added by itself.
__device__ __forceinline__ void reduce_add_4(float* sums, float a, float b, float c, float d) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"l"(sums), "f"(a), "f"(b), "f"(c), "f"(d)
               : "memory");
}
