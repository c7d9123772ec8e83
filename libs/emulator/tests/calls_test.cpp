// Calls of functions that are not inlined, and cooperative groups compiled from CUDA's own headers. Results are
// compared with the same computation on the host. Recursion must give a finding.
#include <algorithm>

#include "driver.h"

namespace {

int twice(int x) { return 2 * x; }
int picked(int x, const std::vector<int>& from, int count) {
  if (x < 0) return -100;
  return (x & 7) < count ? twice(from[x & 7]) : -1;
}

std::vector<int> inputs(int count) {
  std::vector<int> all;
  for (int i = 0; i < count; ++i) all.push_back((i * 37 + 11) % 101);
  return all;
}

void test_calls(const Kernels& kernels) {
  const std::vector<int> values = inputs(32);
  const Buffer<int> in(values), out(32);
  CHECK_OK(kernels.run("calls", {{1}, {32}}, in.address(), out.address()));
  const std::vector<int> got = out.read();
  for (int i = 0; i < 32; ++i) {
    const int sum = picked(i - 4, values, 8) + (i % 3 == 0 ? picked(i, values, 4) : 0);
    CHECK(got[i] == (sum - twice(i)) * 1000 + i + twice(i));
  }
}

void test_shared_in_a_call(const Kernels& kernels) {
  std::vector<float> values;
  for (int i = 0; i < 32; ++i) values.push_back(static_cast<float>(i));
  const Buffer<float> buffer(values);
  CHECK_OK(kernels.run("shared_in_a_call", {{1}, {32}}, buffer.address()));
  CHECK(buffer.read() == std::vector<float>(32, 31.0f));
}

void test_groups(const Kernels& kernels) {
  const std::vector<int> values = inputs(64);
  const Buffer<int> in(values), out(64);
  CHECK_OK(kernels.run("groups", {{1}, {64}}, in.address(), out.address()));
  std::vector<int> sums(8);
  for (int i = 0; i < 64; ++i) sums[i / 8] += values[i];
  const std::vector<int> got = out.read();
  for (int i = 0; i < 64; ++i) {
    const int most = *std::max_element(sums.begin() + i / 32 * 4, sums.begin() + i / 32 * 4 + 4);
    CHECK(got[i] == sums[i / 8] * 10000 + most * 10 + (i & 1) + 2 * (i / 8));
  }
  for (const int size : {4, 16, 32}) {
    CHECK_OK(kernels.run("runtime_sized_groups", {{1}, {64}}, in.address(), out.address(), size));
    const std::vector<int> of_groups = out.read();
    for (int i = 0; i < 64; ++i) {
      int sum = 0;
      for (int n = i / size * size; n < i / size * size + size; ++n) sum += values[n];
      CHECK(of_groups[i] == sum);
    }
  }
}

void test_recursion(const Kernels& kernels) {
  const Buffer<int> out(1);
  CHECK_OK(kernels.run("recursion", {{1}, {1}}, 1, out.address()));
  CHECK(out.read()[0] == 1);
  CHECK_RESULT(kernels.run("recursion", {{1}, {1}}, 5, out.address()), CUDA_ERROR_ILLEGAL_INSTRUCTION);
  expect_fault({"UNSUPPORTED_INSTRUCTION", "reached call.uni of _Z9fibonaccii", "call themselves", "calls.cu:"});
}

}  // namespace

int main() {
  const Kernels kernels("calls");
  test_calls(kernels);
  test_shared_in_a_call(kernels);
  test_groups(kernels);
  test_recursion(kernels);
}
