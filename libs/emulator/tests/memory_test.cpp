// Tests shared memory and its poison, asynchronous copies, atomics, and global variables of modules.
#include "../include/flashcore_emulator/half_bits.h"
#include "driver.h"

namespace {
void test_shared_memory_is_poisoned_for_every_block(const Kernels& kernels) {
  const Buffer<unsigned> out(64 * 6);
  CHECK_OK(kernels.run("poisoned", {{6}, {32}, 128}, out.address()));
  CHECK(out.read() == std::vector<unsigned>(64 * 6, 0xffffffffu));
}

void test_cp_async(const Kernels& kernels) {
  std::vector<int> in, want(128, 0);
  for (int i = 0; i < 128; ++i) in.push_back(i);
  std::copy(in.begin(), in.begin() + 64, want.begin());  // the other half was out of bounds and reads as zeros
  const Buffer<int> from(in), to(128);
  CHECK_OK(kernels.run("copies", {{1}, {32}}, from.address(), to.address()));
  CHECK(to.read() == want);
  CHECK_OK(kernels.run("copies_without_wait", {{1}, {32}}, from.address(), to.address()));
  CHECK(to.read() == std::vector<int>(128, -1));  // the poison
  CHECK_OK(kernels.run("two_stages", {{1}, {1}}, from.address(), to.address()));
  const auto stages = to.read();
  CHECK(stages[0] == 0 && stages[1] == -1 && stages[2] == 4);
}

void test_atomics(const Kernels& kernels) {
  const Buffer<int> sum(std::vector<int>{0});
  const Buffer<float> float_sum(std::vector<float>{0});
  const Buffer<unsigned> highest(std::vector<unsigned>{0});
  const Buffer<uint16_t> half_sum(std::vector<uint16_t>{0});
  CHECK_OK(
      kernels.run("atomics", {{16}, {64}}, sum.address(), float_sum.address(), highest.address(), half_sum.address()));
  CHECK(sum.read()[0] == 1024 && float_sum.read()[0] == 512.0f && highest.read()[0] == 1023);
  CHECK(flashcore::emu::half_to_float(half_sum.read()[0]) == 256.0f);
  const Buffer<int> lock(std::vector<int>{0}), counter(std::vector<int>{0});
  CHECK_OK(kernels.run("block_lock", {{2}, {64}}, lock.address(), counter.address()));
  CHECK(counter.read()[0] == 128);
}

void test_globals(const Kernels& kernels) {
  CUdeviceptr table, factor;
  size_t bytes;
  CHECK_OK(cuModuleGetGlobal_v2(&table, &bytes, kernels.module(), "table"));
  CHECK(bytes == 16);
  CHECK_OK(cuModuleGetGlobal_v2(&factor, &bytes, kernels.module(), "scale_factor"));
  CHECK(bytes == 4);
  CHECK_RESULT(cuModuleGetGlobal_v2(&factor, &bytes, kernels.module(), "nothing"), CUDA_ERROR_NOT_FOUND);
  const float values[4] = {1, 2, 3, 4};
  memcpy(reinterpret_cast<void*>(table), values, sizeof values);
  const Buffer<float> out(4);
  CHECK_OK(kernels.run("globals", {{1}, {4}}, out.address()));
  CHECK(out.read() == (std::vector<float>{3, 6, 9, 12}));
}

void test_vectors_of_bytes(const Kernels& kernels) {
  std::vector<uint8_t> bytes, want;
  std::vector<int8_t> pairs;
  std::vector<int16_t> sums;
  for (int i = 0; i < 128; ++i) bytes.push_back(static_cast<uint8_t>(200 + i));
  for (int lane = 31; lane >= 0; --lane)
    for (const int from : {3, 2, -1, 0}) want.push_back(from < 0 ? 0 : bytes[static_cast<size_t>(4 * lane + from)]);
  for (int lane = 0; lane < 32; ++lane) {
    const int x = -3 * lane, y = 100 - lane;
    pairs.insert(pairs.end(), {static_cast<int8_t>(x), static_cast<int8_t>(y)});
    sums.insert(sums.end(), {static_cast<int16_t>(x + y), static_cast<int16_t>(x - y)});
  }
  const Buffer<uint8_t> from(bytes), to(128);
  const Buffer<int8_t> two(pairs);
  const Buffer<int16_t> added(64);
  CHECK_OK(kernels.run("byte_vectors", {{1}, {32}}, from.address(), two.address(), to.address(), added.address()));
  CHECK(to.read() == want);
  CHECK(added.read() == sums);
}
}  // namespace

int main() {
  const Kernels kernels("memory");
  test_shared_memory_is_poisoned_for_every_block(kernels);
  test_cp_async(kernels);
  test_atomics(kernels);
  test_globals(kernels);
  test_vectors_of_bytes(kernels);
}
