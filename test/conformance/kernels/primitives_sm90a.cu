// The functions of kernels/primitives that only Hopper has. On the emulator only the PTX engine supports them.
#include <cuda_fp16.h>

#include "primitives/barrier.cuh"
#include "primitives/cluster.cuh"
#include "primitives/mbarrier.cuh"
#include "primitives/reduce.cuh"
#include "primitives/registers.cuh"
#include "primitives/smem.cuh"
#include "primitives/tma.cuh"
#include "primitives/wgmma.cuh"

// 64 threads: warp 1 writes and arrives, warp 0 waits and reads. One barrier goes through three phases, so that its
// parity repeats. A wrong answer of mbarrier_complete changes the output words.
extern "C" __global__ void mbarrier_phases(const uint32_t* in, uint32_t* out) {
  __shared__ __align__(8) uint64_t full, empty;
  __shared__ uint32_t passed[32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    mbarrier_init(smem_address(&full), 32);
    mbarrier_init(smem_address(&empty), 32);
    mbarrier_init_fence();
  }
  __syncthreads();
  // Nobody has arrived yet; the phase before the first one is complete.
  uint32_t wrong = mbarrier_complete(smem_address(&full), 0) || !mbarrier_complete(smem_address(&full), 1);
  __syncthreads();
  for (int phase = 0; phase < 3; ++phase) {
    if (warp == 1) {
      if (phase > 0) mbarrier_wait(smem_address(&empty), (phase - 1) % 2);
      passed[31 - lane] = in[32 * phase + lane];
      mbarrier_arrive(smem_address(&full));
    } else {
      mbarrier_wait(smem_address(&full), phase % 2);
      wrong |= !mbarrier_complete(smem_address(&full), phase % 2);
      out[32 * phase + lane] = passed[lane] + wrong;
      mbarrier_arrive(smem_address(&empty));
    }
  }
}

// A box of 16 rows of 64 halves, from row 32 of head 1 of a tensor [2][40][64]; eight of its rows are past the end. The
// output is the tile in shared memory, with the 128-byte swizzle.
extern "C" __global__ void tma_box(const __grid_constant__ CUtensorMap map, uint32_t* out) {
  __shared__ __align__(1024) uint32_t tile[16 * 32];
  __shared__ __align__(8) uint64_t full;
  if (threadIdx.x == 0) {
    mbarrier_init(smem_address(&full), 1);
    mbarrier_init_fence();
    mbarrier_arrive_expect_bytes(smem_address(&full), sizeof tile);
    tma_load_3d(smem_address(tile), &map, smem_address(&full), 0, 32, 1);
  }
  __syncthreads();
  mbarrier_wait(smem_address(&full), 0);
  for (int i = threadIdx.x; i < 16 * 32; i += 32) out[i] = tile[i];
}

// Like tma_box, but from row 32 of head 1 of batch 1 of a tensor [2][40][3][64]: a row has all heads, side by side.
extern "C" __global__ void tma_box_of_batch(const __grid_constant__ CUtensorMap map, uint32_t* out) {
  __shared__ __align__(1024) uint32_t tile[16 * 32];
  __shared__ __align__(8) uint64_t full;
  if (threadIdx.x == 0) {
    mbarrier_init(smem_address(&full), 1);
    mbarrier_init_fence();
    mbarrier_arrive_expect_bytes(smem_address(&full), sizeof tile);
    tma_load_4d(smem_address(tile), &map, smem_address(&full), 0, 32, 1, 1);
  }
  __syncthreads();
  mbarrier_wait(smem_address(&full), 0);
  for (int i = threadIdx.x; i < 16 * 32; i += 32) out[i] = tile[i];
}

// Copies the second half of 64 words unchanged.
extern "C" __global__ void bulk_words(const uint32_t* in, uint32_t* out) {
  __shared__ __align__(16) uint32_t words[32];
  __shared__ __align__(8) uint64_t full;
  if (threadIdx.x == 0) {
    mbarrier_init(smem_address(&full), 1);
    mbarrier_init_fence();
    mbarrier_arrive_expect_bytes(smem_address(&full), sizeof words);
    bulk_load(smem_address(words), in + 32, smem_address(&full), sizeof words);
  }
  __syncthreads();
  mbarrier_wait(smem_address(&full), 0);
  out[threadIdx.x] = words[threadIdx.x];
}

// The copy engine adds four rows of 128 floats to the same 128 sums.
extern "C" __global__ void bulk_sums(const float* in, float* sums) {
  __shared__ __align__(16) float rows[4 * 128];
  for (int i = threadIdx.x; i < 4 * 128; i += 128) rows[i] = in[i];
  sums[threadIdx.x] = 0.0f;
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int row = 0; row < 4; ++row) bulk_reduce_add(sums, smem_address(rows + 128 * row), 512);
  bulk_commit();
  bulk_wait_read();
}

// Stores `rows` rows of 128 bytes of B in a tile with the 128-byte swizzle, and makes them visible to the tensor cores.
__device__ void store_tile(unsigned char* tile, const uint4* B, int rows) {
  for (int i = threadIdx.x; i < rows * 8; i += 128)
    *reinterpret_cast<uint4*>(tile + i / 8 * 128 + ((i % 8 ^ i / 8 % 8) << 4)) = B[i];
  async_proxy_fence();
  __syncthreads();
}

// One warpgroup: D = A B over a depth of 64 in four steps; the first step ignores D. A is in registers
// [step][thread][4]; D is [thread][COUNT].
template <int COUNT, class Step>
__device__ void product(const uint32_t* A, float* D, Step step) {
  float d[COUNT];
  for (int i = 0; i < COUNT; ++i) d[i] = 1e30f;  // would change the result if the first step added to it
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const uint32_t* from = A + (k * 128 + threadIdx.x) * 4;
    const uint32_t a[4] = {from[0], from[1], from[2], from[3]};
    wgmma_fence();
    step(d, a, k);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_hold(d);
  }
  for (int i = 0; i < COUNT; ++i) D[threadIdx.x * COUNT + i] = d[i];
}

// B K-major: [N][64 of K]
extern "C" __global__ void wgmma_m64n64(const uint32_t* A, const uint4* B, float* D) {
  __shared__ __align__(1024) unsigned char tile[64 * 128];
  store_tile(tile, B, 64);
  product<32>(A, D, [&](float (&d)[32], const uint32_t (&a)[4], int k) {
    wgmma_m64n64k16_rs(d, a, wgmma_descriptor(smem_address(tile) + 32 * k), k > 0);
  });
}
extern "C" __global__ void wgmma_m64n128(const uint32_t* A, const uint4* B, float* D) {
  __shared__ __align__(1024) unsigned char tile[128 * 128];
  store_tile(tile, B, 128);
  product<64>(A, D, [&](float (&d)[64], const uint32_t (&a)[4], int k) {
    wgmma_m64n128k16_rs(d, a, wgmma_descriptor(smem_address(tile) + 32 * k), k > 0);
  });
}
// A is also in shared memory: [64][64 of K]
template <int N, class Multiply>
__device__ void product_of_smem(const uint4* A, const uint4* B, float* D, Multiply multiply) {
  __shared__ __align__(1024) unsigned char A_tile[64 * 128], B_tile[N * 128];
  store_tile(A_tile, A, 64);
  store_tile(B_tile, B, N);
  float d[N / 2];
  for (int i = 0; i < N / 2; ++i) d[i] = 1e30f;
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < 4; ++k)
    multiply(d, wgmma_descriptor_after(wgmma_descriptor(smem_address(A_tile)), 32 * k),
             wgmma_descriptor_after(wgmma_descriptor(smem_address(B_tile)), 32 * k), k > 0);
  wgmma_commit();
  wgmma_wait<0>();
  wgmma_hold(d);
  for (int i = 0; i < N / 2; ++i) D[threadIdx.x * (N / 2) + i] = d[i];
}
extern "C" __global__ void wgmma_m64n64_ss(const uint4* A, const uint4* B, float* D) {
  product_of_smem<64>(A, B, D, [](auto& d, uint64_t a, uint64_t b, int add) { wgmma_m64n64k16_ss(d, a, b, add); });
}
extern "C" __global__ void wgmma_m64n80_ss(const uint4* A, const uint4* B, float* D) {
  product_of_smem<80>(A, B, D, [](auto& d, uint64_t a, uint64_t b, int add) { wgmma_m64n80k16_ss(d, a, b, add); });
}
extern "C" __global__ void wgmma_m64n128_ss(const uint4* A, const uint4* B, float* D) {
  product_of_smem<128>(A, B, D, [](auto& d, uint64_t a, uint64_t b, int add) { wgmma_m64n128k16_ss(d, a, b, add); });
}
// A MN-major: [64 of K][64], B MN-major: [64 of K][64]
extern "C" __global__ void wgmma_m64n64_ss_atbt(const uint4* A, const uint4* B, float* D) {
  __shared__ __align__(1024) unsigned char A_tile[64 * 128], B_tile[64 * 128];
  store_tile(A_tile, A, 64);
  store_tile(B_tile, B, 64);
  float d[32];
  wgmma_forget(d);
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < 4; ++k)
    wgmma_m64n64k16_ss_atbt(d, wgmma_descriptor(smem_address(A_tile) + 2048 * k),
                            wgmma_descriptor(smem_address(B_tile) + 2048 * k), k > 0);
  wgmma_commit();
  wgmma_wait<0>();
  wgmma_hold(d);
  for (int i = 0; i < 32; ++i) D[threadIdx.x * 32 + i] = d[i];
}

// B MN-major: [64 of K][N], in consecutive panels of 64 columns
extern "C" __global__ void wgmma_m64n64_bt(const uint32_t* A, const uint4* B, float* D) {
  __shared__ __align__(1024) unsigned char tile[64 * 128];
  store_tile(tile, B, 64);
  product<32>(A, D, [&](float (&d)[32], const uint32_t (&a)[4], int k) {
    wgmma_m64n64k16_rs_bt(d, a, wgmma_descriptor(smem_address(tile) + 2048 * k, 8192), k > 0);
  });
}
extern "C" __global__ void wgmma_m64n128_bt(const uint32_t* A, const uint4* B, float* D) {
  __shared__ __align__(1024) unsigned char tile[128 * 128];
  store_tile(tile, B, 128);
  product<64>(A, D, [&](float (&d)[64], const uint32_t (&a)[4], int k) {
    wgmma_m64n128k16_rs_bt(d, a, wgmma_descriptor(smem_address(tile) + 2048 * k, 8192), k > 0);
  });
}

// The last panel has columns beyond N that the product does not use.
extern "C" __global__ void wgmma_m64n72_bt(const uint32_t* A, const uint4* B, float* D) {
  __shared__ __align__(1024) unsigned char tile[2 * 64 * 128];
  store_tile(tile, B, 2 * 64);
  product<36>(A, D, [&](float (&d)[36], const uint32_t (&a)[4], int k) {
    wgmma_m64n72k16_rs_bt(d, a, wgmma_descriptor(smem_address(tile) + 2048 * k, 8192), k > 0);
  });
}
extern "C" __global__ void wgmma_m64n96_bt(const uint32_t* A, const uint4* B, float* D) {
  __shared__ __align__(1024) unsigned char tile[2 * 64 * 128];
  store_tile(tile, B, 2 * 64);
  product<48>(A, D, [&](float (&d)[48], const uint32_t (&a)[4], int k) {
    wgmma_m64n96k16_rs_bt(d, a, wgmma_descriptor(smem_address(tile) + 2048 * k, 8192), k > 0);
  });
}
extern "C" __global__ void wgmma_m64n256_bt(const uint32_t* A, const uint4* B, float* D) {
  __shared__ __align__(1024) unsigned char tile[4 * 64 * 128];
  store_tile(tile, B, 4 * 64);
  product<128>(A, D, [&](float (&d)[128], const uint32_t (&a)[4], int k) {
    wgmma_m64n256k16_rs_bt(d, a, wgmma_descriptor(smem_address(tile) + 2048 * k, 8192), k > 0);
  });
}

// Two CTAs of 32 threads. Each writes its words, in reverse order, into the other's shared memory.
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_exchange(const uint32_t* in, uint32_t* out) {
  __shared__ __align__(16) uint32_t received[32];
  const int rank = cluster_rank(), lane = threadIdx.x;
  cluster_arrive();  // the other CTA must have started before its shared memory is accessed
  cluster_wait();
  auto* other = reinterpret_cast<uint32_t*>(cluster_smem(reinterpret_cast<unsigned char*>(received), 1 - rank));
  other[31 - lane] = in[32 * rank + lane];
  cluster_arrive();
  cluster_wait();
  out[32 * rank + lane] = received[lane];
}

// Two warpgroups: one releases registers; the other takes them and keeps 128 values live across a barrier.
extern "C" __global__ void __launch_bounds__(256, 1) registers_moved(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t turned[128];
  const int thread = threadIdx.x % 128;
  if (threadIdx.x < 128) {
    registers_decrease<24>();
    turned[127 - thread] = in[thread];
    named_barrier_sync(1, 256);
  } else {
    registers_increase<240>();
    uint32_t kept[128];
#pragma unroll
    for (int i = 0; i < 128; ++i) kept[i] = in[(thread + i) % 128];
    named_barrier_sync(1, 256);
    uint32_t sum = 0;
#pragma unroll
    for (int i = 0; i < 128; ++i) sum += kept[i] * (i + 1) ^ turned[(thread + i) % 128];
    out[thread] = sum;
  }
}
