#include <cmath>

#include "flashcore_reference.h"

void reference(const flashcore::Case& c) {
  const auto X = c.input("X"), W = c.input("W");
  auto Y = c.output("Y");
  const long rows = X.extent(0), columns = X.extent(1);
  for (long row = 0; row < rows; ++row) {
    double squares = 0;
    for (long n = 0; n < columns; ++n) squares += X(row, n) * X(row, n);
    const double factor = 1 / std::sqrt(squares / columns + c.value("eps"));
    for (long n = 0; n < columns; ++n) Y(row, n) = X(row, n) * factor * W(n);
  }
}
