// Warpgroup matrix products (sm_90a): D = A B (+ D when accumulate), 64 x N x 16, with fp16 inputs and fp32 outputs,
// asynchronous. In a kernel whose parameter BF16 is 1, inputs are bf16. D of thread t (warp w = t / 32 of the
// warpgroup, g = t % 32 / 4, c = t % 4): row 16 w + g (+ 8), column 8 j + 2 c (+
// 1) is d[4 j + 2 (row half) + (column half)]. A in registers is laid out as mma.cuh's A, one 16-row stripe a warp.
#pragma once
#include <cstdint>

#if BF16
#define WGMMA_INPUTS "bf16.bf16"
#else
#define WGMMA_INPUTS "f16.f16"
#endif

// A tile of rows of 128 bytes (64 halves) with the 128-byte swizzle, base 1024-byte aligned: eight rows are 1024 bytes
// apart. K-major (rows run along N): advance 32 bytes a k16 step. MN-major (rows run along K, `bt`): advance 16 rows a
// step; leading_bytes is then the distance between panels of 64 columns. Only the lower 18 bits of the address count:
// in a cluster, higher bits have the CTA's rank.
__device__ __forceinline__ uint64_t wgmma_descriptor(uint32_t tile_smem, int leading_bytes = 16) {
  const uint64_t swizzle_128B = uint64_t{1} << 62, eight_rows = uint64_t{1024 >> 4} << 32;
  return swizzle_128B | eight_rows | uint32_t(leading_bytes / 16 * 65536 + (tile_smem & 0x3FFFF) / 16);
}

// The descriptor of data `bytes` further in shared memory, with panels `leading_bytes` further apart. This is one
// addition. A new descriptor would take four dependent ones, for which its product would wait.
__device__ __forceinline__ uint64_t wgmma_descriptor_after(uint64_t descriptor, int bytes, int leading_bytes = 0) {
  const uint32_t low = uint32_t(descriptor) + bytes / 16 + leading_bytes / 16 * 65536;
  return (descriptor & ~uint64_t{0xFFFFFFFF}) | low;
}

// Needed before the first wgmma, and between ordinary writes to registers and a wgmma that reads these registers.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }

__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }

// Waits until at most PENDING of the latest groups are in flight.
template <int PENDING>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(PENDING) : "memory");
}

// At this point the compiler may neither move reads of an accumulator up nor keep copies of it.
template <int COUNT>
__device__ __forceinline__ void wgmma_hold(float (&d)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// Called before a product that does not accumulate: marks the registers' values as unused. Otherwise ptxas assumes that
// the product adds to them, and makes the product wait for the code that computed them.
template <int COUNT>
__device__ __forceinline__ void wgmma_forget(float (&d)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) asm volatile("" : "=f"(d[i]));
}

// The operands of D: their numbers, and the registers.
#define WGMMA_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_32 WGMMA_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_36 WGMMA_32 ", %32, %33, %34, %35"
#define WGMMA_40 WGMMA_36 ", %36, %37, %38, %39"
#define WGMMA_48 WGMMA_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_64 WGMMA_48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_96                                                                     \
  WGMMA_64                                                                           \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_128                                                                                \
  WGMMA_96                                                                                       \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_OF_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WGMMA_OF_8(i) WGMMA_OF_4(i), WGMMA_OF_4(i + 4)
#define WGMMA_OF_16_FROM(i) WGMMA_OF_8(i), WGMMA_OF_8(i + 8)
#define WGMMA_OF_16 WGMMA_OF_16_FROM(0)
#define WGMMA_OF_32 WGMMA_OF_16, WGMMA_OF_16_FROM(16)
#define WGMMA_OF_36 WGMMA_OF_32, WGMMA_OF_4(32)
#define WGMMA_OF_40 WGMMA_OF_32, WGMMA_OF_8(32)
#define WGMMA_OF_48 WGMMA_OF_32, WGMMA_OF_16_FROM(32)
#define WGMMA_OF_64 WGMMA_OF_48, WGMMA_OF_16_FROM(48)
#define WGMMA_OF_96 WGMMA_OF_64, WGMMA_OF_16_FROM(64), WGMMA_OF_16_FROM(80)
#define WGMMA_OF_128 WGMMA_OF_96, WGMMA_OF_16_FROM(96), WGMMA_OF_16_FROM(112)

// Each thread has ACCUMULATORS = N / 2 floats. A, B and P are the numbers of the operands that follow.
#define WGMMA_OF_REGISTERS(NAME, N, ACCUMULATORS, A, B, P, TRANSPOSED)                                                \
  __device__ __forceinline__ void NAME(float (&d)[ACCUMULATORS], const uint32_t (&a)[4], uint64_t b_smem,             \
                                       int accumulate) {                                                              \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N                   \
                 "k16.f32." WGMMA_INPUTS " {" WGMMA_##ACCUMULATORS "}, {" A "}, " B ", p, 1, 1, " TRANSPOSED ";\n}\n" \
                 : WGMMA_OF_##ACCUMULATORS                                                                            \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_smem), "r"(accumulate));                         \
  }
#define WGMMA_OF_SMEM(NAME, N, ACCUMULATORS, A, B, P, TRANSPOSED)                                                    \
  __device__ __forceinline__ void NAME(float (&d)[ACCUMULATORS], uint64_t a_smem, uint64_t b_smem, int accumulate) { \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N                  \
                 "k16.f32." WGMMA_INPUTS " {" WGMMA_##ACCUMULATORS "}, " A ", " B ", p, 1, 1, " TRANSPOSED ";\n}\n"  \
                 : WGMMA_OF_##ACCUMULATORS                                                                           \
                 : "l"(a_smem), "l"(b_smem), "r"(accumulate));                                                       \
  }

// A is in registers. _rs: B is K-major. _rs_bt: B is MN-major, so its rows run along K, like V in memory.
WGMMA_OF_REGISTERS(wgmma_m64n64k16_rs, 64, 32, "%32, %33, %34, %35", "%36", "%37", "0")
WGMMA_OF_REGISTERS(wgmma_m64n128k16_rs, 128, 64, "%64, %65, %66, %67", "%68", "%69", "0")
WGMMA_OF_REGISTERS(wgmma_m64n64k16_rs_bt, 64, 32, "%32, %33, %34, %35", "%36", "%37", "1")
WGMMA_OF_REGISTERS(wgmma_m64n72k16_rs_bt, 72, 36, "%36, %37, %38, %39", "%40", "%41", "1")
WGMMA_OF_REGISTERS(wgmma_m64n96k16_rs_bt, 96, 48, "%48, %49, %50, %51", "%52", "%53", "1")
WGMMA_OF_REGISTERS(wgmma_m64n128k16_rs_bt, 128, 64, "%64, %65, %66, %67", "%68", "%69", "1")
WGMMA_OF_REGISTERS(wgmma_m64n256k16_rs_bt, 256, 128, "%128, %129, %130, %131", "%132", "%133", "1")

// A is in shared memory too, K-major.
WGMMA_OF_SMEM(wgmma_m64n32k16_ss, 32, 16, "%16", "%17", "%18", "0, 0")
WGMMA_OF_SMEM(wgmma_m64n64k16_ss, 64, 32, "%32", "%33", "%34", "0, 0")
WGMMA_OF_SMEM(wgmma_m64n80k16_ss, 80, 40, "%40", "%41", "%42", "0, 0")
WGMMA_OF_SMEM(wgmma_m64n128k16_ss, 128, 64, "%64", "%65", "%66", "0, 0")

// A is in shared memory, K-major, and B is MN-major.
WGMMA_OF_SMEM(wgmma_m64n256k16_ss_bt, 256, 128, "%128", "%129", "%130", "0, 1")

// A and B are in shared memory, MN-major.
WGMMA_OF_SMEM(wgmma_m64n64k16_ss_atbt, 64, 32, "%32", "%33", "%34", "1, 1")
