// Merges attention over parts of the keys; attention_reference.h documents the result.
#include "attention_reference.h"
#include "attention_plan.h"
#include "blocked.h"
#include "elements.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <new>
#include <vector>

namespace {

constexpr int64_t ROWS_MERGED = 256;  // rows that a thread takes at a time
constexpr double INFINITE = std::numeric_limits<double>::infinity();

using Parts = flashcore_attention_parts;

bool sound(const Parts& p) {
  const auto stored = [](int dtype) { return known_dtype(dtype) || is_fp8(dtype); };
  const auto inside = [&](const auto& tensor, double columns) {
    return holds(tensor, p.B - 1, p.H - 1, p.S - 1, columns);
  };
  const auto written = [&](const flashcore_output& out, double columns) {
    return (!out.value && !out.rounding) || inside(out, columns);
  };
  const auto behind = [&](int64_t part_stride) { return (p.parts - 1.0) * static_cast<double>(part_stride); };
  return p.parts >= 1 && p.B >= 1 && p.H >= 1 && p.S >= 1 && p.Dv >= 1 && p.Dv <= MOST_COLUMNS &&
         static_cast<double>(p.parts) * p.B * p.H * p.S * p.Dv < MOST_ELEMENTS && p.o.data && p.lse.data &&
         stored(p.o_dtype) && stored(p.lse_dtype) && p.o_part_stride >= 0 && p.lse_part_stride >= 0 &&
         inside(p.o, p.Dv + behind(p.o_part_stride)) && inside(p.lse, 1 + behind(p.lse_part_stride)) &&
         (p.out_o.value || p.out_lse.value) && written(p.out_o, p.Dv) && written(p.out_lse, 1) &&
         (!p.out_o.rounding || stored(p.output_dtype) || p.output_dtype == FLASHCORE_DTYPE_TF32);
}

class Merging {
 public:
  explicit Merging(const Parts& parts) : p(parts), weights(p.parts), part(p.Dv), o(p.Dv), squares(p.Dv) {}

  void operator()(int64_t task) {
    const int64_t all = int64_t{p.B} * p.H * p.S;
    for (int64_t row = task * ROWS_MERGED; row < std::min(all, (task + 1) * ROWS_MERGED); ++row) {
      b = row / p.S / p.H;
      head = row / p.S % p.H;
      query = row % p.S;
      merge_row();
    }
  }

 private:
  const Parts& p;
  std::vector<double> weights, part, o, squares;
  int64_t b = 0, head = 0, query = 0;

  template <typename Tensor>
  size_t at(const Tensor& tensor) const {
    return static_cast<size_t>(b * tensor.batch_stride + head * tensor.head_stride + query * tensor.row_stride);
  }

  // Turns LSE into weights whose largest is 1. A part with an LSE of -infinity has no key, and its O is ignored.
  void merge_row() {
    double max = -INFINITE, sum = 0;
    for (int32_t i = 0; i < p.parts; ++i) {
      unpack(p.lse_dtype, p.lse.data, at(p.lse) + static_cast<size_t>(i * p.lse_part_stride), 1, &weights[i]);
      max = std::max(max, weights[i]);
    }
    for (double& weight : weights) {
      if (weight == -INFINITE)
        weight = 0;
      else
        weight = p.lse_base_2 ? std::exp2(weight - max) : std::exp(weight - max);
      sum += weight;
    }
    std::fill(o.begin(), o.end(), 0.0);
    std::fill(squares.begin(), squares.end(), 0.0);
    for (int32_t i = 0; i < p.parts; ++i) {
      if (weights[i] == 0) continue;
      unpack(p.o_dtype, p.o.data, at(p.o) + static_cast<size_t>(i * p.o_part_stride), p.Dv, part.data());
      for (int32_t d = 0; d < p.Dv; ++d) {
        const double share = weights[i] / sum * part[d];
        o[d] += share;
        squares[d] += share * share;
      }
    }
    store(sum == 0 ? -INFINITE : max + (p.lse_base_2 ? std::log2(sum) : std::log(sum)));
  }

  void store(double lse) {
    constexpr double FP32_UNIT = 0x1p-21;  // 8 roundings
    const double base = p.lse_base_2 ? 0x1.71547652b82fep0 : 1;  // log2(e)
    if (p.out_o.value) std::copy(o.begin(), o.end(), p.out_o.value + at(p.out_o));
    if (p.out_lse.value) p.out_lse.value[at(p.out_lse)] = lse;
    if (p.out_lse.rounding)
      p.out_lse.rounding[at(p.out_lse)] =
          static_cast<float>(lse == -INFINITE ? 0 : FP32_UNIT * std::max(std::fabs(lse), base) / std::sqrt(3.0));
    if (!p.out_o.rounding) return;
    const Roundoff output = roundoff_of(p.output_dtype);
    for (int32_t d = 0; d < p.Dv; ++d) {
      const double stored = output.unit * std::max(std::fabs(o[d]), output.relative ? 0 : output.smallest);
      p.out_o.rounding[at(p.out_o) + static_cast<size_t>(d)] =
          static_cast<float>(std::sqrt((stored * stored + FP32_UNIT * FP32_UNIT * squares[d]) / 3));
    }
  }
};

}  // namespace

int flashcore_attention_merge(const flashcore_attention_parts* problem, int32_t threads) {
  if (!problem || !sound(*problem)) return FLASHCORE_REFERENCE_BAD_ARGUMENT;
  const int64_t rows = int64_t{problem->B} * problem->H * problem->S;
  const bool done = in_parallel((rows + ROWS_MERGED - 1) / ROWS_MERGED, threads, [&] { return Merging(*problem); });
  return done ? FLASHCORE_REFERENCE_OK : FLASHCORE_REFERENCE_OUT_OF_MEMORY;
}
