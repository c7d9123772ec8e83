// In modules compiled with access hooks, races in shared memory and misaligned scalars are reported, and ordered
// accesses are not.
#include "driver.h"

int main() {
  const Kernels kernels("races_instrumented");
  const Buffer<int> in(std::vector<int>(256, 3)), out(256);
  CHECK_OK(kernels.run("with_barrier", {{2}, {128}}, in.address(), out.address()));
  CHECK_OK(kernels.run("with_syncwarp", {{1}, {64}, 128}, out.address()));
  CHECK_RESULT(kernels.run("missing_barrier", {{1}, {128}}, in.address(), out.address()), CUDA_ERROR_LAUNCH_FAILED);
  expect_fault({"RACE", "static shared memory", "races.cu:7", "races.cu:9", "no __syncthreads()"});
  CHECK_RESULT(kernels.run("missing_syncwarp", {{1}, {64}, 128}, out.address()), CUDA_ERROR_LAUNCH_FAILED);
  expect_fault({"RACE", "dynamic shared memory", "races.cu:17", "races.cu:19", "or __syncwarp()"});
  CHECK_RESULT(kernels.run("wide_copy", {{1}, {64}}, in.address(), out.address()), CUDA_ERROR_LAUNCH_FAILED);
  expect_fault({"RACE", "races.cu:30", "races.cu:31"});
  CHECK_RESULT(kernels.run("misaligned_float", {{1}, {1}}, in.address(), out.address()), CUDA_ERROR_MISALIGNED_ADDRESS);
  expect_fault({"MISALIGNED_ADDRESS", "read 4 bytes", "2 past a multiple of 4"});
}
