// Computes attention for a few query rows at a time; attention_reference.h documents the result. One template
// serves all precisions: Fp64 never rounds, the others round where an implementation of that dtype stores a tensor.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "attention_plan.h"
#include "attention_reference.h"
#include "blocked.h"
#include "elements.h"
#include "vector_math.h"

// The most doubles in a block of K or V: at most half of a core's second-level cache.
constexpr int BLOCK_ELEMENTS = 1 << 15;

// The fp16 value nearest to x (ties to even), as a float.
inline float round_to_half(float x) {
  const uint32_t bits = float_to_bits(x), magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x477ff000u)  // 65520 and above, infinity, NaN
    return magnitude > 0x7f800000u ? x : bits_to_float((bits & 0x80000000u) | 0x7f800000u);
  const float subnormal =
      std::copysign((std::fabs(x) + 0.5f) - 0.5f, x);  // an ulp of 0.5f is 2^-24, fp16's smallest step
  const float normal = bits_to_float((bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu);
  return magnitude < 0x38800000u ? subnormal : normal;  // 2^-14, the smallest normal fp16
}

// The fp16 bits of a float that is exactly an fp16 value.
inline uint16_t half_bits(float x) {
  const uint32_t bits = float_to_bits(x), magnitude = bits & 0x7fffffffu;
  const uint32_t sign = bits >> 16 & 0x8000u;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude == 0x7f800000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::fabs(x) * 0x1p24f));
  return static_cast<uint16_t>(sign | ((magnitude >> 13) - (112u << 10)));
}

// Bits of the bf16 value nearest to x (ties to even).
inline uint16_t bfloat_bits(float x) {
  const uint32_t bits = float_to_bits(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);  // NaN stays NaN
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

struct Fp64 {
  using Real = double;
  using Output = double;
  static Real round(Real x) { return x; }
  static Output store(Real x) { return x; }
};

struct Fp32 {
  using Real = float;
  using Output = float;
  static Real round(Real x) { return x; }
  static Output store(Real x) { return x; }
};

struct Fp16 {
  using Real = float;
  using Output = uint16_t;
  static Real round(Real x) { return round_to_half(x); }
  static Output store(Real x) { return half_bits(round_to_half(x)); }
};

struct Bf16 {
  using Real = float;
  using Output = uint16_t;
  static Real round(Real x) { return bfloat_to_float(bfloat_bits(x)); }
  static Output store(Real x) { return bfloat_bits(x); }
};

// How many keys are unpacked at a time.
template <typename Real>
int block_rows(const flashcore_attention& p) {
  constexpr int COLS = Panels<Real>::COLS;
  return std::clamp(BLOCK_ELEMENTS / std::max(p.D, p.Dv) / COLS * COLS, COLS, 2048);
}

// A thread's memory for a task, and the task's computation. P rounds where an
// implementation of its dtype stores a tensor; only Fp64 computes LSE and the roundings.
template <typename P>
class Attending {
 protected:
  using Real = typename P::Real;
  using Vector = VectorOf<Real>;
  static constexpr int COLS = Panels<Real>::COLS, LANES = Matrix<Real>::LANES;
  static constexpr Real INFINITE = std::numeric_limits<Real>::infinity();

 public:
  Attending(const Plan& plan, typename P::Output* out)
      : plan(plan),
        p(plan.p),
        out(out),
        block(block_rows<Real>(p)),
        K_transposed(p.D, block),
        V(block, p.Dv),
        V_squares(p.o.rounding ? block : 0, p.Dv),
        Q(plan.task_rows(), p.D),
        scores(plan.task_rows(), plan.most_keys),
        O(plan.task_rows(), p.Dv),
        spread(p.o.rounding ? plan.task_rows() : 0, p.Dv),
        buffer(static_cast<size_t>(std::max<int64_t>({p.bias.data ? plan.most_keys : 1, p.D, p.Dv}))),
        rows(plan.task_rows()) {}

  void operator()(int64_t index) {
    weigh_keys(index);
    if (out || p.o.rounding) {
      multiply_by_values();
      for (int r = 0; r < count; ++r) store_row(rows[r], O.elements(r), p.o.rounding ? spread.elements(r) : nullptr);
    }
    if constexpr (std::is_same_v<P, Fp64>)
      for (int r = 0; r < count; ++r) store_lse(rows[r]);
  }

 protected:
  struct Row {
    int64_t query, head, position;
    int begin, end;  // the row's keys, as indices into the task's keys
    bool sees_any;  // whether masks and the bias leave it any key
    double lse, weight_squares, smallest;  // lse: natural; weight_squares: sum of max(p, smallest)^2
  };

  const Plan& plan;
  const flashcore_attention& p;
  typename P::Output* const out;
  const int block;  // how many keys are unpacked at a time
  Panels<Real> K_transposed, V, V_squares;
  Matrix<Real> Q, scores, O, spread;
  Matrix<Real> cap_slopes{0, 0};  // derivative of the softcap at each score; only computed if it has rows
  std::vector<Real> buffer;
  std::vector<Row> rows;
  std::vector<int32_t> selected;
  Task task = {};
  int count = 0, keys = 0;  // rows and keys of the task
  int64_t first_key = 0;  // the first of these keys, unless keys are selected

  // Starts a task: finds the task's rows and keys, and computes its weights into `scores`.
  void weigh_keys(int64_t index) {
    task = plan.task(index);
    count = static_cast<int>(task.last - task.first);
    find_keys();
    for (int r = 0; r < count; ++r)
      unpack(p.dtype, p.q.data, plan.query_at(p.q, task.b, rows[r].head, rows[r].query), p.D, Q.elements(r));
    multiply_by_keys(p.k, p.D, Q, K_transposed, scores);
    for (int r = 0; r < count; ++r) {
      shape_scores(rows[r], scores.elements(r), cap_slopes.data.empty() ? nullptr : cap_slopes.elements(r));
      softmax(rows[r], scores.row(r));
    }
  }

  int64_t key_of(int index) const { return p.selected.data ? selected[index] : first_key + index; }

  void find_keys() {
    Keys all = {std::numeric_limits<int64_t>::max(), 0};
    std::vector<Keys> visible(count);
    for (int r = 0; r < count; ++r) {
      const int64_t of_head = task.first + r, query = of_head / plan.group;
      rows[r] = {};
      rows[r].query = query;
      rows[r].head = task.kv_head * int64_t{plan.group} + of_head % plan.group;
      rows[r].position = plan.position(task.b, query);
      visible[r] = plan.visible(task.b, query);
      if (visible[r].empty()) continue;
      all = {std::min(all.begin, visible[r].begin), std::max(all.end, visible[r].end)};
    }
    keys = all.empty() ? 0 : static_cast<int>(all.end - all.begin);
    first_key = all.begin;
    if (p.selected.data) list_selected(all);
    for (int r = 0; r < count; ++r) {
      if (visible[r].empty()) continue;
      rows[r].begin = p.selected.data ? 0 : static_cast<int>(visible[r].begin - first_key);
      rows[r].end = p.selected.data ? keys : static_cast<int>(visible[r].end - first_key);
    }
  }

  // With selected keys, all rows of a task belong to one query.
  void list_selected(Keys visible) {
    selected.clear();
    const auto* list =
        static_cast<const int32_t*>(p.selected.data) + plan.query_at(p.selected, task.b, task.kv_head, rows[0].query);
    for (int i = 0; i < p.most_selected; ++i)
      if (list[i] >= visible.begin && list[i] < visible.end) selected.push_back(list[i]);
    keys = static_cast<int>(selected.size());
  }

  // Calls `visit` for the rows in groups of ROWS.
  template <typename Visit>
  void for_each_group(Visit&& visit) {
    for (int first = 0; first < count; first += ROWS) visit(first, std::min(count, first + ROWS));
  }

  // product = left x keys^T for the keys that a row sees; the tensor is K or V.
  void multiply_by_keys(const flashcore_tensor& tensor, int columns, Matrix<Real>& left, Panels<Real>& transposed,
                        Matrix<Real>& product) {
    for (int begin = 0; begin < keys; begin += block) {
      const int end = std::min(keys, begin + block);
      for (int key = begin; key < end; ++key) {
        unpack(p.dtype, tensor.data, plan.key_at(tensor, task.b, task.kv_head, key_of(key)), columns, buffer.data());
        Real* const column = transposed.element(0, key - begin);
        for (int d = 0; d < columns; ++d) column[static_cast<size_t>(d) * COLS] = buffer[d];
      }
      for_each_group([&](int first, int last) {
        int from = end, to = begin;
        for (int r = first; r < last; ++r) {
          from = std::min(from, std::max(begin, rows[r].begin));
          to = std::max(to, std::min(end, rows[r].end));
        }
        if (from >= to) return;
        const int first_panel = (from - begin) / COLS, last_panel = (to - begin + COLS - 1) / COLS;
        multiply_rows(left.elements(first), left.stride * LANES, transposed, 0, columns, first_panel, last_panel,
                      product.row(first) + begin / LANES + first_panel * COL_VECTORS, product.stride, true);
      });
    }
  }

  void shape_scores(Row& row, Real* score, Real* cap_slope) {
    for (int key = row.begin; key < row.end; ++key) score[key] = P::round(P::round(score[key]) * Real(p.scale));
    row.sees_any = row.begin < row.end;
    if (p.softcap > 0)
      for (int key = row.begin; key < row.end; ++key) {
        const Real share = std::tanh(score[key] / p.softcap);
        score[key] = p.softcap * share;
        if (cap_slope) cap_slope[key] = 1 - share * share;
      }
    if (p.alibi_slopes) {
      const Real slope = p.alibi_slopes[row.head];
      for (int key = row.begin; key < row.end; ++key)
        score[key] -= slope * static_cast<Real>(std::abs(row.position - key_of(key)));
    }
    if (p.bias.data) add_bias(row, score);
  }

  void add_bias(Row& row, Real* score) {
    const int64_t at = task.b * p.bias.batch_stride + row.head * p.bias.head_stride + row.query * p.bias.row_stride;
    row.sees_any = false;
    const bool whole = p.bias_key_stride == 1 && !p.selected.data;
    if (whole && row.begin < row.end)
      unpack(p.bias_dtype, p.bias.data, at + key_of(row.begin), row.end - row.begin, buffer.data() + row.begin);
    for (int key = row.begin; key < row.end; ++key) {
      if (!whole) unpack(p.bias_dtype, p.bias.data, at + key_of(key) * p.bias_key_stride, 1, buffer.data() + key);
      const bool hidden = buffer[key] == -INFINITE;
      score[key] = hidden ? -INFINITE : score[key] + buffer[key];
      row.sees_any |= !hidden;
    }
  }

  // Turns scores into probabilities, in place.
  void softmax(Row& row, Vector* of_row) {
    Real* const score = reinterpret_cast<Real*>(of_row);
    const int first = row.begin / LANES, last = (row.end + LANES - 1) / LANES;
    const Real sink = p.sinks ? p.sinks[row.head] : -INFINITE;
    if (!row.sees_any) {
      std::fill(score + row.begin, score + row.end, Real{0});
      row.lse = sink;
      return;
    }
    std::fill(score + first * LANES, score + row.begin, -INFINITE);
    std::fill(score + row.end, score + last * LANES, -INFINITE);
    Vector maxima = Vector{} - INFINITE;
    for (int i = first; i < last; ++i) maxima = of_row[i] > maxima ? of_row[i] : maxima;
    Real max = sink, sum = 0;
    for (int lane = 0; lane < LANES; ++lane) max = maxima[lane] > max ? maxima[lane] : max;
    Vector sums = {};
    for (int i = first; i < last; ++i) sums += of_row[i] = exp_of_negative(of_row[i] - max);
    for (int lane = 0; lane < LANES; ++lane) sum += sums[lane];
    if (p.sinks) sum += std::exp(sink - max);
    for (int key = first * LANES; key < last * LANES; ++key) score[key] = P::round(score[key] / sum);
    if constexpr (std::is_same_v<P, Fp64>) {
      row.lse = max + std::log(sum);
      const Roundoff weight = roundoff_of(p.weight_dtype);
      row.smallest = weight.relative ? weight.smallest / sum : weight.smallest;
      if (p.lse.rounding)
        for (int key = row.begin; key < row.end; ++key) row.weight_squares += square_of_weight(row, score[key]);
    }
  }

  // The square of the weight's error; 0 for a hidden key, whose weight has no error.
  static Real square_of_weight(const Row& row, Real weight) {
    const Real least = weight < row.smallest ? row.smallest : weight;
    return weight > 0 ? least * least : 0;
  }

  // Unpacks keys [begin, end) of K or V. Returns whether all elements are finite; always true without a bias.
  bool unpack_rows(const flashcore_tensor& tensor, int columns, int begin, int end, Panels<Real>& panels) {
    bool finite = true;
    for (int key = begin; key < end; ++key) {
      const size_t at = plan.key_at(tensor, task.b, task.kv_head, key_of(key));
      for (int d = 0; d < columns; d += COLS)
        unpack(p.dtype, tensor.data, at + d, std::min(COLS, columns - d), panels.element(key - begin, d));
      if (p.bias.data)
        for (int d = 0; d < columns; ++d) finite &= std::isfinite(*panels.element(key - begin, d));
    }
    return finite;
  }

  void multiply_by_values() {
    std::fill(O.data.begin(), O.data.end(), Vector{});
    std::fill(spread.data.begin(), spread.data.end(), Vector{});
    for (int begin = 0; begin < keys; begin += block) {
      const int end = std::min(keys, begin + block);
      const bool finite = unpack_rows(p.v, p.Dv, begin, end, V);
      if (p.o.rounding)
        for (size_t i = 0; i < V_squares.data.size(); ++i) V_squares.data[i] = V.data[i] * V.data[i];
      for_each_group([&](int first, int last) {
        add_product(first, last, begin, end, finite, scores, V, O);
        if (!p.o.rounding) return;
        for (int r = first; r < last; ++r) {
          Real* const weight = scores.elements(r);
          for (int key = std::max(begin, rows[r].begin); key < std::min(end, rows[r].end); ++key)
            weight[key] = square_of_weight(rows[r], weight[key]);
        }
        add_product(first, last, begin, end, finite, scores, V_squares, spread);
      });
    }
  }

  // sum += left x right for the keys [begin, end) of a group's rows: in blocks for keys that all rows see, and one by
  // one for keys that only some rows see, so that a masked weight of zero is never multiplied by infinity.
  void add_product(int first, int last, int begin, int end, bool finite, Matrix<Real>& left, Panels<Real>& right,
                   Matrix<Real>& sum) {
    int from = begin, to = end;
    for (int r = first; r < last; ++r)
      if (rows[r].sees_any) from = std::max(from, rows[r].begin), to = std::min(to, rows[r].end);
    if (from >= to || !finite) from = to = end;
    const auto alone = [&](int r, int key, int until) {
      for (; key < until; ++key) {
        const Real weight = left.elements(r)[key];
        if (p.bias.data && weight == 0) continue;
        for (size_t i = 0; i < sum.stride; ++i)
          sum.row(r)[i] +=
              weight * right.panel(static_cast<int>(i) / COL_VECTORS)[(key - begin) * COL_VECTORS + i % COL_VECTORS];
      }
    };
    for (int r = first; r < last; ++r) alone(r, std::max(begin, rows[r].begin), std::min(from, rows[r].end));
    multiply_rows(left.elements(first) + from, left.stride * LANES, right, from - begin, to - from, 0,
                  static_cast<int>(sum.stride) / COL_VECTORS, sum.row(first), sum.stride, false);
    for (int r = first; r < last; ++r) alone(r, std::max(to, rows[r].begin), std::min(end, rows[r].end));
  }

  void store_row(const Row& row, Real* o, const Real* spread) {
    const size_t at = plan.query_at(p.o, task.b, row.head, row.query);
    if (!row.sees_any) std::fill(o, o + p.Dv, Real{0});
    if (out)
      for (int d = 0; d < p.Dv; ++d) out[at + d] = P::store(o[d]);
    if (!spread) return;
    const Roundoff weight = roundoff_of(p.weight_dtype), output = roundoff_of(p.output_dtype);
    const double share = weight.unit / output.unit;  // a power of 2
    for (int d = 0; d < p.Dv; ++d) {
      const double stored = std::max(std::fabs(double{o[d]}), output.relative ? 0 : output.smallest),
                   all = share * o[d];
      const double each = row.sees_any ? share * share * spread[d] : 0;
      p.o.rounding[at + d] = static_cast<float>(output.unit * std::sqrt((stored * stored + all * all + each) / 3));
    }
  }

  void store_lse(const Row& row) {
    const size_t at = plan.query_at(p.lse, task.b, row.head, row.query);
    const double factor = p.lse_base_2 ? 0x1.71547652b82fep0 : 1;  // log2(e)
    if (p.lse.value) p.lse.value[at] = row.lse * factor;
    if (!p.lse.rounding) return;
    constexpr double LSE_UNIT = 0x1p-21;
    const double unit = roundoff_of(p.weight_dtype).unit, stored = LSE_UNIT * std::max(std::fabs(row.lse), 1.0);
    p.lse.rounding[at] = static_cast<float>(
        !row.sees_any ? 0 : factor * std::sqrt((stored * stored + unit * unit * row.weight_squares) / 3));
  }
};
