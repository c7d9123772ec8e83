#include "flashcore_reference.h"

void reference(const flashcore::Case& c) {
  const auto X = c.input("X");
  auto Y = c.output("Y");
  for (long m = 0; m < X.extent(0); ++m)
    for (long n = 0; n < X.extent(1); ++n) Y(n, m) = X(m, n);
}
