// The backward pass of attention on the CPU; attention_reference.h documents it. The first pass goes over query rows
// and computes dQ, and each row's LSE and sum of O dO. The second pass goes over keys, recomputes the scores, and
// computes dK and dV from them. So each element is summed by one thread, in a fixed order.
#include "attention_reference.h"
#include "attending.h"
#include "attention_plan.h"
#include "blocked.h"
#include "elements.h"
#include "vector_math.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <new>
#include <vector>

namespace {

using Real = double;
constexpr int COLS = Panels<Real>::COLS, LANES = Matrix<Real>::LANES;
constexpr double INFINITE = std::numeric_limits<double>::infinity();
constexpr int KEYS_PER_TASK = 128, ROWS_PER_BLOCK = 128;

using Gradients = flashcore_attention_gradients;

// One value per query row: [B, Hq, Sq].
struct RowSums {
  std::vector<double> lse, delta;  // natural logarithm; sum of O dO
  std::vector<double> delta_errors;  // upper bounds for a kernel's delta; empty if no rounding is wanted
};

bool wants_rounding(const Gradients& g) {
  return g.d_q.rounding || g.d_k.rounding || g.d_v.rounding || g.d_sinks_rounding;
}

// Squared errors of weights and gradients of scores that are rounded to weight_dtype, in units of its roundoff.
class RoundedWeights {
 public:
  explicit RoundedWeights(int weight_dtype) : to(roundoff_of(weight_dtype)) {}

  double weight(double each) const { return each == 0 ? 0 : square(std::max(each, to.smallest)); }
  double gradient(double weight, double each) const {
    if (weight == 0) return 0;
    // Arithmetic may flush a subnormal fp32 weight to 0.
    return square(std::max({std::fabs(each), to.smallest, 0x1p-126 / to.unit * std::fabs(each / weight)}));
  }

  double delta_square(const RowSums& sums, size_t row) const {
    return sums.delta_errors.empty() ? 0 : 3 * square(sums.delta_errors[row] / to.unit);
  }

  // Standard deviation of the error of an element that is rounded to `out`; `squares`: its products' squared errors.
  float of_element(double value, double squares, const Roundoff& out) const {
    const double stored = out.unit * std::max(std::fabs(value), out.smallest);
    return static_cast<float>(std::sqrt((stored * stored + to.unit * to.unit * (value * value + squares)) / 3));
  }

 private:
  static double square(double x) { return x * x; }
  Roundoff to;
};

size_t row_at(const flashcore_attention& p, int64_t b, int64_t head, int64_t query) {
  return static_cast<size_t>((b * p.Hq + head) * p.Sq + query);
}

class QueryGradients : Attending<Fp64> {
 public:
  QueryGradients(const Plan& plan, const Gradients& gradients, RowSums& sums)
      : Attending(plan, nullptr),
        g(gradients),
        sums(sums),
        V_transposed(p.Dv, block),
        K(g.d_q.value ? block : 0, p.D),
        K_squares(g.d_q.rounding ? block : 0, p.D),
        dO(plan.task_rows(), p.Dv),
        gradient(plan.task_rows(), plan.most_keys),
        dQ(g.d_q.value ? plan.task_rows() : 0, p.D),
        dQ_squares(g.d_q.rounding ? plan.task_rows() : 0, p.D),
        rounded(p.weight_dtype) {
    if (p.softcap > 0) cap_slopes = Matrix<Real>(plan.task_rows(), plan.most_keys);
  }

  void operator()(int64_t index) {
    weigh_keys(index);
    for (int r = 0; r < count; ++r)
      unpack(g.d_o_dtype, g.d_o.data, plan.query_at(g.d_o, task.b, rows[r].head, rows[r].query), p.Dv, dO.elements(r));
    multiply_by_keys(p.v, p.Dv, dO, V_transposed, gradient);  // gradient of the weights
    for (int r = 0; r < count; ++r) {
      const Row& row = rows[r];
      const Real* const weight = scores.elements(r);
      Real* const of_key = gradient.elements(r);
      double delta = 0, sizes = 0;  // sizes: the addends' magnitudes, summed
      for (int key = row.begin; key < row.end; ++key)
        if (weight[key] != 0) {
          delta += weight[key] * of_key[key];
          sizes += weight[key] * std::fabs(of_key[key]);
        }
      for (int key = row.begin; key < row.end; ++key)
        of_key[key] = weight[key] == 0 ? 0 : weight[key] * (of_key[key] - delta);
      if (p.softcap > 0)
        for (int key = row.begin; key < row.end; ++key) of_key[key] *= cap_slopes.elements(r)[key];
      const size_t at = row_at(p, task.b, row.head, row.query);
      sums.lse[at] = row.lse;
      sums.delta[at] = delta;
      if (!sums.delta_errors.empty()) sums.delta_errors[at] = error_of_delta(row, dO.elements(r), delta, sizes);
    }
    if (g.d_q.value) multiply_by_k();
  }

 private:
  const Gradients& g;
  RowSums& sums;
  Panels<Real> V_transposed, K, K_squares;
  Matrix<Real> dO, gradient, dQ, dQ_squares;
  RoundedWeights rounded;

  // The error of delta in a kernel that reads O, or in one that sums p dP, if kernels do not read O; `sizes` is the sum
  // of |p dP|.
  double error_of_delta(const Row& row, const Real* d_o, double delta, double sizes) {
    constexpr double SUM_UNIT = 0x1p-21;  // 8 roundings in fp32
    if (!g.o.data) return SUM_UNIT * sizes;
    unpack(g.o_dtype, g.o.data, plan.query_at(g.o, task.b, row.head, row.query), p.Dv, buffer.data());
    double sum = 0, of_columns = 0;
    for (int d = 0; d < p.Dv; ++d) {
      sum += d_o[d] * buffer[d];
      of_columns += std::fabs(d_o[d] * buffer[d]);
    }
    return std::hypot(sum - delta, SUM_UNIT * of_columns);
  }

  void multiply_by_k() {
    std::fill(dQ.data.begin(), dQ.data.end(), VectorFp64{});
    std::fill(dQ_squares.data.begin(), dQ_squares.data.end(), VectorFp64{});
    for (int begin = 0; begin < keys; begin += block) {
      const int end = std::min(keys, begin + block);
      const bool finite = unpack_rows(p.k, p.D, begin, end, K);
      if (g.d_q.rounding)
        for (size_t i = 0; i < K_squares.data.size(); ++i) K_squares.data[i] = K.data[i] * K.data[i];
      for_each_group([&](int first, int last) {
        add_product(first, last, begin, end, finite, gradient, K, dQ);
        if (!g.d_q.rounding) return;
        for (int r = first; r < last; ++r)
          square_gradients(r, std::max(begin, rows[r].begin), std::min(end, rows[r].end));
        add_product(first, last, begin, end, finite, gradient, K_squares, dQ_squares);
      });
    }
    for (int r = 0; r < count; ++r) {
      const size_t at = plan.query_at(g.d_q, task.b, rows[r].head, rows[r].query);
      for (int d = 0; d < p.D; ++d) {
        const double value = rows[r].sees_any ? p.scale * dQ.elements(r)[d] : 0;
        g.d_q.value[at + d] = value;
        if (!g.d_q.rounding) continue;
        const double squares = rows[r].sees_any ? double{p.scale} * p.scale * dQ_squares.elements(r)[d] : 0;
        g.d_q.rounding[at + d] = rounded.of_element(value, squares, roundoff_of(g.d_q_dtype));
      }
    }
  }

  void square_gradients(int r, int begin, int end) {
    const Real* const weight = scores.elements(r);
    Real* const of_key = gradient.elements(r);
    const double of_delta = rounded.delta_square(sums, row_at(p, task.b, rows[r].head, rows[r].query));
    for (int key = begin; key < end; ++key)
      of_key[key] = rounded.gradient(weight[key], of_key[key]) + of_delta * weight[key];
  }
};

// Computes dK and dV of keys [first, last) of a sequence's key head, in blocks of the
// rows that read the head, numbered as in Task. The rows of its matrices are keys.
class KeyGradients {
 public:
  KeyGradients(const Plan& plan, const std::vector<int64_t>& tasks_before, const Gradients& gradients,
               const RowSums& sums)
      : plan(plan),
        p(plan.p),
        g(gradients),
        tasks_before(tasks_before),
        sums(sums),
        K(HEIGHT, p.D),
        V(HEIGHT, p.Dv),
        weights(HEIGHT, ROWS_PER_BLOCK),
        gradient(HEIGHT, ROWS_PER_BLOCK),
        counts(p.selected.data ? HEIGHT : 0, ROWS_PER_BLOCK),
        dK(HEIGHT, p.D),
        dV(HEIGHT, p.Dv),
        Q_transposed(p.D, ROWS_PER_BLOCK),
        dO_transposed(p.Dv, ROWS_PER_BLOCK),
        Q(ROWS_PER_BLOCK, p.D),
        dO(ROWS_PER_BLOCK, p.Dv),
        dK_squares(g.d_k.rounding ? HEIGHT : 0, p.D),
        dV_squares(g.d_v.rounding ? HEIGHT : 0, p.Dv),
        Q_squares(g.d_k.rounding ? ROWS_PER_BLOCK : 0, p.D),
        dO_squares(g.d_v.rounding ? ROWS_PER_BLOCK : 0, p.Dv),
        rounded(p.weight_dtype),
        rows(ROWS_PER_BLOCK),
        lse(1, ROWS_PER_BLOCK),
        buffer(static_cast<size_t>(std::max(p.D, p.Dv))) {}

  void operator()(int64_t index) {
    const auto after = std::upper_bound(tasks_before.begin(), tasks_before.end(), index);
    b = static_cast<int32_t>(after - tasks_before.begin() - 1);
    const int64_t of_sequence = index - tasks_before[b], blocks = (plan.keys(b) + KEYS_PER_TASK - 1) / KEYS_PER_TASK;
    kv_head = static_cast<int32_t>(of_sequence / blocks);
    first_key = static_cast<int32_t>(of_sequence % blocks * KEYS_PER_TASK);
    keys = static_cast<int>(std::min<int64_t>(KEYS_PER_TASK, plan.keys(b) - first_key));
    for (int key = 0; key < keys; ++key) {
      unpack(p.dtype, p.k.data, plan.key_at(p.k, b, kv_head, first_key + key), p.D, K.elements(key));
      unpack(p.dtype, p.v.data, plan.key_at(p.v, b, kv_head, first_key + key), p.Dv, V.elements(key));
    }
    std::fill(dK.data.begin(), dK.data.end(), VectorFp64{});
    std::fill(dV.data.begin(), dV.data.end(), VectorFp64{});
    std::fill(dK_squares.data.begin(), dK_squares.data.end(), VectorFp64{});
    std::fill(dV_squares.data.begin(), dV_squares.data.end(), VectorFp64{});
    const int64_t all = plan.rows(b) * plan.group;
    for (int64_t first = 0; first < all; first += ROWS_PER_BLOCK)
      add_rows(first, static_cast<int>(std::min<int64_t>(ROWS_PER_BLOCK, all - first)));
    store(g.d_k, p.D, p.scale, dK, dK_squares, g.d_k_dtype);
    store(g.d_v, p.Dv, 1, dV, dV_squares, g.d_v_dtype);
  }

 private:
  static constexpr int HEIGHT = (KEYS_PER_TASK + ROWS - 1) / ROWS * ROWS;

  struct Row {
    int64_t query, head, position;
    int32_t begin, end;  // the task's keys that the masks do not hide from the row
    double delta, delta_square;  // delta_square: square of delta's error, in units of the weights' roundoff
  };

  const Plan& plan;
  const flashcore_attention& p;
  const Gradients& g;
  const std::vector<int64_t>& tasks_before;
  const RowSums& sums;
  Matrix<Real> K, V, weights, gradient, counts, dK, dV;
  Panels<Real> Q_transposed, dO_transposed, Q, dO;
  Matrix<Real> dK_squares, dV_squares;
  Panels<Real> Q_squares, dO_squares;
  RoundedWeights rounded;
  std::vector<Row> rows;
  Matrix<Real> lse;
  std::vector<Real> buffer;
  int32_t b = 0, kv_head = 0, first_key = 0;
  int keys = 0, count = 0;  // number of keys in the task, and of rows in the block

  void add_rows(int64_t first, int of_block) {
    count = of_block;
    if (!find_rows(first)) return;
    unpack_queries();
    if (p.selected.data) count_selected();
    const int panels = (count + COLS - 1) / COLS;
    for (int key = 0; key < keys; key += ROWS) {
      multiply_rows(K.elements(key), K.stride * LANES, Q_transposed, 0, p.D, 0, panels, weights.row(key),
                    weights.stride, true);
      multiply_rows(V.elements(key), V.stride * LANES, dO_transposed, 0, p.Dv, 0, panels, gradient.row(key),
                    gradient.stride, true);
      for (int each = key; each < std::min(keys, key + ROWS); ++each) weigh(each, panels * COL_VECTORS);
      multiply_rows(weights.elements(key), weights.stride * LANES, dO, 0, count, 0,
                    static_cast<int>(dV.stride) / COL_VECTORS, dV.row(key), dV.stride, false);
      multiply_rows(gradient.elements(key), gradient.stride * LANES, Q, 0, count, 0,
                    static_cast<int>(dK.stride) / COL_VECTORS, dK.row(key), dK.stride, false);
      if (g.d_k.rounding || g.d_v.rounding) add_squares(key);
    }
  }

  // For ROWS keys: adds up the squares of their gradients' errors. Overwrites weights and gradients of scores.
  void add_squares(int key) {
    for (int each = key; each < std::min(keys, key + ROWS); ++each) {
      Real* const weight = weights.elements(each);
      Real* const of_row = gradient.elements(each);
      for (int r = 0; r < count; ++r) {
        of_row[r] = rounded.gradient(weight[r], of_row[r]) + rows[r].delta_square * weight[r] * weight[r];
        weight[r] = rounded.weight(weight[r]);
      }
    }
    if (g.d_v.rounding)
      multiply_rows(weights.elements(key), weights.stride * LANES, dO_squares, 0, count, 0,
                    static_cast<int>(dV_squares.stride) / COL_VECTORS, dV_squares.row(key), dV_squares.stride, false);
    if (g.d_k.rounding)
      multiply_rows(gradient.elements(key), gradient.stride * LANES, Q_squares, 0, count, 0,
                    static_cast<int>(dK_squares.stride) / COL_VECTORS, dK_squares.row(key), dK_squares.stride, false);
  }

  // Returns whether any of the rows sees any of the keys.
  bool find_rows(int64_t first) {
    bool any = false;
    for (int r = 0; r < count; ++r) {
      const int64_t query = (first + r) / plan.group, head = kv_head * int64_t{plan.group} + (first + r) % plan.group;
      const Keys seen = plan.visible(b, query);
      const int64_t begin = std::clamp<int64_t>(seen.begin - first_key, 0, keys),
                    end = std::clamp<int64_t>(seen.end - first_key, 0, keys);
      const size_t at = row_at(p, b, head, query);
      const double of_delta = 9 * rounded.delta_square(sums, at);  // 3 standard deviations: attention_reference.h
      rows[r] = {
          query,          head,    plan.position(b, query), static_cast<int32_t>(begin), static_cast<int32_t>(end),
          sums.delta[at], of_delta};
      // The LSE of a row without keys is -infinity, which would turn its weights into NaN.
      lse.elements(0)[r] = sums.lse[at] == -INFINITE ? 0 : sums.lse[at];
      any |= begin < end;
    }
    return any;
  }

  void unpack_queries() {
    for (int r = 0; r < count; ++r) {
      const auto unpack_row = [&](int dtype, const flashcore_tensor& tensor, int columns, Panels<Real>& row_major,
                                  Panels<Real>& transposed) {
        unpack(dtype, tensor.data, plan.query_at(tensor, b, rows[r].head, rows[r].query), columns, buffer.data());
        Real* const column = transposed.element(0, r);
        for (int d = 0; d < columns; ++d) column[static_cast<size_t>(d) * COLS] = buffer[d];
        for (int d = 0; d < columns; d += COLS)
          std::copy_n(buffer.data() + d, std::min(COLS, columns - d), row_major.element(r, d));
      };
      unpack_row(p.dtype, p.q, p.D, Q, Q_transposed);
      unpack_row(g.d_o_dtype, g.d_o, p.Dv, dO, dO_transposed);
    }
    for (size_t i = 0; i < Q_squares.data.size(); ++i) Q_squares.data[i] = Q.data[i] * Q.data[i];
    for (size_t i = 0; i < dO_squares.data.size(); ++i) dO_squares.data[i] = dO.data[i] * dO.data[i];
  }

  void count_selected() {
    std::fill(counts.data.begin(), counts.data.end(), VectorFp64{});
    for (int r = 0; r < count; ++r) {
      const auto* list =
          static_cast<const int32_t*>(p.selected.data) + plan.query_at(p.selected, b, kv_head, rows[r].query);
      for (int i = 0; i < p.most_selected; ++i)
        if (list[i] >= first_key && list[i] < first_key + keys) ++counts.elements(list[i] - first_key)[r];
    }
  }

  // For one key: turns raw scores into weights, and gradients of weights into gradients of raw scores, in place.
  void weigh(int key, int vectors) {
    Real* const score = weights.elements(key);
    Real* const of_row = gradient.elements(key);
    for (int r = 0; r < count; ++r) {
      const Row& row = rows[r];
      if (key < row.begin || key >= row.end || (p.selected.data && counts.elements(key)[r] == 0)) {
        score[r] = -INFINITE;
        continue;
      }
      Real each = score[r] * p.scale, slope = 1;
      if (p.softcap > 0) {
        const Real share = std::tanh(each / p.softcap);
        each = p.softcap * share;
        slope = 1 - share * share;
      }
      if (p.alibi_slopes)
        each -= p.alibi_slopes[row.head] * static_cast<Real>(std::abs(row.position - (first_key + key)));
      if (p.bias.data) {
        const int64_t at = b * p.bias.batch_stride + row.head * p.bias.head_stride + row.query * p.bias.row_stride +
                           (first_key + key) * p.bias_key_stride;
        Real bias;
        unpack(p.bias_dtype, p.bias.data, static_cast<size_t>(at), 1, &bias);
        each = bias == -INFINITE ? bias : each + bias;
      }
      score[r] = each;
      of_row[r] = (of_row[r] - row.delta) * slope;
    }
    VectorFp64* const weight = weights.row(key);
    for (int i = 0; i < vectors; ++i) weight[i] = exp_of_negative(weight[i] - lse.row(0)[i]);
    if (p.selected.data)
      for (int r = 0; r < count; ++r) score[r] *= counts.elements(key)[r];
    for (int r = 0; r < count; ++r) of_row[r] = score[r] == 0 ? 0 : of_row[r] * score[r];
  }

  void store(const flashcore_output& out, int columns, double factor, Matrix<Real>& sum, Matrix<Real>& squares,
             int dtype) {
    for (int key = 0; out.value && key < keys; ++key) {
      const size_t at = plan.key_at(out, b, kv_head, first_key + key);
      for (int d = 0; d < columns; ++d) {
        const double value = factor * sum.elements(key)[d];
        out.value[at + d] = value;
        if (out.rounding)
          out.rounding[at + d] =
              rounded.of_element(value, factor * factor * squares.elements(key)[d], roundoff_of(dtype));
      }
    }
  }
};

// A sink's weight falls when the row's total rises, so its gradient is the sum of -p_sink delta over all rows.
void sum_sinks(const Plan& plan, const Gradients& g, const RowSums& sums) {
  const flashcore_attention& p = plan.p;
  for (int32_t head = 0; head < p.Hq; ++head) {
    g.d_sinks[head] = 0;
    double error = 0;
    for (int32_t b = 0; b < p.B; ++b)
      for (int64_t query = 0; query < plan.rows(b); ++query) {
        const size_t at = row_at(p, b, head, query);
        if (sums.lse[at] == -INFINITE) continue;
        const double weight = std::exp(p.sinks[head] - sums.lse[at]);
        g.d_sinks[head] -= weight * sums.delta[at];
        if (!sums.delta_errors.empty()) error += weight * sums.delta_errors[at];
      }
    if (!g.d_sinks_rounding) continue;
    const Roundoff output = roundoff_of(g.d_sinks_dtype);
    const double stored = output.unit * std::max(std::fabs(g.d_sinks[head]), output.smallest);
    g.d_sinks_rounding[head] = static_cast<float>(std::sqrt(stored * stored / 3 + error * error));
  }
}

bool sound(const Plan& plan, const Gradients& g) {
  const bool keys = g.d_k.value || g.d_v.value;
  const auto stored = [](int dtype) { return known_dtype(dtype) || is_fp8(dtype); };
  const auto rounded_to = [&](int dtype) { return stored(dtype) || dtype == FLASHCORE_DTYPE_TF32; };
  const auto judged = [&](const void* value, const float* rounding, int dtype) {
    return !rounding || (value && rounded_to(dtype) && rounded_to(plan.p.weight_dtype));
  };
  return plan.sound && !plan.p.page_table && (g.d_q.value || keys || g.d_sinks) && (!g.d_sinks || plan.p.sinks) &&
         judged(g.d_q.value, g.d_q.rounding, g.d_q_dtype) && judged(g.d_k.value, g.d_k.rounding, g.d_k_dtype) &&
         judged(g.d_v.value, g.d_v.rounding, g.d_v_dtype) && judged(g.d_sinks, g.d_sinks_rounding, g.d_sinks_dtype) &&
         g.d_o.data && stored(g.d_o_dtype) && plan.has_queries(g.d_o, plan.p.Dv) &&
         (!g.o.data || (stored(g.o_dtype) && plan.has_queries(g.o, plan.p.Dv))) &&
         (!g.d_q.value || plan.has_queries(g.d_q, plan.p.D)) && (!g.d_k.value || plan.has_keys(g.d_k, plan.p.D)) &&
         (!g.d_v.value || plan.has_keys(g.d_v, plan.p.Dv));
}

}  // namespace

int flashcore_attention_backward(const flashcore_attention_gradients* problem, int32_t threads) try {
  if (!problem) return FLASHCORE_REFERENCE_BAD_ARGUMENT;
  Gradients g = *problem;
  g.forward.o = g.forward.lse = {};
  const Plan plan(g.forward);
  if (!sound(plan, g)) return FLASHCORE_REFERENCE_BAD_ARGUMENT;
  const size_t rows = static_cast<size_t>(g.forward.B) * g.forward.Hq * g.forward.Sq;
  const bool judges_delta = wants_rounding(g);
  RowSums sums = {std::vector<double>(rows), std::vector<double>(rows), std::vector<double>(judges_delta ? rows : 0)};
  if (!in_parallel(plan.tasks, threads, [&] { return QueryGradients(plan, g, sums); }))
    return FLASHCORE_REFERENCE_OUT_OF_MEMORY;
  if (g.d_sinks) sum_sinks(plan, g, sums);
  if (!g.d_k.value && !g.d_v.value) return FLASHCORE_REFERENCE_OK;
  std::vector<int64_t> tasks_before = {0};
  for (int32_t b = 0; b < g.forward.B; ++b)
    tasks_before.push_back(tasks_before.back() + g.forward.Hkv * ((plan.keys(b) + KEYS_PER_TASK - 1) / KEYS_PER_TASK));
  const bool done =
      in_parallel(tasks_before.back(), threads, [&] { return KeyGradients(plan, tasks_before, g, sums); });
  return done ? FLASHCORE_REFERENCE_OK : FLASHCORE_REFERENCE_OUT_OF_MEMORY;
} catch (const std::bad_alloc&) {
  return FLASHCORE_REFERENCE_OUT_OF_MEMORY;
}
