#include <algorithm>
#include <cmath>

#include "flashcore_reference.h"

void reference(const flashcore::Case& c) {
  const auto X = c.input("X");
  auto Y = c.output("Y");
  const long rows = X.extent(0), columns = X.extent(1);
  for (long row = 0; row < rows; ++row) {
    double most = X(row, 0), sum = 0;
    for (long n = 1; n < columns; ++n) most = std::max(most, X(row, n));
    for (long n = 0; n < columns; ++n) sum += Y(row, n) = std::exp(X(row, n) - most);
    for (long n = 0; n < columns; ++n) Y(row, n) /= sum;
  }
}
