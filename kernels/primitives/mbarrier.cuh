// Phase barriers in shared memory, 8 bytes each (sm_90): threads arrive at them, and bulk copies count their bytes.
#pragma once
#include <cstdint>

__device__ __forceinline__ void mbarrier_init(uint32_t barrier_smem, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier_smem), "r"(arrivals) : "memory");
}

// Makes the initialised barriers visible to the copy engine and to the other CTAs of the cluster.
__device__ __forceinline__ void mbarrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive(uint32_t barrier_smem) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier_smem) : "memory");
}

// Arrives, and makes the phase wait for `bytes` more bytes of bulk copies.
__device__ __forceinline__ void mbarrier_arrive_expect_bytes(uint32_t barrier_smem, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier_smem), "r"(bytes) : "memory");
}

// Waits until the phase with this parity (0 for the first phase) is complete.
__device__ __forceinline__ void mbarrier_wait(uint32_t barrier_smem, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nwait_again_%=:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished_%=;\nbra wait_again_%=;\nfinished_%=:\n}\n" ::"r"(barrier_smem),
      "r"(parity)
      : "memory");
}

// Returns whether the phase with this parity is complete. An early call saves the later wait its latency.
__device__ __forceinline__ bool mbarrier_complete(uint32_t barrier_smem, int parity) {
  uint32_t complete;
  asm volatile(
      "{\n.reg .pred done;\nmbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\nselp.u32 %0, 1, 0, done;\n}\n"
      : "=r"(complete)
      : "r"(barrier_smem), "r"(parity)
      : "memory");
  return complete != 0;
}
