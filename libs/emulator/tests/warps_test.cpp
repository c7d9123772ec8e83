// Compares the operations of whole warps and blocks with their definitions.
#include "driver.h"

namespace {
void test_shuffles(const Kernels& kernels) {
  const Buffer<int> out(32 * 6);
  CHECK_OK(kernels.run("shuffles", {{1}, {32}}, out.address()));
  std::vector<int> want;
  for (int lane = 0; lane < 32; ++lane)
    for (const int value : {50, (lane < 3 ? lane : lane - 3) * 10, (lane > 28 ? lane : lane + 3) * 10, (lane ^ 17) * 10,
                            (lane / 8 * 8 + 3) * 10, lane ^ 1})
      want.push_back(value);
  CHECK(out.read() == want);
}

void test_votes(const Kernels& kernels) {
  const Buffer<unsigned> out(32 * 5);
  CHECK_OK(kernels.run("votes", {{1}, {32}}, out.address()));
  std::vector<unsigned> want;
  for (unsigned lane = 0; lane < 32; ++lane)
    for (const unsigned value : {0x49249249u, 1u, 0u, 0xffu << (lane / 8 * 8), 1u}) want.push_back(value);
  CHECK(out.read() == want);
}

void test_reductions(const Kernels& kernels) {
  const Buffer<int> out(32 * 3);
  CHECK_OK(kernels.run("reductions", {{1}, {32}}, out.address()));
  std::vector<int> want;
  for (int lane = 0; lane < 32; ++lane)
    for (const int value : {496, 69, -1}) want.push_back(value);
  CHECK(out.read() == want);
}

void test_sub_warps(const Kernels& kernels) {
  const Buffer<int> out(32);
  CHECK_OK(kernels.run("sub_warps", {{1}, {32}}, out.address()));
  std::vector<int> want;
  for (int lane = 0; lane < 32; ++lane) {
    int sum = 0;
    if (lane < 16)
      for (int i = 0; i < 16; ++i) sum += i;
    else
      for (int i = 0; i < 8; ++i) sum += lane / 8 * 8 + i;
    want.push_back(sum);
  }
  CHECK(out.read() == want);
}

void test_exited_lanes_count_as_arrived(const Kernels& kernels) {
  const Buffer<int> out(std::vector<int>(64, 0));
  CHECK_OK(kernels.run("exited_lanes", {{1}, {64}}, out.address()));
  std::vector<int> want;
  for (int thread = 0; thread < 64; ++thread) want.push_back(thread % 32 < 20 ? 0xfffff : 0);
  CHECK(out.read() == want);
}

void test_block_reductions(const Kernels& kernels) {
  const Buffer<int> out(200);
  CHECK_OK(kernels.run("block_reductions", {{1}, {200}}, out.address()));
  CHECK(out.read() == std::vector<int>(200, 67 * 100 + 10));
}

void test_named_barriers(const Kernels& kernels) {
  const Buffer<int> out(64);
  CHECK_OK(kernels.run("named_barriers", {{1}, {128}}, out.address()));
  std::vector<int> want;
  for (int i = 0; i < 64; ++i) want.push_back(3 * i);
  CHECK(out.read() == want);
}

void test_three_dimensions(const Kernels& kernels) {
  const Buffer<int> out(24 * 60);
  CHECK_OK(kernels.run("three_dimensions", {{2, 3, 4}, {3, 4, 5}}, out.address()));
  std::vector<int> want;
  for (int block = 0; block < 24; ++block)
    for (int thread = 0; thread < 60; ++thread) want.push_back(block * 1000 + thread);
  CHECK(out.read() == want);
}
}  // namespace

int main() {
  const Kernels kernels("warps");
  test_shuffles(kernels);
  test_votes(kernels);
  test_reductions(kernels);
  test_sub_warps(kernels);
  test_exited_lanes_count_as_arrived(kernels);
  test_block_reductions(kernels);
  test_named_barriers(kernels);
  test_three_dimensions(kernels);
}
