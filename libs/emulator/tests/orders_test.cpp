// Accesses that fences, atomics or locks order are not races. Unordered accesses are races, unless they store the same
// value.
#include <numeric>

#include "driver.h"

namespace {

void expect_race(const Kernels& kernels, CUresult result, std::initializer_list<const char*> texts) {
  CHECK_RESULT(result, CUDA_ERROR_LAUNCH_FAILED);
  expect_fault(texts);
  // Restores the variables' values as they were after loading.
  for (const char* name : {"arrived", "lock"}) {
    CUdeviceptr variable;
    size_t bytes;
    CHECK_OK(cuModuleGetGlobal_v2(&variable, &bytes, kernels.module(), name));
    CHECK_OK(cuMemsetD8_v2(variable, 0, bytes));
  }
}

void test_last_block(const Kernels& kernels) {
  std::vector<int> values(64), sums(64);
  std::iota(values.begin(), values.end(), 0);
  for (int i = 0; i < 64; ++i) sums[static_cast<size_t>(i)] = 8 * (i + 1);
  const Buffer<int> in(values), parts(8 * 64), out(64);
  const auto run = [&](const char* name) {
    return kernels.run(name, {{8}, {64}}, in.address(), parts.address(), out.address());
  };
  for (const char* name : {"last_fenced", "last_by_one"}) {
    CHECK_OK(run(name));
    CHECK(out.read() == sums);
  }
  for (const char* name :
       {"last_unfenced", "last_fenced_too_early", "last_by_one_without_barrier", "last_fenced_for_block"})
    expect_race(kernels, run(name), {"RACE", "orders.cu:16", "orders.cu:27", "nothing that orders the blocks"});
}

void test_unrelated_atomic(const Kernels& kernels) {
  const Buffer<int> counter(std::vector<int>{0}), out(64);
  expect_race(kernels, kernels.run("unrelated_atomic", {{2}, {64}}, counter.address(), out.address()),
              {"RACE", "orders.cu:43", "nothing that orders the blocks"});
}

void test_locks(const Kernels& kernels) {
  const Buffer<int> sum(std::vector<int>{0});
  CHECK_OK(kernels.run("locked", {{16}, {32}}, sum.address()));
  CHECK(sum.read()[0] == 16);
  CHECK_OK(kernels.run("locked_by_lanes", {{4}, {96}}, sum.address()));
  CHECK(sum.read()[0] == 16 + 4 * 96);
  expect_race(kernels, kernels.run("locked_without_fences", {{16}, {32}}, sum.address()), {"RACE", "orders.cu:52"});
}

void test_flags(const Kernels& kernels) {
  const Buffer<int> out(64);
  CHECK_OK(kernels.run("handed_over", {{1}, {64}}, out.address()));
  const std::vector<int> got = out.read();
  for (int i = 0; i < 32; ++i) CHECK(got[static_cast<size_t>(i)] == 3 * i);
  expect_race(kernels, kernels.run("handed_over_without_fence", {{1}, {64}}, out.address()),
              {"RACE", " of payload (static shared memory) at orders.cu:"});
  const Buffer<int> flags(std::vector<int>(8, 0)), values(8 * 64);
  CHECK_OK(kernels.run("chained", {{8}, {64}}, flags.address(), values.address()));
  CHECK(values.read()[7 * 64 + 63] == 8);
}

void test_same_values(const Kernels& kernels) {
  const Buffer<int> out(128), found(std::vector<int>{0});
  const Buffer<float> rows(16);
  CHECK_OK(kernels.run("equal_in_shared", {{2}, {128}}, out.address() + 0));
  CHECK(out.read() == std::vector<int>(128, 12));
  CHECK_OK(kernels.run("equal_in_global", {{4}, {64}}, found.address(), rows.address()));
  CHECK(found.read()[0] == 1 && rows.read()[15] == 3.0f);
  expect_race(kernels, kernels.run("different_in_shared", {{1}, {128}}, out.address()), {"RACE", "orders.cu:118"});
  expect_race(kernels, kernels.run("equal_but_read", {{1}, {128}}, out.address()), {"RACE", "orders.cu:117"});
  expect_race(kernels, kernels.run("different_in_global", {{4}, {64}}, found.address()), {"RACE", "orders.cu:131"});
}

void test_read_only(const Kernels& kernels) {
  const Buffer<int> out(128);
  expect_race(kernels, kernels.run("read_only_of_written", {{1}, {64}}, out.address(), out.address()),
              {"RACE", "ld.global.nc", "orders.cu:135", "orders.cu:137"});
}

void test_arrays_next_to_each_other(const Kernels& kernels) {
  const Buffer<int> out(64);
  CHECK_OK(kernels.run("next_array", {{1}, {64}}, out.address(), 0));
  CHECK_RESULT(kernels.run("next_array", {{1}, {64}}, out.address(), 1), CUDA_ERROR_ILLEGAL_ADDRESS);
  expect_fault({"OUT_OF_BOUNDS", "read 4 bytes at byte 256 of the shared array first, which has 256", "orders.cu:"});
  CHECK_OK(kernels.run("beyond_dynamic", {{1}, {64}, 256}, out.address(), 0));
  CHECK_RESULT(kernels.run("beyond_dynamic", {{1}, {64}, 256}, out.address(), 4), CUDA_ERROR_ILLEGAL_ADDRESS);
  expect_fault({"OUT_OF_BOUNDS", "of the shared array fixed, which has 256", "orders.cu:"});
}

constexpr int COOPERATIVE = 2, PROGRAMMATIC_STREAM_SERIALIZATION = 6;

/** A launch attribute whose value is 1. */
CUlaunchAttribute flag(int id) {
  CUlaunchAttribute attribute{};
  attribute.id = id;
  attribute.value.cooperative = 1;
  return attribute;
}

void test_grid_barriers(const Kernels& kernels) {
  constexpr unsigned BLOCKS = 100, THREADS = 64;
  std::vector<int> sums(BLOCKS * THREADS);
  for (unsigned i = 0; i < sums.size(); ++i)
    sums[i] = static_cast<int>(THREADS * BLOCKS * (BLOCKS - 1) / 2 + BLOCKS * (i % THREADS));
  const Buffer<int> parts(sums.size()), out(sums.size()), meeting(std::vector<int>{0});
  CUlaunchAttribute cooperative = flag(COOPERATIVE);
  const auto run_cooperative = [&](const char* name, unsigned blocks, unsigned threads) {
    return kernels.run(name, {{blocks}, {threads}, 0, &cooperative}, parts.address(), out.address(), meeting.address());
  };
  CHECK_OK(run_cooperative("grid_sync", BLOCKS, THREADS));
  CHECK(out.read() == sums);
  // Blocks of a plain launch may wait for one another if the device has room for all of them at the same time.
  CHECK_OK(kernels.run("barrier_by_hand", {{BLOCKS}, {THREADS}}, parts.address(), out.address(), meeting.address()));
  CHECK(out.read() == sums);
  expect_race(kernels, run_cooperative("exchange_without_grid_sync", 8, THREADS), {"RACE"});
  // 58 SMs of 1,536 threads each.
  CHECK_RESULT(run_cooperative("grid_sync", 59, 1024), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

// A programmatic launch may run at the same time as the previous launch until it waits for that launch.
void test_programmatic_launches(const Kernels& kernels) {
  const Buffer<int> in(std::vector<int>(64, 3)), out(64), other(64);
  const auto run_second = [&](int attribute, const char* name, const Buffer<int>& from, const Buffer<int>& to) {
    CHECK_OK(kernels.run("first_of_two", {{1}, {64}}, in.address(), out.address()));
    CUlaunchAttribute set = flag(attribute);
    return kernels.run(name, {{1}, {64}, 0, &set}, from.address(), to.address());
  };
  const auto expect_early = [&](CUresult result, const char* text) {
    CHECK_RESULT(result, CUDA_ERROR_LAUNCH_FAILED);
    expect_fault({"RACE", text, "griddepcontrol.wait", " at orders.cu:"});
  };
  CHECK_OK(run_second(PROGRAMMATIC_STREAM_SERIALIZATION, "second_that_waits", out, other));
  CHECK(other.read() == std::vector<int>(64, 5));
  CHECK_OK(run_second(PROGRAMMATIC_STREAM_SERIALIZATION, "second_that_does_not_wait", in, other));
  expect_early(run_second(PROGRAMMATIC_STREAM_SERIALIZATION, "second_that_does_not_wait", out, other),
               "which the launch before wrote");
  expect_early(run_second(PROGRAMMATIC_STREAM_SERIALIZATION, "second_that_does_not_wait", other, out),
               "which the launch before wrote");
  CHECK_OK(run_second(COOPERATIVE, "second_that_does_not_wait", out, other));
}

// Threads that exchange volatile values have a race. Flags and locks have none.
void test_volatile() {
  const Kernels kernels("volatile_watched");
  const Buffer<int> out(64);
  CHECK_OK(kernels.run("volatile_with_barrier", {{1}, {64}}, out.address()));
  CHECK_RESULT(kernels.run("volatile_exchange", {{1}, {64}}, out.address()), CUDA_ERROR_LAUNCH_FAILED);
  expect_fault({"RACE", "static shared memory", "no __syncthreads() between them (volatile orders nothing)"});
  CHECK_RESULT(kernels.run("volatile_warp_sum", {{1}, {64}}, out.address()), CUDA_ERROR_LAUNCH_FAILED);
  expect_fault({"RACE", "or __syncwarp() between them"});

  CHECK_OK(kernels.run("flag_with_fences", {{1}, {64}}, out.address()));
  CHECK(out.read()[0] == 7);
  CHECK_RESULT(kernels.run("flag_without_fences", {{1}, {64}}, out.address()), CUDA_ERROR_LAUNCH_FAILED);
  expect_fault({"RACE", "thread (32,0,0) reads", "which thread (0,0,0) wrote"});
  CHECK_OK(kernels.run("raised_by_many", {{1}, {64}}));

  CHECK_OK(kernels.run("volatile_under_lock", {{2}, {64}}, out.address()));
  const Buffer<int> all(std::vector<int>{64}), one(std::vector<int>{1});
  CHECK_OK(kernels.run("volatile_sum", {{1}, {64}}, one.address()));
  CHECK_RESULT(kernels.run("volatile_sum", {{1}, {64}}, all.address()), CUDA_ERROR_LAUNCH_FAILED);
  expect_fault({"RACE", "of the same block"});
  CHECK_RESULT(kernels.run("volatile_sum", {{2}, {64}}, one.address()), CUDA_ERROR_LAUNCH_FAILED);
  expect_fault({"RACE", "of block (0,0,0)", "nothing that orders the blocks"});
}

}  // namespace

int main() {
  const Kernels kernels("orders_watched");
  test_last_block(kernels);
  test_unrelated_atomic(kernels);
  test_locks(kernels);
  test_flags(kernels);
  test_same_values(kernels);
  test_read_only(kernels);
  test_arrays_next_to_each_other(kernels);
  test_grid_barriers(kernels);
  test_programmatic_launches(kernels);
  test_volatile();
}
