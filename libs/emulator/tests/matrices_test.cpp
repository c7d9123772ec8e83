// Compares tensor-core operations with triple loops in double. Values are small multiples of 1/8, so every sum is
// exact.
#include "../include/flashcore_emulator/half_bits.h"
#include "driver.h"

namespace {
using flashcore::emu::bfloat16_to_float;
using flashcore::emu::float_to_bfloat16;
using flashcore::emu::float_to_half;
using flashcore::emu::half_to_float;

std::vector<float> random_values(int count, uint32_t seed) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i) values.push_back((static_cast<int>(next_random(seed) >> 24) % 17 - 8) / 8.0f);
  return values;
}

struct Shape {
  int M, N, K;
};

/** The factors of a product and what is added: A is [M][K], B [K][N] and C [M][N]. */
struct Operands {
  const std::vector<float>&A, &B, &C;
};

/** factor A B + C */
std::vector<float> product(Shape s, float factor, const Operands& operands) {
  const auto& [A, B, C] = operands;
  std::vector<float> D;
  for (int m = 0; m < s.M; ++m)
    for (int n = 0; n < s.N; ++n) {
      double sum = C[m * s.N + n];
      for (int k = 0; k < s.K; ++k) sum += double(factor) * A[m * s.K + k] * B[k * s.N + n];
      D.push_back(static_cast<float>(sum));
    }
  return D;
}

std::vector<float> transposed(const std::vector<float>& matrix, int rows, int cols) {
  std::vector<float> result;
  for (int col = 0; col < cols; ++col)
    for (int row = 0; row < rows; ++row) result.push_back(matrix[row * cols + col]);
  return result;
}

std::vector<uint16_t> narrowed(const std::vector<float>& values, bool bfloat16 = false) {
  std::vector<uint16_t> result;
  for (const float value : values) result.push_back(bfloat16 ? float_to_bfloat16(value) : float_to_half(value));
  return result;
}

struct Format {
  bool a_row_major, b_row_major;
  bool half_accumulator = false, bfloat16 = false;
};

void test_wmma(const Kernels& kernels, const char* entry, Shape s, Format format) {
  const auto [a_row_major, b_row_major, half_accumulator, bfloat16] = format;
  const auto A = random_values(s.M * s.K, 1), B = random_values(s.K * s.N, 2), C = random_values(s.M * s.N, 3);
  const Buffer<uint16_t> a(narrowed(a_row_major ? A : transposed(A, s.M, s.K), bfloat16)),
      b(narrowed(b_row_major ? B : transposed(B, s.K, s.N), bfloat16));
  const auto want = transposed(product(s, 2.0f, {A, B, C}), s.M, s.N);
  if (half_accumulator) {
    const Buffer<uint16_t> c(narrowed(C)), d(C.size());
    CHECK_OK(kernels.run(entry, {{1}, {32}}, a.address(), b.address(), c.address(), d.address()));
    CHECK(d.read() == narrowed(want));
    return;
  }
  const Buffer<float> c(C), d(C.size());
  CHECK_OK(kernels.run(entry, {{1}, {32}}, a.address(), b.address(), c.address(), d.address()));
  CHECK(d.read() == want);
}

void test_mma(const Kernels& kernels) {
  const Shape s{16, 8, 16};
  const auto A = random_values(256, 4), B = random_values(128, 5), C = random_values(128, 6);
  const Buffer<uint16_t> a(narrowed(A)), b(narrowed(transposed(B, 16, 8))), c16(narrowed(C)), d16(128);
  const Buffer<float> c(C), d(128);
  const auto want = product(s, 1.0f, {A, B, C});
  CHECK_OK(kernels.run("mma_f32", {{1}, {32}}, a.address(), b.address(), c.address(), d.address()));
  CHECK(d.read() == want);
  CHECK_OK(kernels.run("mma_f16", {{1}, {32}}, a.address(), b.address(), c16.address(), d16.address()));
  CHECK(d16.read() == narrowed(want));
}

void test_matrix_moves(const Kernels& kernels) {
  std::vector<uint16_t> in, want(256);
  for (int i = 0; i < 256; ++i) in.push_back(static_cast<uint16_t>(i));
  for (int m = 0; m < 4; ++m)
    for (int row = 0; row < 8; ++row)
      for (int col = 0; col < 8; ++col) want[m * 64 + row * 8 + col] = in[m * 64 + col * 8 + row];
  const Buffer<uint16_t> from(in), to(256);
  CHECK_OK(kernels.run("matrix_moves", {{1}, {32}}, from.address(), to.address()));
  CHECK(to.read() == want);
}
}  // namespace

int main() {
  const Kernels kernels("matrices");
  test_wmma(kernels, "wmma_rr", {16, 16, 16}, {true, true});
  test_wmma(kernels, "wmma_rc", {16, 16, 16}, {true, false});
  test_wmma(kernels, "wmma_cr", {16, 16, 16}, {false, true});
  test_wmma(kernels, "wmma_cc", {16, 16, 16}, {false, false});
  test_wmma(kernels, "wmma_half_accumulator", {16, 16, 16}, {true, true, true});
  test_wmma(kernels, "wmma_m32n8k16", {32, 8, 16}, {true, true});
  test_wmma(kernels, "wmma_m8n32k16", {8, 32, 16}, {true, false});
  test_wmma(kernels, "wmma_bf16", {16, 16, 16}, {true, true, false, true});
  test_mma(kernels);
  test_matrix_moves(kernels);
}
