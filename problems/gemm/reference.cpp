#include <vector>

#include "flashcore_reference.h"

void reference(const flashcore::Case& c) {
  const auto A = c.input("A"), B = c.input("B");
  auto C = c.output("C");
  const long M = A.extent(0), N = B.extent(0), K = A.extent(1);
  // Each element of B is converted once.
  std::vector<double> b(static_cast<size_t>(N) * K), a(K);
  for (long n = 0; n < N; ++n)
    for (long k = 0; k < K; ++k) b[n * K + k] = B(n, k);
  for (long m = 0; m < M; ++m) {
    for (long k = 0; k < K; ++k) a[k] = A(m, k);
    for (long n = 0; n < N; ++n) {
      double sum = 0;
      for (long k = 0; k < K; ++k) sum += a[k] * b[n * K + k];
      C(m, n) = sum;
    }
  }
}
