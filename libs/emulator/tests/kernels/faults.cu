// entries: write_past write_slack read_freed through_null misaligned_vector misaligned_half2 shared_past shared_slack
// waits_for_nobody different_barriers wrong_mask traps asserts divides overflows_stack last_lane_leaves write_far
// read_far never_ends
#include <cuda_fp16.h>

extern "C" __global__ void write_past(int* out, int count) { out[blockIdx.x * blockDim.x + threadIdx.x] = count; }
extern "C" __global__ void write_slack(char* out, int count) { out[count] = 1; }
extern "C" __global__ void read_freed(const int* in, int* out) { out[0] = in[0]; }
extern "C" __global__ void through_null(int* out, const int* null) { out[0] = null[threadIdx.x]; }
extern "C" __global__ void misaligned_vector(const float* in, float* out) {
  out[0] = reinterpret_cast<const float4*>(in + threadIdx.x)->y;
  float4 v = *reinterpret_cast<const float4*>(in + threadIdx.x);
  out[1] = v.x;
}
extern "C" __global__ void misaligned_half2(half* out) {
  *reinterpret_cast<half2*>(out + threadIdx.x) = __float2half2_rn(1.0f);
}
extern "C" __global__ void shared_past(int* out) {
  extern __shared__ int dynamic[];
  dynamic[threadIdx.x] = 1;
  out[threadIdx.x] = dynamic[threadIdx.x];
}
extern "C" __global__ void shared_slack(char* out) {
  extern __shared__ char bytes[];
  bytes[100] = out ? 1 : 0;
}
extern "C" __global__ void waits_for_nobody(int* out) {
  if (threadIdx.x < 40)
    __shfl_xor_sync(0xffffffffu, 1, 1);
  else
    __syncthreads();
  out[threadIdx.x] = 1;
}
extern "C" __global__ void different_barriers(int* out) {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
  out[threadIdx.x] = 1;
}
extern "C" __global__ void wrong_mask(int* out) { out[threadIdx.x] = __shfl_sync(0xffu, 1, 0); }
extern "C" __global__ void traps(int* out) {
  if (threadIdx.x == 3) __trap();
  out[threadIdx.x] = 1;
}
extern "C" __global__ void asserts(int* out) {
  assert(threadIdx.x < 7);
  out[threadIdx.x] = 1;
}
extern "C" __global__ void divides(int* out, int zero) { out[threadIdx.x] = 5 / zero; }
__device__ __noinline__ int deep(volatile char* above, int depth) {
  volatile char local[4096];
  local[0] = above ? above[0] : 1;
  return depth == 0 ? local[0] : deep(local, depth - 1) + local[0];
}
extern "C" __global__ void overflows_stack(int* out) { out[threadIdx.x] = deep(nullptr, 1000); }
// The other lanes wait in a shuffle that completes when the last lane exits. A waiting lane must then compute it.
extern "C" __global__ void last_lane_leaves(int* out) {
  if (threadIdx.x == 31) return;
  out[threadIdx.x] = __shfl_sync(0xffffffffu, (int)threadIdx.x, 4);
}
extern "C" __global__ void write_far(int* out, long long elements) { out[elements + threadIdx.x] = 1; }
extern "C" __global__ void read_far(const float4* in, float4* out, long long elements) {
  out[threadIdx.x] = in[elements + threadIdx.x];
}
// Ends only if something outside the kernel writes the flag.
extern "C" __global__ void never_ends(volatile int* flag) {
  __syncthreads();
  while (threadIdx.x < 40 && *flag == 0) {}  // on one line, because the time limit may stop the loop anywhere
}
