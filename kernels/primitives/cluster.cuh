// Clusters (sm_90): CTAs that run at the same time and can access each other's shared memory. Every thread of the
// cluster that has not exited takes part in the barrier.
#pragma once
#include <cstdint>

__device__ __forceinline__ int cluster_rank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
  return int(rank);
}

// Arrives at the cluster's barrier. Threads that wait there see all earlier writes, even those to remote shared memory.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;\n" ::: "memory"); }

__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;\n" ::: "memory"); }

// The same address in the shared memory of the cluster's CTA `rank`, as a generic address.
__device__ __forceinline__ unsigned char* cluster_smem(unsigned char* smem, int rank) {
  uint64_t mapped;
  asm("mapa.u64 %0, %1, %2;\n" : "=l"(mapped) : "l"(smem), "r"(rank));
  return reinterpret_cast<unsigned char*>(mapped);
}
