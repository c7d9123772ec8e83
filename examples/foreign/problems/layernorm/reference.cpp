#include <cmath>

#include "flashcore_reference.h"

void reference(const flashcore::Case& c) {
  const auto X = c.input("X"), W = c.input("W"), bias = c.input("bias");
  auto Y = c.output("Y");
  const long rows = X.extent(0), columns = X.extent(1);
  for (long row = 0; row < rows; ++row) {
    double sum = 0, squares = 0;
    for (long n = 0; n < columns; ++n) sum += X(row, n);
    const double mean = sum / columns;
    for (long n = 0; n < columns; ++n) squares += (X(row, n) - mean) * (X(row, n) - mean);
    const double factor = 1 / std::sqrt(squares / columns + c.value("eps"));
    if (c.has_output("Mean")) c.output("Mean")(row) = mean;
    if (c.has_output("Rstd")) c.output("Rstd")(row) = factor;
    for (long n = 0; n < columns; ++n) Y(row, n) = (X(row, n) - mean) * factor * W(n) + bias(n);
  }
}
