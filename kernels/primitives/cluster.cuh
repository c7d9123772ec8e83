// Clusters of CTAs (sm_90): their place, their barrier, and reads and writes of one another's shared memory.
#pragma once
#include <cstdint>

__device__ __forceinline__ int cluster_cta_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
  return static_cast<int>(rank);
}

// Arrive releases and wait acquires what the cluster's threads wrote to shared memory.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;\n" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;\n" ::: "memory"); }

// The address of the same shared offset in CTA `cta_rank`.
__device__ __forceinline__ uint32_t cluster_address(uint32_t smem, int cta_rank) {
  uint32_t remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;\n" : "=r"(remote) : "r"(smem), "r"(cta_rank));
  return remote;
}

__device__ __forceinline__ float4 cluster_load_float4(uint32_t remote_smem) {
  float4 value;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];\n"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w) : "r"(remote_smem) : "memory");
  return value;
}

__device__ __forceinline__ float cluster_load_float(uint32_t remote_smem) {
  float value;
  asm volatile("ld.shared::cluster.f32 %0, [%1];\n" : "=f"(value) : "r"(remote_smem) : "memory");
  return value;
}
