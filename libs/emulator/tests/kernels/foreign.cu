// Features of code that was not written for the emulator: structs by value, 128-bit integers, calls by address. Only for
// the PTX engine.

struct __align__(16) Four {
  float x, y, z, w;
};
struct Pairs {
  Four four;
  int2 pair;
  ulonglong2 wide;
  short2 halves;
};

// The fields are adjacent and aligned, so they are read as vectors.
extern "C" __global__ void by_value(const __grid_constant__ Pairs given, Pairs* out) {
  const volatile Four four = {given.four.x, given.four.y, given.four.z, given.four.w};
  *out = {{four.w, four.z, four.y, four.x},
          {given.pair.y, given.pair.x},
          {given.wide.y, given.wide.x},
          {given.halves.y, given.halves.x}};
}

using Unsigned = unsigned __int128;
using Signed = __int128;
struct Results {
  Unsigned sum, difference, product, quotient, remainder, left, right;
  Signed signed_quotient, signed_remainder, signed_right;
};
extern "C" __global__ void wide_integers(const Unsigned* a, const Unsigned* b, Results* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const Unsigned x = a[i], y = b[i];
  const Signed signed_x = static_cast<Signed>(x), signed_y = static_cast<Signed>(y);
  const unsigned by = static_cast<unsigned>(y) & 127;
  out[i] = {x + y,         x - y, x * y, x / y, x % y, x << by, x >> by, signed_x / signed_y, signed_x % signed_y,
            signed_x >> by};
}

using Operation = int (*)(int, int);
__device__ int sum_of(int a, int b) { return a + b; }
__device__ int product_of(int a, int b) { return a * b; }
__device__ int difference_of(int a, int b) { return a - b; }
__device__ Operation operations[3] = {sum_of, product_of, difference_of};
__device__ int seven = 7;
__device__ int* pointer_to_seven = &seven;

// The lanes of a warp call three different functions.
extern "C" __global__ void by_address(const int* in, int* out) {
  const int i = threadIdx.x;
  out[i] = operations[in[i] % 3](in[i], *pointer_to_seven);
}

struct Shape {
  __device__ virtual int area() const = 0;
};
struct Square : Shape {
  int side;
  __device__ explicit Square(int a) : side(a) {}
  __device__ int area() const override { return side * side; }
};
struct Strip : Shape {
  int length;
  __device__ explicit Strip(int a) : length(a) {}
  __device__ int area() const override { return 2 * length; }
};
extern "C" __global__ void by_table(const int* in, int* out) {
  const int i = threadIdx.x;
  const Square square(in[i]);
  const Strip strip(in[i]);
  const Shape* const shape = i % 3 ? static_cast<const Shape*>(&square) : &strip;
  out[i] = shape->area();
}

extern "C" __global__ void at_no_function(int* out, unsigned long long address) {
  *out = reinterpret_cast<Operation>(address)(1, 2);
}

// The kernel reads each of these variables before it writes it.
extern "C" __global__ void uninitialised_sum(const float* in, float* out, int count) {
  float sum;
  for (int i = 0; i < count; ++i) sum += in[i];
  *out = sum;
}
extern "C" __global__ void uninitialised_maximum(const float* in, float* out, int count) {
  float most;
  for (int i = 0; i < count; ++i) most = fmaxf(most, in[i]);
  *out = most;
}
extern "C" __global__ void uninitialised_rescaled(const float* in, float* out, int count) {
  float sum;
  for (int i = 0; i < count; ++i) sum = sum * (i ? 0.5f : 0.0f) + in[i];
  *out = sum;
}
extern "C" __global__ void uninitialised_index(const float* in, float* out, int count) {
  int last;
  for (int i = 0; i < count; ++i)
    if (in[i] > 1e9f) last = i;
  *out = count ? in[last] : 0;
}
extern "C" __global__ void first_iteration_sets(const float* in, float* out, int count) {
  float most;
  for (int i = 0; i < count; ++i) most = i == 0 ? in[i] : fmaxf(most, in[i]);
  *out = count ? most : 0;
}

// Only the lower half of the warp takes part. Lane 8 reads lane 16, which does not, and its result is unused.
extern "C" __global__ void sum_of_half(const float* in, float* out) {
  if (threadIdx.x >= 16) return;
  float sum = in[threadIdx.x];
  for (int by = 8; by > 0; by /= 2) sum += __shfl_down_sync(0xffff, sum, by);
  if (threadIdx.x == 0) *out = sum;
}
extern "C" __global__ void from_outside_the_mask(const float* in, float* out) {
  if (threadIdx.x < 16) {
    const float value = __shfl_sync(0xffff, in[threadIdx.x], 16 + threadIdx.x);
    if (threadIdx.x == 0) *out = value;
  }
}

// Each round reverses 128 elements and waits for a barrier of libcu++.
#include <cuda/barrier>
extern "C" __global__ void copies_with_barrier(const float* in, float* out) {
  __shared__ cuda::barrier<cuda::thread_scope_block> arrived;
  __shared__ float tile[128];
  if (threadIdx.x == 0) init(&arrived, blockDim.x);
  __syncthreads();
  for (int turn = 0; turn < 2; ++turn) {
    cuda::memcpy_async(&tile[4 * threadIdx.x], &in[128 * turn + 4 * threadIdx.x], cuda::aligned_size_t<16>(16),
                       arrived);
    arrived.arrive_and_wait();
    for (int i = threadIdx.x; i < 128; i += blockDim.x) out[128 * turn + i] = tile[127 - i];
    __syncthreads();
  }
}

// Some front ends include headers with host functions. The host functions below compile but never run.
#include <sys/time.h>

#include <cassert>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>
#include <stubs/cublas.h>
#include <stubs/pytorch.h>

// One instance for each of PyTorch's types and each of CUDA's own.
template <class T>
struct Width;
template <>
struct Width<half> {
  static constexpr uint value = 2;
};
template <>
struct Width<c10::Half> : Width<half> {};
__device__ float widened(c10::Half value) { return __half2float(static_cast<half>(value)) * Width<c10::Half>::value; }

__global__ void of_host_function(int* out) { out[threadIdx.x] = threadIdx.x; }
void host_function(torch::Tensor out, int blocks) {
  TORCH_CHECK(out.size(0) == 32, "must be a warp");
  assert(blocks > 0);
  std::vector<int> sizes{1, 2};
  timeval begin;
  gettimeofday(&begin, nullptr);
  srand(time(nullptr));
  float* values = static_cast<float*>(malloc(sizes.size() * sizeof(float)));
  if (values == nullptr) exit(EXIT_FAILURE);
  values[0] = max(fabs(expf(rand() / float(RAND_MAX))), 0.5);
  fprintf(stderr, "%f\n", values[0]);
  free(values);
  torch::fill(out, 0);
  cublasHandle_t blas;
  const float one = 1;
  if (cublasCreate(&blas) == CUBLAS_STATUS_SUCCESS)
    cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, 1, 1, 1, &one, values, 1, values, 1, &one, values, 1);
  if (sizes.size() > 2) throw std::runtime_error("got " + std::to_string(blocks));
  cudaFuncSetAttribute(of_host_function, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024);
  of_host_function<<<dim3(blocks), 32, 0, at::cuda::getCurrentCUDAStream()>>>(out.data_ptr<int>());
  if (cudaGetLastError() != cudaSuccess) std::cerr << "failed: " << blocks << std::endl;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("host_function", &host_function, "what it does", py::arg("out")); }
