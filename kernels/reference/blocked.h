// The building blocks of the reference's operations: products of matrix blocks in registers, and tasks on all threads.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>

#include "vector_math.h"

// Rows of the left factor in a call of multiply_rows(). Their
// sums must fit into registers, of which there are 32 or 16.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int ROWS = 8;
#else
constexpr int ROWS = 6;
#endif
constexpr int COL_VECTORS = 2;  // 2 registers of the right factor, 1 of the left

template <typename Real>
using VectorOf = std::conditional_t<std::is_same_v<Real, double>, VectorFp64, VectorFp32>;

// A row-major matrix of vectors. Columns past `cols` are 0 until someone writes them.
template <typename Real>
struct Matrix {
  using Vector = VectorOf<Real>;
  static constexpr int LANES = sizeof(Vector) / sizeof(Real);
  size_t stride;  // vectors
  std::vector<Vector> data;
  Matrix(int rows, int64_t cols)
      : stride(static_cast<size_t>((cols + LANES * COL_VECTORS - 1) / (LANES * COL_VECTORS) * COL_VECTORS)),
        data(static_cast<size_t>(rows) * stride) {}
  Vector* row(int r) { return data.data() + static_cast<size_t>(r) * stride; }
  Real* elements(int r) { return reinterpret_cast<Real*>(row(r)); }
};

// The right factor of a product: panels of COL_VECTORS vectors, each with all its rows one after the other,
// as multiply_rows() reads it. Row sizes that are powers of two would all map to the same few cache lines.
template <typename Real>
struct Panels {
  using Vector = VectorOf<Real>;
  static constexpr int COLS = COL_VECTORS * static_cast<int>(sizeof(Vector) / sizeof(Real));
  int rows;
  std::vector<Vector> data;
  Panels(int rows, int cols) : rows(rows), data(static_cast<size_t>((cols + COLS - 1) / COLS) * rows * COL_VECTORS) {}
  Vector* panel(int p) { return data.data() + static_cast<size_t>(p) * rows * COL_VECTORS; }
  Real* element(int row, int col) {
    return reinterpret_cast<Real*>(panel(col / COLS) + static_cast<size_t>(row) * COL_VECTORS) + col % COLS;
  }
};

// C[0..ROWS) += A[0..ROWS) x B for B's rows [0, depth) and panels [first, last). Row 0 of A
// begins at `a`, and each next row `a_stride` elements later; row 0 of C has its first panel
// at `c`, and each next row `c_stride` vectors later. `fresh`: ignores C's former values.
template <typename Real>
void multiply_rows(const Real* a, size_t a_stride, Panels<Real>& B, int begin, int depth, int first, int last,
                   VectorOf<Real>* c, size_t c_stride, bool fresh) {
  using Vector = VectorOf<Real>;
  for (int p = first; p < last; ++p, c += COL_VECTORS) {
    Vector sum[ROWS][COL_VECTORS] = {};
    if (!fresh)
      for (int r = 0; r < ROWS; ++r)
        for (int v = 0; v < COL_VECTORS; ++v) sum[r][v] = c[r * c_stride + v];
    const Vector* b = B.panel(p) + static_cast<size_t>(begin) * COL_VECTORS;
    for (int k = 0; k < depth; ++k, b += COL_VECTORS) {
      const Vector left = b[0], right = b[1];  // read once for all rows
      for (int r = 0; r < ROWS; ++r) {
        const Real each = a[r * a_stride + k];
        sum[r][0] += each * left;
        sum[r][1] += each * right;
      }
    }
    for (int r = 0; r < ROWS; ++r)
      for (int v = 0; v < COL_VECTORS; ++v) c[r * c_stride + v] = sum[r][v];
  }
}

// Stands for as many threads as the machine has.
constexpr int ALL_THREADS = 0;

// Runs task(0) .. task(tasks - 1) on up to `threads` threads, each of which
// has a task of its own from make_task(). Returns false if out of memory.
template <typename MakeTask>
bool in_parallel(int64_t tasks, int threads, const MakeTask& make_task) {
  std::atomic<int64_t> next{0};
  std::atomic<bool> out_of_memory{false};
  const auto work = [&] {
    try {
      auto task = make_task();
      for (int64_t each; (each = next++) < tasks;) task(each);
    } catch (const std::bad_alloc&) {
      out_of_memory = true;
    }
  };
  if (threads <= 0) threads = static_cast<int>(std::thread::hardware_concurrency());
  std::vector<std::thread> helpers;
  try {
    for (int i = 1; i < threads && i < tasks; ++i) helpers.emplace_back(work);
  } catch (const std::system_error&) {
    // No more threads can start, so the running ones and this one take all tasks.
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  return !out_of_memory;
}
