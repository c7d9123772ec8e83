// Every fault gives the CUDA error that a GPU gives, with details that a GPU does not report. The next launch works.
#include "driver.h"

namespace {
void test_global_memory(const Kernels& kernels) {
  const Buffer<int> out(100);
  CHECK_RESULT(kernels.run("write_past", {{4}, {32}}, out.address(), 7), CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_RESULT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);  // sticky
  CUdeviceptr more;
  CHECK_RESULT(cuMemAlloc_v2(&more, 16), CUDA_ERROR_ILLEGAL_ADDRESS);
  expect_fault({"OUT_OF_BOUNDS", "thread (4,0,0) of block (3,0,0) wrote 0 bytes past the end of device allocation",
                "of 400 bytes", "faults.cu:6", "\"access\":\"write\""});

  const Buffer<char> odd(100);
  CHECK_RESULT(kernels.run("write_slack", {{1}, {1}}, odd.address(), 100), CUDA_ERROR_ILLEGAL_ADDRESS);
  expect_fault({"OUT_OF_BOUNDS", "wrote 1 bytes past the end of device allocation", "of 100 bytes"});
}

void test_freed_and_null(const Kernels& kernels) {
  const Buffer<int> out(4);
  CUdeviceptr freed;
  CHECK_OK(cuMemAlloc_v2(&freed, 64));
  CHECK_OK(cuMemFree_v2(freed));
  CHECK_RESULT(kernels.run("read_freed", {{1}, {1}}, freed, out.address()), CUDA_ERROR_ILLEGAL_ADDRESS);
  expect_fault({"OUT_OF_BOUNDS", "read byte 0 of freed device allocation", "of 64 bytes"});
  CHECK_RESULT(kernels.run("through_null", {{1}, {1}}, out.address(), CUdeviceptr(0)), CUDA_ERROR_ILLEGAL_ADDRESS);
  expect_fault({"OUT_OF_BOUNDS", "through a null pointer"});
}

// For an address beyond the 47 bits of user space, the processor raises a fault that has no address.
void test_beyond_the_address_space(const Kernels& kernels) {
  const Buffer<float> buffer(64);
  CHECK_RESULT(kernels.run("write_far", {{1}, {32}}, buffer.address(), 1ll << 40), CUDA_ERROR_ILLEGAL_ADDRESS);
    // For a non-canonical address, x86-64 reports neither the address nor the kind of access.
#if defined(__x86_64__)
  expect_fault({"OUT_OF_BOUNDS", "accessed an address that belongs to no allocation", "faults.cu:62"});
#else
  expect_fault({"OUT_OF_BOUNDS", "wrote an address that belongs to no allocation", "faults.cu:62"});
#endif
  CHECK_RESULT(kernels.run("read_far", {{1}, {2}}, buffer.address(), buffer.address(), -(1ll << 58)),
               CUDA_ERROR_ILLEGAL_ADDRESS);
  expect_fault({"OUT_OF_BOUNDS", "an address that belongs to no allocation"});
}

void test_alignment(const Kernels& kernels) {
  const Buffer<float> in(64), out(64);
  CHECK_RESULT(kernels.run("misaligned_vector", {{1}, {2}}, in.address(), out.address()),
               CUDA_ERROR_MISALIGNED_ADDRESS);
  expect_fault({"MISALIGNED_ADDRESS", "thread (1,0,0) of block (0,0,0) read 16 bytes", "4 past a multiple of 16",
                "faults.cu:12"});
  CHECK_RESULT(kernels.run("misaligned_half2", {{1}, {2}}, out.address()), CUDA_ERROR_MISALIGNED_ADDRESS);
  expect_fault({"MISALIGNED_ADDRESS", "wrote 4 bytes", "2 past a multiple of 4", "faults.cu:16"});
}

void test_shared_memory(const Kernels& kernels) {
  const Buffer<int> out(64);
  CHECK_OK(kernels.run("shared_past", {{1}, {32}, 128}, out.address()));
  CHECK_RESULT(kernels.run("shared_past", {{1}, {33}, 128}, out.address()), CUDA_ERROR_ILLEGAL_ADDRESS);
  expect_fault({"OUT_OF_BOUNDS", "thread (32,0,0)",
                "wrote 0 bytes past the end of the block's 128 bytes of dynamic shared memory", "faults.cu:20"});
  CHECK_RESULT(kernels.run("shared_slack", {{1}, {1}, 100}, out.address()), CUDA_ERROR_ILLEGAL_ADDRESS);
  expect_fault({"OUT_OF_BOUNDS", "wrote 1 bytes past the end of the 100 bytes of dynamic shared memory"});
}

void test_waiting(const Kernels& kernels) {
  const Buffer<int> out(64);
  CHECK_RESULT(kernels.run("waits_for_nobody", {{1}, {64}}, out.address()), CUDA_ERROR_LAUNCH_TIMEOUT);
  expect_fault({"DEADLOCK", "8 threads in __shfl_xor_sync() at faults.cu:29",
                "24 threads in __syncthreads() at faults.cu:31",
                "\"thread\":[63,0,0],\"waits_at\":\"__syncthreads() at faults.cu:31\""});
  CHECK_RESULT(kernels.run("different_barriers", {{1}, {64}}, out.address()), CUDA_ERROR_LAUNCH_TIMEOUT);
  expect_fault({"DEADLOCK", "divergent barrier", "32 threads in __syncthreads() at faults.cu:36",
                "32 threads in __syncthreads() at faults.cu:38"});
  CHECK_RESULT(kernels.run("wrong_mask", {{1}, {32}}, out.address()), CUDA_ERROR_LAUNCH_FAILED);
  expect_fault({"INVALID_WARP_MASK", "lane 8"});
}

void test_time_limit(const Kernels& kernels) {
  const Buffer<int> out(std::vector<int>(64, 0));
  flashcore_emulator_time_limit(200);
  // Blocks run on all threads of the host, and all of these threads must stop.
  CHECK_RESULT(kernels.run("never_ends", {{64}, {64}}, out.address()), CUDA_ERROR_LAUNCH_TIMEOUT);
  // The time limit may stop the thread anywhere in its loop: at line 69, or at line 70, where the loop ends.
  expect_fault({"TIMED_OUT", "the launch did not end within 0.2 s", "1 thread runs at ",
                "faults.cu:", "63 threads past __syncthreads() at faults.cu:68"});
  // The time limit also applies to the next launch.
  CHECK_RESULT(kernels.run("never_ends", {{1}, {64}}, out.address()), CUDA_ERROR_LAUNCH_TIMEOUT);
  expect_fault({"TIMED_OUT", "the launch did not end within 0.2 s"});
  flashcore_emulator_time_limit(0);
}

void test_traps(const Kernels& kernels) {
  const Buffer<int> out(64);
  CHECK_RESULT(kernels.run("traps", {{1}, {8}}, out.address()), CUDA_ERROR_LAUNCH_FAILED);
  expect_fault({"TRAP", "thread (3,0,0)", "faults.cu:43"});
  CHECK_RESULT(kernels.run("asserts", {{1}, {8}}, out.address()), CUDA_ERROR_ASSERT);
  expect_fault({"ASSERT", "thread (7,0,0)", "threadIdx.x < 7", "faults.cu:47"});
  CHECK_RESULT(kernels.run("overflows_stack", {{1}, {2}}, out.address()), CUDA_ERROR_LAUNCH_FAILED);
  expect_fault({"STACK_OVERFLOW"});
#if defined(__x86_64__)
  CHECK_RESULT(kernels.run("divides", {{1}, {1}}, out.address(), 0), CUDA_ERROR_LAUNCH_FAILED);
  expect_fault({"INTEGER_DIVISION_BY_ZERO"});
#endif
}

void test_a_good_launch_after_all_that(const Kernels& kernels) {
  const Buffer<int> out(std::vector<int>(32, 0));
  CHECK_OK(kernels.run("last_lane_leaves", {{1}, {32}}, out.address()));
  std::vector<int> want(32, 4);
  want[31] = 0;
  CHECK(out.read() == want);
}
}  // namespace

int main() {
  const Kernels kernels("faults");
  test_global_memory(kernels);
  test_freed_and_null(kernels);
  test_beyond_the_address_space(kernels);
  test_alignment(kernels);
  test_shared_memory(kernels);
  test_waiting(kernels);
  test_time_limit(kernels);
  test_traps(kernels);
  test_a_good_launch_after_all_that(kernels);
}
