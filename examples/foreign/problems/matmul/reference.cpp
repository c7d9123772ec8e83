#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "flashcore_reference.h"

namespace {

// Calls f(0), f(step), f(2 * step), … below `count`, on all processors.
template <typename Function>
void parallel(long count, long step, Function f) {
  std::atomic<long> next{0};
  const auto work = [&] {
    for (long at = next.fetch_add(step); at < count; at = next.fetch_add(step)) f(at);
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) threads.emplace_back(work);
  work();
  for (auto& thread : threads) thread.join();
}

constexpr long ROWS = 32, COLUMNS = 256;  // sums of a block stay in cache

}  // namespace

void reference(const flashcore::Case& c) {
  const auto A = c.input("A"), B = c.input("B");
  auto C = c.output("C");
  const long M = A.extent(0), N = B.extent(1), K = A.extent(1);
  // Each element is converted once.
  std::vector<double> a(static_cast<size_t>(M) * K), b(static_cast<size_t>(K) * N);
  parallel(M, 1, [&](long m) {
    for (long k = 0; k < K; ++k) a[m * K + k] = A(m, k);
  });
  parallel(K, 1, [&](long k) {
    for (long n = 0; n < N; ++n) b[k * N + n] = B(k, n);
  });
  parallel(M, ROWS, [&](long m0) {
    const long rows = std::min(ROWS, M - m0);
    for (long n0 = 0; n0 < N; n0 += COLUMNS) {
      const long columns = std::min(COLUMNS, N - n0);
      double sums[ROWS][COLUMNS] = {};
      for (long k = 0; k < K; ++k)
        for (long m = 0; m < rows; ++m) {
          const double factor = a[(m0 + m) * K + k];
          const double* b_row = &b[k * N + n0];
          for (long n = 0; n < columns; ++n) sums[m][n] += factor * b_row[n];
        }
      for (long m = 0; m < rows; ++m)
        for (long n = 0; n < columns; ++n) C(m0 + m, n0 + n) = sums[m][n];
    }
  });
}
