// Races of volatile accesses on the PTX engine: exchanged values are reported, flags and locks are not.
#include "driver.h"

int main() {
  const Kernels kernels("volatile_watched");
  const Buffer<int> out(64);
  CHECK_OK(kernels.run("volatile_with_barrier", {1}, {64}, 0, out.address()));
  CHECK_RESULT(kernels.run("volatile_exchange", {1}, {64}, 0, out.address()), CUDA_ERROR_LAUNCH_FAILED);
  expect_fault({"RACE", "static shared memory", "no __syncthreads() between them (volatile orders nothing)"});
  CHECK_RESULT(kernels.run("volatile_warp_sum", {1}, {64}, 0, out.address()), CUDA_ERROR_LAUNCH_FAILED);
  expect_fault({"RACE", "or __syncwarp() between them"});

  CHECK_OK(kernels.run("flag_with_fences", {1}, {64}, 0, out.address()));
  CHECK(out.read()[0] == 7);
  CHECK_RESULT(kernels.run("flag_without_fences", {1}, {64}, 0, out.address()), CUDA_ERROR_LAUNCH_FAILED);
  expect_fault({"RACE", "thread (32,0,0) reads", "which thread (0,0,0) wrote"});
  CHECK_OK(kernels.run("raised_by_many", {1}, {64}, 0));

  CHECK_OK(kernels.run("volatile_under_lock", {2}, {64}, 0, out.address()));
  const Buffer<int> all(std::vector<int>{64}), one(std::vector<int>{1});
  CHECK_OK(kernels.run("volatile_sum", {1}, {64}, 0, one.address()));
  CHECK_RESULT(kernels.run("volatile_sum", {1}, {64}, 0, all.address()), CUDA_ERROR_LAUNCH_FAILED);
  expect_fault({"RACE", "of the same block"});
  CHECK_RESULT(kernels.run("volatile_sum", {2}, {64}, 0, one.address()), CUDA_ERROR_LAUNCH_FAILED);
  expect_fault({"RACE", "of block (0,0,0)", "nothing that orders the blocks"});
}
