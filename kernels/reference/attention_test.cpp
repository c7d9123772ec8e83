// Checks attention, its backward pass and the merge of parts against triple loops that follow its definition word by
// word, on problems drawn at random. Elements that no sequence owns are NaN, and each buffer ends at its last element,
// so that -fsanitize=address,undefined finds reads past it. Exit code 0: all agree.
//   g++ -std=c++17 -O3 -march=native -fno-math-errno -fno-trapping-math -pthread attention_reference.cpp
//   attention_backward.cpp attention_merge.cpp attention_test.cpp -o attention_test && ./attention_test [seed [problems]]
#include "attention_reference.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr double UNTOUCHED = 777;
constexpr int DTYPES[] = {FLASHCORE_DTYPE_FP16, FLASHCORE_DTYPE_BF16, FLASHCORE_DTYPE_FP32, FLASHCORE_DTYPE_FP8_E4M3,
                          FLASHCORE_DTYPE_FP8_E5M2};

struct Format {
  int bytes, exponent_bits, mantissa_bits;
};

Format format_of(int dtype) {
  switch (dtype) {
    case FLASHCORE_DTYPE_FP16: return {2, 5, 10};
    case FLASHCORE_DTYPE_BF16: return {2, 8, 7};
    case FLASHCORE_DTYPE_FP32: return {4, 8, 23};
    case FLASHCORE_DTYPE_FP8_E4M3: return {1, 4, 3};
    default: return {1, 5, 2};
  }
}

// A tensor, as bits and as the values of these bits.
struct Tensor {
  Format format;
  std::unique_ptr<uint8_t[]> bits;  // not a vector: the sanitizer checks the end of an array
  std::vector<double> values;

  Tensor() = default;
  Tensor(int dtype, int64_t count)
      : format(format_of(dtype)),
        bits(new uint8_t[static_cast<size_t>(count * format.bytes)]),
        values(static_cast<size_t>(count), NAN) {
    std::memset(bits.get(), 0xff, static_cast<size_t>(count * format.bytes));  // NaN in each format
  }

  void set_bits(size_t at, uint32_t of) {
    for (int byte = 0; byte < format.bytes; ++byte)
      bits[at * format.bytes + byte] = static_cast<uint8_t>(of >> 8 * byte);
  }

  // (4 + quarters) / 4 * 2^exponent with its sign: every format has it for exponents of -5 to 7.
  void set(size_t at, bool negative, int exponent, int quarters) {
    const uint32_t bias = (1u << (format.exponent_bits - 1)) - 1;
    set_bits(at, (static_cast<uint32_t>(negative) << format.exponent_bits | (static_cast<uint32_t>(exponent) + bias))
                         << format.mantissa_bits |
                     static_cast<uint32_t>(quarters) << (format.mantissa_bits - 2));
    values[at] = (negative ? -1 : 1) * std::ldexp(4 + quarters, exponent - 2);
  }

  void infinity(size_t at, bool negative) {
    set_bits(at, (static_cast<uint32_t>(negative) << format.exponent_bits | ((1u << format.exponent_bits) - 1))
                     << format.mantissa_bits);
    values[at] = negative ? -INFINITY : INFINITY;
  }
};

class Random {
 public:
  explicit Random(uint32_t seed) : generator(seed) {}
  int from(int low, int high) { return std::uniform_int_distribution<int>(low, high)(generator); }
  bool one_in(int many) { return from(1, many) == 1; }
  void fill(Tensor& tensor, size_t at, int count, int most_exponent = 0) {
    for (int i = 0; i < count; ++i) tensor.set(at + i, one_in(2), from(-4, most_exponent), from(0, 3));
  }
  std::mt19937 generator;
};

// A problem and the arrays to which it points.
struct Drawn {
  flashcore_attention p = {};
  Tensor q, k, v, bias;
  std::vector<int32_t> query_offsets, key_offsets, key_lengths, page_table, page_offsets, selected;
  std::vector<float> slopes, sinks;
  std::vector<double> o, lse;
  std::vector<float> o_rounding, lse_rounding;
  std::string name;

  int group() const { return p.Hq / p.Hkv; }
  int rows(int b) const { return p.query_offsets ? query_offsets[b + 1] - query_offsets[b] : p.Sq; }
  int keys(int b) const {
    return p.key_lengths ? key_lengths[b] : p.key_offsets ? key_offsets[b + 1] - key_offsets[b] : p.Skv;
  }
  template <typename T>
  size_t query_at(const T& t, int b, int head, int i) const {
    const int64_t batch = p.query_offsets ? 0 : b, row = p.query_offsets ? query_offsets[b] + i : i;
    return static_cast<size_t>(batch * t.batch_stride + head * t.head_stride + row * t.row_stride);
  }
  template <typename T>
  size_t key_at(const T& t, int b, int head, int j) const {
    int64_t batch = b, row = j;
    if (p.page_table) {
      const int64_t first = p.page_offsets ? page_offsets[b] : b * p.most_pages;
      batch = page_table[first + j / p.page_size];
      row = j % p.page_size;
    } else if (p.key_offsets) {
      batch = 0;
      row = key_offsets[b] + j;
    }
    return static_cast<size_t>(batch * t.batch_stride + head * t.head_stride + row * t.row_stride);
  }
};

// Draws an order of batch, head and row, sometimes with a gap between rows.
template <typename T>
void lay_out(T& tensor, Random& random, int batches, int heads, int rows, int columns) {
  int64_t* const strides[] = {&tensor.batch_stride, &tensor.head_stride, &tensor.row_stride};
  const int extents[] = {batches, heads, rows};
  int order[] = {0, 1, 2};
  std::shuffle(order, order + 3, random.generator);
  int64_t stride = columns + (random.one_in(3) ? random.from(1, 5) : 0);
  tensor.count = columns;
  for (const int each : order) {
    *strides[each] = stride;
    tensor.count += (extents[each] - 1) * stride;
    stride *= extents[each];
  }
}

std::vector<int32_t> offsets_of(Random& random, int B, int most) {
  std::vector<int32_t> offsets = {random.from(0, 2)};
  for (int b = 0; b < B; ++b) offsets.push_back(offsets.back() + (random.one_in(4) ? 0 : random.from(1, most)));
  return offsets;
}

std::unique_ptr<Drawn> draw(Random& random) {
  auto drawn = std::make_unique<Drawn>();
  Drawn& d = *drawn;
  flashcore_attention& p = d.p;
  const bool large = random.one_in(6);
  p.B = random.from(1, 3);
  p.Hkv = random.from(1, 3);
  p.Hq = p.Hkv * random.from(1, 5);
  p.Sq = random.one_in(3) ? 1 : random.from(1, large ? 90 : 20);
  p.Skv = random.from(1, large ? 400 : 50);
  p.D = random.one_in(8) ? 576 : random.from(1, 40);
  p.Dv = random.one_in(2) ? p.D : random.from(1, 40);
  p.dtype = DTYPES[random.from(0, 4)];
  const auto note = [&](bool chosen, const char* feature) { return chosen ? d.name += feature, true : false; };
  const auto null_if_empty = [](const auto& values) { return values.empty() ? nullptr : values.data(); };

  if (note(random.one_in(3), " ragged-queries")) d.query_offsets = offsets_of(random, p.B, p.Sq);
  const bool paged = note(random.one_in(3), " paged");
  if (!paged && note(random.one_in(3), " ragged-keys")) d.key_offsets = offsets_of(random, p.B, p.Skv);
  p.query_offsets = null_if_empty(d.query_offsets);
  p.key_offsets = null_if_empty(d.key_offsets);
  if (note(random.one_in(2), " lengths")) {
    std::vector<int32_t> lengths;
    for (int b = 0; b < p.B; ++b) lengths.push_back(random.one_in(4) ? 0 : random.from(0, d.keys(b)));
    d.key_lengths = lengths;
    p.key_lengths = d.key_lengths.data();
  }
  int key_batches = p.B, key_rows = p.key_offsets ? std::max(1, d.key_offsets.back()) : p.Skv;
  if (paged) {
    p.page_size = random.from(1, 9);
    const int pages = (p.Skv + p.page_size - 1) / p.page_size;
    p.most_pages = pages + random.from(0, 2);
    key_batches = p.B * pages + random.from(0, 3);
    key_rows = p.page_size;
    std::vector<int32_t> shuffled(key_batches);
    std::iota(shuffled.begin(), shuffled.end(), 0);
    std::shuffle(shuffled.begin(), shuffled.end(), random.generator);
    const bool flat = note(random.one_in(2), " page-offsets");
    for (int b = 0, next = 0; b < p.B; ++b) {
      if (flat) d.page_offsets.push_back(static_cast<int32_t>(d.page_table.size()));
      const int used = (d.keys(b) + p.page_size - 1) / p.page_size;
      for (int page = 0; page < (flat ? used : p.most_pages); ++page)
        d.page_table.push_back(page < used ? shuffled[next++] : random.from(-9, 1 << 30));
    }
    if (flat) d.page_offsets.push_back(static_cast<int32_t>(d.page_table.size()));
    d.page_table.shrink_to_fit();
    // Not null, even if no sequence has a page.
    d.page_table.reserve(1);
    p.page_table = d.page_table.data();
    p.page_offsets = null_if_empty(d.page_offsets);
  }

  const int query_batches = p.query_offsets ? 1 : p.B;
  const int query_rows = p.query_offsets ? std::max(1, d.query_offsets.back()) + random.from(0, 2) : p.Sq;
  lay_out(p.q, random, query_batches, p.Hq, query_rows, p.D);
  lay_out(p.k, random, p.key_offsets ? 1 : key_batches, p.Hkv, key_rows, p.D);
  lay_out(p.v, random, p.key_offsets ? 1 : key_batches, p.Hkv, key_rows, p.Dv);
  lay_out(p.o, random, query_batches, p.Hq, query_rows, p.Dv);
  lay_out(p.lse, random, query_batches, p.Hq, query_rows, 1);
  d.q = Tensor(p.dtype, p.q.count);
  d.k = Tensor(p.dtype, p.k.count);
  d.v = Tensor(p.dtype, p.v.count);
  p.q.data = d.q.bits.get();
  p.k.data = d.k.bits.get();
  p.v.data = d.v.bits.get();
  for (int b = 0; b < p.B; ++b) {
    for (int head = 0; head < p.Hq; ++head)
      for (int i = 0; i < d.rows(b); ++i) random.fill(d.q, d.query_at(p.q, b, head, i), p.D);
    for (int head = 0; head < p.Hkv; ++head)
      for (int j = 0; j < d.keys(b); ++j) {
        random.fill(d.k, d.key_at(p.k, b, head, j), p.D);
        random.fill(d.v, d.key_at(p.v, b, head, j), p.Dv);
      }
  }

  if (note(random.one_in(4), " selected")) {
    p.most_selected = random.from(1, 30);
    lay_out(p.selected, random, query_batches, p.Hkv, query_rows, p.most_selected);
    if (random.one_in(2)) p.selected.head_stride = 0;
    d.selected.assign(static_cast<size_t>(p.selected.count), 1 << 30);
    for (int b = 0; b < p.B; ++b)
      for (int head = 0; head < p.Hkv; ++head)
        for (int i = 0; i < d.rows(b); ++i)
          for (int each = 0; each < p.most_selected; ++each)
            d.selected[d.query_at(p.selected, b, head, i) + each] =
                d.keys(b) == 0 || random.one_in(5) ? -1 : random.from(0, d.keys(b) - 1);
    p.selected.data = d.selected.data();
  }
  p.alignment = note(random.one_in(2), " bottom-right");
  p.causal = note(random.one_in(2), " causal");
  p.window_left = note(random.one_in(3), " window-left") ? random.from(0, 20) : -1;
  p.window_right = note(random.one_in(4), " window-right") ? random.from(0, 20) : -1;
  p.scale = random.one_in(4) ? 1.5f : 1 / std::sqrt(static_cast<float>(p.D));
  p.softcap = note(random.one_in(3), " softcap") ? 0.5f * static_cast<float>(random.from(1, 20)) : 0;
  const auto numbers = [&](double step) {
    std::vector<float> drawn_numbers;
    for (int head = 0; head < p.Hq; ++head) drawn_numbers.push_back(static_cast<float>(random.from(-8, 8) * step));
    return drawn_numbers;
  };
  if (note(random.one_in(3), " alibi")) d.slopes = numbers(0.03);
  if (note(random.one_in(3), " sinks")) d.sinks = numbers(0.5);
  p.alibi_slopes = null_if_empty(d.slopes);
  p.sinks = null_if_empty(d.sinks);
  if (note(random.one_in(3), " bias")) {
    p.bias_dtype = DTYPES[random.from(0, 2)];
    lay_out(p.bias, random, p.B, p.Hq, p.Sq, p.Skv);
    p.bias_key_stride = 1;
    for (int64_t* stride : {&p.bias.batch_stride, &p.bias.head_stride, &p.bias.row_stride, &p.bias_key_stride})
      if (random.one_in(4)) *stride = 0;
    d.bias = Tensor(p.bias_dtype, p.bias.count);
    for (int64_t i = 0; i < p.bias.count; ++i)
      if (random.one_in(5))
        d.bias.infinity(static_cast<size_t>(i), true);
      else
        random.fill(d.bias, static_cast<size_t>(i), 1);
    p.bias.data = d.bias.bits.get();
  }

  d.o.assign(static_cast<size_t>(p.o.count), UNTOUCHED);
  d.lse.assign(static_cast<size_t>(p.lse.count), UNTOUCHED);
  d.o_rounding.assign(d.o.size(), UNTOUCHED);
  d.lse_rounding.assign(d.lse.size(), UNTOUCHED);
  p.lse_base_2 = random.one_in(2);
  p.weight_dtype = random.one_in(4) ? FLASHCORE_DTYPE_TF32 : DTYPES[random.from(0, 4)];
  p.output_dtype = DTYPES[random.from(0, 2)];
  p.o.value = d.o.data();
  if (!random.one_in(4)) p.o.rounding = d.o_rounding.data();
  if (!random.one_in(4)) p.lse.value = d.lse.data();
  if (p.lse.value && random.one_in(5)) p.o.value = nullptr, p.o.rounding = nullptr;
  if (!random.one_in(4)) p.lse.rounding = d.lse_rounding.data();
  return drawn;
}

// One query's keys in the order of their list, with their weights; and the logarithm of the total.
struct Weights {
  std::vector<int> keys;
  std::vector<double> scores, weights;
  double lse = -INFINITY, largest = -INFINITY;
};

Weights weights_by_loops(const Drawn& d, int b, int head, int i) {
  const flashcore_attention& p = d.p;
  Weights row;
  std::vector<int> candidates(d.keys(b));
  std::iota(candidates.begin(), candidates.end(), 0);
  if (p.selected.data) {
    const int32_t* list = d.selected.data() + d.query_at(p.selected, b, head / d.group(), i);
    candidates.assign(list, list + p.most_selected);
  }
  const int position = p.alignment == FLASHCORE_ALIGN_BOTTOM_RIGHT ? i + d.keys(b) - d.rows(b) : i;
  for (const int j : candidates) {
    if (j < 0 || (p.causal && j > position)) continue;
    if (p.window_left >= 0 && j < position - p.window_left) continue;
    if (p.window_right >= 0 && j > position + p.window_right) continue;
    double score = 0;
    for (int c = 0; c < p.D; ++c)
      score += d.q.values[d.query_at(p.q, b, head, i) + c] * d.k.values[d.key_at(p.k, b, head / d.group(), j) + c];
    score *= p.scale;
    if (p.softcap != 0) score = p.softcap * std::tanh(score / p.softcap);
    if (p.alibi_slopes) score -= static_cast<double>(d.slopes[head]) * std::abs(position - j);
    if (p.bias.data) {
      const double bias = d.bias.values[b * p.bias.batch_stride + head * p.bias.head_stride + i * p.bias.row_stride +
                                        j * p.bias_key_stride];
      if (bias == -INFINITY) continue;
      score += bias;
    }
    row.keys.push_back(j);
    row.scores.push_back(score);
    row.largest = std::max(row.largest, score);
  }
  if (p.sinks) row.largest = std::max(row.largest, static_cast<double>(d.sinks[head]));
  if (row.largest == -INFINITY) return row;
  long double total = p.sinks ? std::exp(static_cast<long double>(d.sinks[head]) - row.largest) : 0;
  for (const double score : row.scores) total += std::exp(static_cast<long double>(score) - row.largest);
  row.lse = static_cast<double>(row.largest + std::log(total));
  for (const double score : row.scores) row.weights.push_back(std::exp(score - row.lse));
  return row;
}

double unit_of(int dtype) {
  return dtype == FLASHCORE_DTYPE_FP32   ? 0x1p-24
         : dtype == FLASHCORE_DTYPE_TF32 ? 0x1p-11
                                         : std::ldexp(1, -1 - format_of(dtype).mantissa_bits);
}

struct Answer {
  std::vector<double> o, o_rounding, lse, lse_rounding;
};

// The smallest normal number of fp16; the largest that fp32 arithmetic flushes to 0 for wider types; else 0.
double smallest_of(int dtype) {
  if (dtype == FLASHCORE_DTYPE_FP16) return 0x1p-14;
  const bool is_fp8 = dtype == FLASHCORE_DTYPE_FP8_E4M3 || dtype == FLASHCORE_DTYPE_FP8_E5M2;
  return is_fp8 ? 0 : 0x1p-126 / unit_of(dtype);
}

// The squared error of rounding a gradient. Here fp8 has its own smallest normal number.
double rounded_square(int dtype, double x) {
  const double least = dtype == FLASHCORE_DTYPE_FP8_E4M3   ? 0x1p-6
                       : dtype == FLASHCORE_DTYPE_FP8_E5M2 ? 0x1p-14
                                                           : smallest_of(dtype);
  return std::pow(unit_of(dtype) * std::max(std::fabs(x), least), 2) / 3;
}

Answer forward_by_loops(const Drawn& d) {
  const flashcore_attention& p = d.p;
  const auto untouched = [](size_t count) { return std::vector<double>(count, UNTOUCHED); };
  Answer answer = {untouched(d.o.size()), untouched(d.o.size()), untouched(d.lse.size()), untouched(d.lse.size())};
  const double u_p = unit_of(p.weight_dtype), u_o = unit_of(p.output_dtype), base = p.lse_base_2 ? std::log(2.0) : 1;
  for (int b = 0; b < p.B; ++b)
    for (int head = 0; head < p.Hq; ++head)
      for (int i = 0; i < d.rows(b); ++i) {
        const Weights row = weights_by_loops(d, b, head, i);
        const double largest = std::exp(row.largest - row.lse);
        const double smallest_p = p.weight_dtype == FLASHCORE_DTYPE_FP8_E4M3   ? 0x1p-6 * largest
                                  : p.weight_dtype == FLASHCORE_DTYPE_FP8_E5M2 ? 0x1p-14 * largest
                                                                               : smallest_of(p.weight_dtype);
        const double smallest_o = smallest_of(p.output_dtype);
        double squares = 0;
        for (const double weight : row.weights) squares += std::pow(std::max(weight, smallest_p), 2);
        for (int c = 0; c < p.Dv; ++c) {
          double o = 0, spread = 0;
          for (size_t each = 0; each < row.keys.size(); ++each) {
            const double value = d.v.values[d.key_at(p.v, b, head / d.group(), row.keys[each]) + c];
            o += row.weights[each] * value;
            spread += std::pow(std::max(row.weights[each], smallest_p) * value, 2);
          }
          const size_t at = d.query_at(p.o, b, head, i) + c;
          answer.o[at] = o;
          answer.o_rounding[at] = std::sqrt(
              (u_o * u_o * std::pow(std::max(std::fabs(o), smallest_o), 2) + u_p * u_p * (o * o + spread)) / 3);
        }
        const size_t at = d.query_at(p.lse, b, head, i);
        answer.lse[at] = row.lse / base;
        answer.lse_rounding[at] =
            row.keys.empty()
                ? 0
                : std::sqrt((std::pow(0x1p-21 * std::max(std::fabs(row.lse), 1.0), 2) + u_p * u_p * squares) / 3) /
                      base;
      }
  return answer;
}

// The largest difference, in units of 1 and of the wanted number; infinite if only one of the two is finite.
template <typename Got>
double worst(const std::vector<Got>& got, const std::vector<double>& want, double least) {
  double most = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (static_cast<double>(got[i]) == want[i]) continue;
    const double share = std::fabs(got[i] - want[i]) / (std::fabs(want[i]) + least);
    most = std::max(most, std::isfinite(share) ? share : INFINITY);
  }
  return most;
}

template <typename Got, typename Pointer>
bool agree(const std::vector<Got>& got, const std::vector<double>& want, double least, double limit, Pointer wanted) {
  return wanted ? worst(got, want, least) < limit
                : std::all_of(got.begin(), got.end(), [](Got each) { return each == Got{UNTOUCHED}; });
}

bool forward_agrees(Drawn& d, int threads) {
  if (flashcore_attention_forward(&d.p, threads) != FLASHCORE_REFERENCE_OK) return false;
  const Answer answer = forward_by_loops(d);
  return agree(d.o, answer.o, 1, 1e-12, d.p.o.value) && agree(d.lse, answer.lse, 1, 1e-12, d.p.lse.value) &&
         agree(d.o_rounding, answer.o_rounding, 1e-12, 1e-5, d.p.o.rounding) &&
         agree(d.lse_rounding, answer.lse_rounding, 1e-12, 1e-5, d.p.lse.rounding);
}

// A drawn problem's backward pass.
struct DrawnGradients {
  flashcore_attention_gradients g = {};
  Tensor d_o, o;
  std::vector<double> d_q, d_k, d_v, d_sinks;
  std::vector<float> d_q_rounding, d_k_rounding, d_v_rounding, d_sinks_rounding;

  DrawnGradients(const Drawn& d, Random& random) {
    const flashcore_attention& p = g.forward = d.p;
    g.forward.o = g.forward.lse = {};
    const int query_rows = p.query_offsets ? std::max(1, d.query_offsets.back()) : p.Sq;
    const int key_rows = p.key_offsets ? std::max(1, d.key_offsets.back()) : p.Skv;
    const int query_batches = p.query_offsets ? 1 : p.B, key_batches = p.key_offsets ? 1 : p.B;
    lay_out(g.d_o, random, query_batches, p.Hq, query_rows, p.Dv);
    lay_out(g.o, random, query_batches, p.Hq, query_rows, p.Dv);
    lay_out(g.d_q, random, query_batches, p.Hq, query_rows, p.D);
    lay_out(g.d_k, random, key_batches, p.Hkv, key_rows, p.D);
    lay_out(g.d_v, random, key_batches, p.Hkv, key_rows, p.Dv);
    g.d_o_dtype = DTYPES[random.from(0, 4)];
    d_o = Tensor(g.d_o_dtype, g.d_o.count);
    g.d_o.data = d_o.bits.get();
    g.o_dtype = DTYPES[random.from(0, 4)];
    o = Tensor(g.o_dtype, g.o.count);
    for (int b = 0; b < p.B; ++b)
      for (int head = 0; head < p.Hq; ++head)
        for (int i = 0; i < d.rows(b); ++i) {
          random.fill(d_o, d.query_at(g.d_o, b, head, i), p.Dv);
          random.fill(o, d.query_at(g.o, b, head, i), p.Dv);
        }
    if (!random.one_in(4)) g.o.data = o.bits.get();
    g.forward.weight_dtype = DTYPES[random.from(0, 4)];
    g.d_q_dtype = DTYPES[random.from(0, 4)];
    g.d_k_dtype = g.d_v_dtype = g.d_sinks_dtype = FLASHCORE_DTYPE_TF32;
    d_sinks.assign(p.Hq, UNTOUCHED);
    d_sinks_rounding.assign(p.Hq, UNTOUCHED);
    bool any = false;
    const auto want = [&](flashcore_output& out, std::vector<double>& values, std::vector<float>& rounding) {
      values.assign(static_cast<size_t>(out.count), UNTOUCHED);
      rounding.assign(static_cast<size_t>(out.count), UNTOUCHED);
      if (random.one_in(6)) return;
      out.value = values.data();
      if (!random.one_in(4)) out.rounding = rounding.data();
      any = true;
    };
    want(g.d_q, d_q, d_q_rounding);
    want(g.d_k, d_k, d_k_rounding);
    want(g.d_v, d_v, d_v_rounding);
    if (p.sinks) g.d_sinks = d_sinks.data(), g.d_sinks_rounding = d_sinks_rounding.data();
    if (!any) g.d_q.value = d_q.data();
  }

  // The error of a kernel's delta; `sizes` is the sum of |p dP|.
  double error_of_delta(const Drawn& d, int b, int head, int i, double delta, double sizes) const {
    if (!g.o.data) return 0x1p-21 * sizes;
    double sum = 0, magnitudes = 0;
    for (int c = 0; c < d.p.Dv; ++c) {
      const double each = d_o.values[d.query_at(g.d_o, b, head, i) + c] * o.values[d.query_at(g.o, b, head, i) + c];
      sum += each;
      magnitudes += std::fabs(each);
    }
    return std::sqrt(std::pow(sum - delta, 2) + std::pow(0x1p-21 * magnitudes, 2));
  }
};

bool backward_agrees(const Drawn& d, DrawnGradients& got, int threads) {
  const flashcore_attention& p = d.p;
  const flashcore_attention_gradients& g = got.g;
  if (flashcore_attention_backward(&g, threads) != FLASHCORE_REFERENCE_OK) return false;
  std::vector<double> d_q(got.d_q.size(), UNTOUCHED), d_k(got.d_k.size(), UNTOUCHED), d_v(got.d_v.size(), UNTOUCHED),
      d_sinks(p.Hq, 0.0);
  // Sums of squares; in the end the roundings.
  std::vector<double> of_d_q(d_q.size()), of_d_k(d_k.size()), of_d_v(d_v.size()), of_d_sinks(p.Hq);
  for (int b = 0; b < p.B; ++b) {
    for (int head = 0; head < p.Hkv; ++head)
      for (int j = 0; j < d.keys(b); ++j) {
        std::fill_n(d_k.begin() + static_cast<int64_t>(d.key_at(g.d_k, b, head, j)), p.D, 0.0);
        std::fill_n(d_v.begin() + static_cast<int64_t>(d.key_at(g.d_v, b, head, j)), p.Dv, 0.0);
      }
    for (int head = 0; head < p.Hq; ++head)
      for (int i = 0; i < d.rows(b); ++i) {
        const Weights row = weights_by_loops(d, b, head, i);
        const double* const d_o = got.d_o.values.data() + d.query_at(g.d_o, b, head, i);
        const double* const q = d.q.values.data() + d.query_at(p.q, b, head, i);
        double* const of_q = d_q.data() + d.query_at(g.d_q, b, head, i);
        std::fill_n(of_q, p.D, 0.0);
        std::vector<double> of_weight(row.keys.size());
        double delta = 0, sizes = 0;
        for (size_t each = 0; each < row.keys.size(); ++each) {
          for (int c = 0; c < p.Dv; ++c)
            of_weight[each] += d_o[c] * d.v.values[d.key_at(p.v, b, head / d.group(), row.keys[each]) + c];
          delta += row.weights[each] * of_weight[each];
          sizes += row.weights[each] * std::fabs(of_weight[each]);
        }
        const double of_delta = got.error_of_delta(d, b, head, i, delta, sizes);
        if (p.sinks && std::isfinite(row.lse)) {
          const double weight = std::exp(d.sinks[head] - row.lse);
          d_sinks[head] -= weight * delta;
          of_d_sinks[head] += weight * of_delta;
        }
        for (size_t each = 0; each < row.keys.size(); ++each) {
          const int j = row.keys[each];
          const double* const k = d.k.values.data() + d.key_at(p.k, b, head / d.group(), j);
          double of_score = row.weights[each] * (of_weight[each] - delta);
          if (p.softcap != 0) {
            const double raw = std::inner_product(q, q + p.D, k, 0.0) * p.scale;
            of_score /= std::pow(std::cosh(raw / p.softcap), 2);
          }
          const double weight = row.weights[each];
          const auto rounded = [&](double x) { return weight == 0 ? 0 : rounded_square(g.forward.weight_dtype, x); };
          const auto rounded_score = [&](double x) {
            const double flushed =
                weight == 0 ? 0 : 0x1p-126 / unit_of(g.forward.weight_dtype) * std::fabs(of_score / weight);
            return rounded(std::max(std::fabs(x), flushed));
          };
          const auto copies = static_cast<double>(std::count(row.keys.begin(), row.keys.end(), j));
          for (int c = 0; c < p.D; ++c) {
            of_q[c] += p.scale * of_score * k[c];
            of_d_q[d.query_at(g.d_q, b, head, i) + c] +=
                std::pow(p.scale * k[c], 2) * (rounded_score(of_score) + weight * of_delta * of_delta);
            const size_t at = d.key_at(g.d_k, b, head / d.group(), j) + c;
            d_k[at] += p.scale * of_score * q[c];
            of_d_k[at] += std::pow(p.scale * q[c], 2) *
                          (rounded_score(copies * of_score) / copies + 9 * copies * std::pow(weight * of_delta, 2));
          }
          for (int c = 0; c < p.Dv; ++c) {
            const size_t at = d.key_at(g.d_v, b, head / d.group(), j) + c;
            d_v[at] += weight * d_o[c];
            of_d_v[at] += std::pow(d_o[c], 2) * rounded(copies * weight) / copies;
          }
        }
      }
  }
  const auto finish = [&](std::vector<double>& of, const std::vector<double>& values, int dtype) {
    const double of_all = std::pow(unit_of(g.forward.weight_dtype), 2) / 3;
    for (size_t at = 0; at < of.size(); ++at)
      of[at] = values[at] == UNTOUCHED
                   ? UNTOUCHED
                   : std::sqrt(of[at] + rounded_square(dtype, values[at]) + of_all * values[at] * values[at]);
  };
  finish(of_d_q, d_q, g.d_q_dtype);
  finish(of_d_k, d_k, g.d_k_dtype);
  finish(of_d_v, d_v, g.d_v_dtype);
  for (int head = 0; head < p.Hq; ++head)
    of_d_sinks[head] = std::sqrt(std::pow(of_d_sinks[head], 2) + rounded_square(g.d_sinks_dtype, d_sinks[head]));
  return agree(got.d_q, d_q, 1, 1e-10, g.d_q.value) && agree(got.d_k, d_k, 1, 1e-10, g.d_k.value) &&
         agree(got.d_v, d_v, 1, 1e-10, g.d_v.value) && agree(got.d_sinks, d_sinks, 1, 1e-10, g.d_sinks) &&
         agree(got.d_q_rounding, of_d_q, 1e-12, 1e-5, g.d_q.rounding) &&
         agree(got.d_k_rounding, of_d_k, 1e-12, 1e-5, g.d_k.rounding) &&
         agree(got.d_v_rounding, of_d_v, 1e-12, 1e-5, g.d_v.rounding) &&
         agree(got.d_sinks_rounding, of_d_sinks, 1e-12, 1e-5, g.d_sinks_rounding);
}

bool drawn_problem_agrees(uint32_t seed) {
  Random random(seed);
  const auto drawn = draw(random);
  const int threads = random.from(1, 3);
  if (!forward_agrees(*drawn, threads)) return false;
  if (drawn->p.page_table) return true;
  DrawnGradients gradients(*drawn, random);
  return backward_agrees(*drawn, gradients, threads);
}

bool drawn_problems_agree(uint32_t seed, int problems) {
  for (int i = 0; i < problems; ++i) {
    if (drawn_problem_agrees(seed + static_cast<uint32_t>(i))) continue;
    Random random(seed + static_cast<uint32_t>(i));
    const auto drawn = draw(random);
    const flashcore_attention& p = drawn->p;
    std::printf("FAIL seed %u: B%d Hq%d Hkv%d Sq%d Skv%d D%d Dv%d dtype %d%s\n", seed + static_cast<uint32_t>(i), p.B,
                p.Hq, p.Hkv, p.Sq, p.Skv, p.D, p.Dv, p.dtype, drawn->name.c_str());
    return false;
  }
  return std::printf("ok   %d drawn problems\n", problems), true;
}

// With one key O = V. V holds every bit pattern of fp8, decoded by the formats' definition.
bool knows_every_fp8() {
  for (const int dtype : {FLASHCORE_DTYPE_FP8_E4M3, FLASHCORE_DTYPE_FP8_E5M2}) {
    uint8_t zero[256] = {}, v[256];
    double o[256];
    std::iota(v, v + 256, uint8_t{0});
    flashcore_attention p = {};
    p.B = p.Hq = p.Hkv = p.Sq = p.Skv = p.D = 1;
    p.Dv = 256;
    p.dtype = dtype;
    p.q = p.k = {zero, 1, 0, 0, 0};
    p.v = {v, 256, 0, 0, 0};
    p.window_left = p.window_right = -1;
    p.o = {o, nullptr, 256, 0, 0, 0};
    if (flashcore_attention_forward(&p, 1)) return std::printf("FAIL fp8 is refused\n"), false;
    const Format format = format_of(dtype);
    const bool has_infinity = dtype == FLASHCORE_DTYPE_FP8_E5M2;
    for (int bits = 0; bits < 256; ++bits) {
      const int exponents = 1 << format.exponent_bits, mantissas = 1 << format.mantissa_bits;
      const int exponent = bits >> format.mantissa_bits & (exponents - 1), mantissa = bits & (mantissas - 1);
      const double size = exponent == 0
                              ? std::ldexp(mantissa, 2 - exponents / 2 - format.mantissa_bits)
                              : std::ldexp(mantissas + mantissa, exponent - exponents / 2 + 1 - format.mantissa_bits);
      const bool last = exponent == exponents - 1;
      const bool nan = has_infinity ? last && mantissa != 0 : last && mantissa == mantissas - 1;
      const double want = (bits & 128 ? -1 : 1) * (has_infinity && last ? INFINITY : size);
      if (nan ? !std::isnan(o[bits]) : o[bits] != want)
        return std::printf("FAIL fp8 %02x of dtype %d is %g\n", bits, dtype, o[bits]), false;
    }
  }
  return std::printf("ok   every value of fp8\n"), true;
}

// An infinite value that a mask, a bias or a selection hides affects neither O nor its rounding.
bool hides_what_is_not_finite() {
  constexpr int S = 40, D = 20;
  bool good = true;
  for (const bool by_bias : {false, true}) {
    Random random(3);
    Tensor q(FLASHCORE_DTYPE_FP16, S * D), k(FLASHCORE_DTYPE_FP16, S * D), v(FLASHCORE_DTYPE_FP16, S * D),
        bias(FLASHCORE_DTYPE_FP32, S);
    for (Tensor* tensor : {&q, &k, &v}) random.fill(*tensor, 0, S * D);
    random.fill(bias, 0, S);
    v.infinity(30 * D + 5, false);
    std::vector<double> o(S * D);
    std::vector<float> rounding(S * D);
    flashcore_attention p = {};
    p.B = p.Hq = p.Hkv = 1;
    p.Sq = p.Skv = S;
    p.D = p.Dv = D;
    p.q = {q.bits.get(), S * D, 0, 0, D};
    p.k = {k.bits.get(), S * D, 0, 0, D};
    p.v = {v.bits.get(), S * D, 0, 0, D};
    p.o = {o.data(), rounding.data(), S * D, 0, 0, D};
    p.scale = 0.2f;
    p.window_right = -1;
    p.window_left = by_bias ? -1 : 4;
    p.causal = !by_bias;
    if (by_bias) {
      bias.infinity(30, true);
      p.bias = {bias.bits.get(), S, 0, 0, 0};
      p.bias_key_stride = 1;
      p.bias_dtype = FLASHCORE_DTYPE_FP32;
    }
    good &= flashcore_attention_forward(&p, 1) == FLASHCORE_REFERENCE_OK;
    for (int i = 0; i < S; ++i)
      for (int c = 0; c < D; ++c) {
        const bool reached = !by_bias && i >= 30 && i <= 34 && c == 5;
        good &= reached ? std::isinf(o[i * D + c]) : std::isfinite(o[i * D + c]) && std::isfinite(rounding[i * D + c]);
      }
  }
  return std::printf("%s what is hidden does not travel\n", good ? "ok  " : "FAIL"), good;
}

// A valid paged, ragged problem, and single changes that each make it invalid.
bool refuses_hostile_problems() {
  int refused = 0;
  bool good = true;
  const auto refuses = [&](const char* change, const std::function<void(Drawn&)>& spoil) {
    constexpr int KEYS = 11, PAGE = 4;
    Drawn d;
    flashcore_attention& p = d.p;
    p.B = 2, p.Hq = 4, p.Hkv = 2, p.Sq = 3, p.Skv = KEYS, p.D = 5, p.Dv = 6, p.dtype = FLASHCORE_DTYPE_BF16;
    d.q = Tensor(p.dtype, 6 * 4 * 5), d.k = Tensor(p.dtype, 6 * 2 * PAGE * 5), d.v = Tensor(p.dtype, 6 * 2 * PAGE * 6);
    d.bias = Tensor(FLASHCORE_DTYPE_FP32, 3 * KEYS);
    p.q = {d.q.bits.get(), 6 * 4 * 5, 0, 5, 4 * 5};
    p.k = {d.k.bits.get(), 6 * 2 * PAGE * 5, 2 * PAGE * 5, PAGE * 5, 5};
    p.v = {d.v.bits.get(), 6 * 2 * PAGE * 6, 2 * PAGE * 6, PAGE * 6, 6};
    p.bias = {d.bias.bits.get(), 3 * KEYS, 0, 0, KEYS};
    p.bias_key_stride = 1, p.bias_dtype = FLASHCORE_DTYPE_FP32;
    d.query_offsets = {0, 3, 6}, d.key_lengths = {11, 5}, d.page_table = {5, 0, 2, 1, 4, 3};
    d.selected = std::vector<int32_t>(6 * 2, 0);
    p.selected = {d.selected.data(), 12, 0, 0, 2};
    p.most_selected = 2;
    p.query_offsets = d.query_offsets.data(), p.key_lengths = d.key_lengths.data(), p.page_table = d.page_table.data();
    p.page_size = PAGE, p.most_pages = 3, p.window_left = p.window_right = -1, p.scale = 1;
    d.o.assign(6 * 4 * 6, UNTOUCHED), d.lse.assign(6 * 4, UNTOUCHED);
    d.o_rounding.assign(d.o.size(), UNTOUCHED), d.lse_rounding.assign(d.lse.size(), UNTOUCHED);
    p.o = {d.o.data(), d.o_rounding.data(), 6 * 4 * 6, 0, 6, 4 * 6};
    p.lse = {d.lse.data(), d.lse_rounding.data(), 6 * 4, 0, 1, 4};
    d.key_offsets = {0, 6, 12}, d.page_offsets = {0, 3, 6};
    spoil(d);
    const int want = *change ? FLASHCORE_REFERENCE_BAD_ARGUMENT : FLASHCORE_REFERENCE_OK;
    const int got = flashcore_attention_forward(&p, 2);
    const bool untouched = std::all_of(d.o.begin(), d.o.end(), [](double each) { return each == UNTOUCHED; }) &&
                           std::all_of(d.lse.begin(), d.lse.end(), [](double each) { return each == UNTOUCHED; });
    if (got == want && untouched == (*change != 0)) return void(++refused);
    good = false;
    std::printf("FAIL hostile problem, %s: returned %d%s\n", *change ? change : "unchanged", got,
                untouched ? "" : ", wrote");
  };
  refuses("", [](Drawn&) {});
  refuses("no Q", [](Drawn& d) { d.p.q.data = nullptr; });
  refuses("no K", [](Drawn& d) { d.p.k.data = nullptr; });
  refuses("no V", [](Drawn& d) { d.p.v.data = nullptr; });
  refuses("no output", [](Drawn& d) { d.p.o.value = d.p.lse.value = nullptr; });
  for (const auto extent :
       {&flashcore_attention::B, &flashcore_attention::Hq, &flashcore_attention::Hkv, &flashcore_attention::Sq,
        &flashcore_attention::Skv, &flashcore_attention::D, &flashcore_attention::Dv, &flashcore_attention::page_size,
        &flashcore_attention::most_pages, &flashcore_attention::most_selected})
    for (const int32_t value : {0, -1, INT32_MIN, INT32_MAX}) {
      if (extent == &flashcore_attention::Skv && value == INT32_MAX) continue;  // a limit on lengths is tested below
      // most_pages and B say how much of an array is read, and the caller promises that the array is long enough.
      if (value == INT32_MAX && (extent == &flashcore_attention::most_pages || extent == &flashcore_attention::B))
        continue;
      if (value == INT32_MAX && extent == &flashcore_attention::Sq) continue;
      refuses("an extent", [=](Drawn& d) { d.p.*extent = value; });
    }
  refuses("more batches than Q has", [](Drawn& d) {
    d.p.B = 1 << 20;
    d.p.query_offsets = d.p.key_lengths = d.p.page_table = nullptr;
    d.p.selected.data = nullptr;
    d.p.q.batch_stride = d.p.k.batch_stride = d.p.v.batch_stride = 1;
  });
  refuses("Hq no multiple of Hkv", [](Drawn& d) { d.p.Hq = 3; });
  refuses("Skv beyond its limit", [](Drawn& d) { d.p.Skv = INT32_MAX; });
  refuses("a product that overflows", [](Drawn& d) { d.p.Sq = INT32_MAX, d.p.D = d.p.Dv = 1 << 19; });
  for (const int32_t dtype : {-1, int32_t{FLASHCORE_DTYPE_TF32}, 6, INT32_MAX}) {
    refuses("a dtype", [=](Drawn& d) { d.p.dtype = dtype; });
    refuses("a bias dtype", [=](Drawn& d) { d.p.bias_dtype = dtype; });
    if (dtype == FLASHCORE_DTYPE_TF32) continue;
    refuses("a weight dtype", [=](Drawn& d) { d.p.weight_dtype = dtype; });
    refuses("an output dtype", [=](Drawn& d) { d.p.output_dtype = dtype; });
  }
  for (const auto tensor : {&flashcore_attention::q, &flashcore_attention::k, &flashcore_attention::v,
                            &flashcore_attention::bias, &flashcore_attention::selected}) {
    refuses("one element too few", [=](Drawn& d) { --(d.p.*tensor).count; });
    refuses("a negative count", [=](Drawn& d) { (d.p.*tensor).count = -1; });
    refuses("2^63 elements", [=](Drawn& d) { (d.p.*tensor).count = INT64_MAX; });
    refuses("a negative row stride", [=](Drawn& d) { (d.p.*tensor).row_stride = -1; });
    refuses("a negative batch stride", [=](Drawn& d) { (d.p.*tensor).batch_stride = INT64_MIN; });
    refuses("a row stride of 2^62", [=](Drawn& d) { (d.p.*tensor).row_stride = int64_t{1} << 62; });
    refuses("a negative head stride", [=](Drawn& d) { (d.p.*tensor).head_stride = -5; });
  }
  for (const auto output : {&flashcore_attention::o, &flashcore_attention::lse}) {
    refuses("an output too small", [=](Drawn& d) { --(d.p.*output).count; });
    refuses("a rounding too small", [=](Drawn& d) {
      --(d.p.*output).count;
      (d.p.*output).value = nullptr;
    });
    refuses("a negative output stride", [=](Drawn& d) { (d.p.*output).head_stride = -1; });
  }
  refuses("a bias key stride", [](Drawn& d) { d.p.bias_key_stride = -1; });
  refuses("a large bias key stride", [](Drawn& d) { d.p.bias_key_stride = INT64_MAX; });
  refuses("a page beyond the cache", [](Drawn& d) { d.page_table[1] = 6; });
  refuses("a page of -1", [](Drawn& d) { d.page_table[1] = -1; });
  refuses("the largest page", [](Drawn& d) { d.page_table[0] = INT32_MAX; });
  refuses("more keys than Skv", [](Drawn& d) { d.key_lengths[0] = 12; });
  refuses("more keys than pages hold", [](Drawn& d) { d.p.Skv = 100, d.key_lengths[0] = 13; });
  refuses("a negative length", [](Drawn& d) { d.key_lengths[1] = -1; });
  refuses("queries of descending offsets", [](Drawn& d) { d.query_offsets[1] = 7; });
  refuses("a negative offset", [](Drawn& d) { d.query_offsets[0] = -1; });
  refuses("more queries than Sq", [](Drawn& d) { d.query_offsets = {0, 2, 6}; });
  refuses("queries beyond Q", [](Drawn& d) { d.query_offsets = {0, 3, 6}, d.p.q.count -= 1; });
  refuses("pages and key offsets", [](Drawn& d) { d.p.key_offsets = d.key_offsets.data(); });
  refuses("page offsets without pages", [](Drawn& d) {
    d.p.page_table = nullptr;
    d.p.page_offsets = d.page_offsets.data();
  });
  refuses("descending page offsets",
          [](Drawn& d) { d.page_offsets = {3, 0, 6}, d.p.page_offsets = d.page_offsets.data(); });
  refuses("too few pages of a sequence",
          [](Drawn& d) { d.page_offsets = {0, 2, 5}, d.p.page_offsets = d.page_offsets.data(); });
  refuses("lengths beyond key offsets", [](Drawn& d) {
    d.p.page_table = nullptr;
    d.p.key_offsets = d.key_offsets.data();
    d.p.k.row_stride = d.p.v.row_stride = 1;
  });
  refuses("keys beyond K", [](Drawn& d) { d.p.page_table = nullptr, d.p.k.batch_stride = 6 * 2 * 4 * 5; });
  refuses("a selected key that is not there", [](Drawn& d) { d.selected[3] = 11; });
  refuses("a selected key of -2", [](Drawn& d) { d.selected[3] = -2; });
  refuses("a selected key beyond the shorter sequence", [](Drawn& d) { d.selected[6] = 5; });
  refuses("a window of -2", [](Drawn& d) { d.p.window_left = -2; });
  refuses("a right window of -2", [](Drawn& d) { d.p.window_right = -2; });
  refuses("a softcap below 0", [](Drawn& d) { d.p.softcap = -1; });
  refuses("a softcap of NaN", [](Drawn& d) { d.p.softcap = NAN; });
  refuses("an alignment", [](Drawn& d) { d.p.alignment = 2; });
  good &= flashcore_attention_forward(nullptr, 1) == FLASHCORE_REFERENCE_BAD_ARGUMENT;
  return good && std::printf("ok   %d hostile problems are refused\n", refused), good;
}

// Moves each element of Q, K, V and the sinks up and down: the loss's slope must be the gradient.
bool gradients_are_slopes() {
  constexpr int HQ = 4, HKV = 2, SQ = 5, SKV = 7, D = 3, DV = 4;
  constexpr float STEP = 0x1p-10f;
  std::vector<float> q(HQ * SQ * D), k(HKV * SKV * D), v(HKV * SKV * DV), d_o(HQ * SQ * DV), sinks(HQ), bias(SQ * SKV);
  flashcore_normals source = {11, 0, 1, 1};
  for (auto* tensor : {&q, &k, &v, &d_o, &sinks, &bias}) {
    flashcore_reference_normal(&source, FLASHCORE_DTYPE_FP32, tensor->data(), static_cast<int64_t>(tensor->size()));
    ++source.stream;
  }
  const std::vector<float> slopes = {0.1f, 0.2f, 0.3f, 0.4f};
  std::vector<double> o(d_o.size()), d_q(q.size()), d_k(k.size()), d_v(v.size()), d_sinks(HQ);
  flashcore_attention_gradients g = {};
  flashcore_attention& p = g.forward;
  p.B = 1, p.Hq = HQ, p.Hkv = HKV, p.Sq = SQ, p.Skv = SKV, p.D = D, p.Dv = DV, p.dtype = FLASHCORE_DTYPE_FP32;
  p.q = {q.data(), HQ * SQ * D, 0, SQ * D, D};
  p.k = {k.data(), HKV * SKV * D, 0, SKV * D, D};
  p.v = {v.data(), HKV * SKV * DV, 0, SKV * DV, DV};
  p.alignment = FLASHCORE_ALIGN_BOTTOM_RIGHT, p.causal = 1, p.window_left = 5, p.window_right = -1;
  p.scale = 0.7f, p.softcap = 2, p.alibi_slopes = slopes.data(), p.sinks = sinks.data();
  p.bias = {bias.data(), SQ * SKV, 0, 0, SKV};
  p.bias_key_stride = 1, p.bias_dtype = FLASHCORE_DTYPE_FP32;
  g.d_o = {d_o.data(), HQ * SQ * DV, 0, SQ * DV, DV};
  g.d_o_dtype = FLASHCORE_DTYPE_FP32;
  g.d_q = {d_q.data(), nullptr, HQ * SQ * D, 0, SQ * D, D};
  g.d_k = {d_k.data(), nullptr, HKV * SKV * D, 0, SKV * D, D};
  g.d_v = {d_v.data(), nullptr, HKV * SKV * DV, 0, SKV * DV, DV};
  g.d_sinks = d_sinks.data();
  if (flashcore_attention_backward(&g, 2)) return std::printf("FAIL the backward pass is refused\n"), false;
  flashcore_attention forward = p;
  forward.o = {o.data(), nullptr, HQ * SQ * DV, 0, SQ * DV, DV};
  const auto loss = [&] {
    flashcore_attention_forward(&forward, 1);
    return std::inner_product(o.begin(), o.end(), d_o.begin(), 0.0);
  };
  double most = 0, largest = 0;
  const auto compare = [&](std::vector<float>& input, const std::vector<double>& gradient) {
    for (size_t i = 0; i < input.size(); ++i) {
      const float value = input[i], above = value + STEP, below = value - STEP;
      input[i] = above;
      const double after = loss();
      input[i] = below;
      const double slope = (after - loss()) / (static_cast<double>(above) - below);
      input[i] = value;
      most = std::max(most, std::fabs(slope - gradient[i]));
      largest = std::max(largest, std::fabs(slope));
    }
  };
  compare(q, d_q);
  compare(k, d_k);
  compare(v, d_v);
  compare(sinks, d_sinks);
  const bool good = most < 1e-5 && largest > 0.5;
  return std::printf("%s gradients of up to %.2f, %.1e off central differences\n", good ? "ok  " : "FAIL", largest,
                     most),
         good;
}

bool refuses_hostile_gradients() {
  int refused = 0;
  bool good = true;
  const auto refuses = [&](const char* change, const std::function<void(flashcore_attention_gradients&)>& spoil) {
    float in[6] = {}, sinks[1] = {};
    double out[3][6] = {{UNTOUCHED}, {UNTOUCHED}, {UNTOUCHED}}, d_sinks[1] = {UNTOUCHED};
    flashcore_attention_gradients g = {};
    flashcore_attention& p = g.forward;
    p.B = p.Hq = p.Hkv = 1, p.Sq = p.Skv = 3, p.D = p.Dv = 2, p.dtype = FLASHCORE_DTYPE_FP32;
    p.q = p.k = p.v = g.d_o = {in, 6, 0, 0, 2};
    p.window_left = p.window_right = -1, p.scale = 1, p.sinks = sinks;
    g.d_o_dtype = FLASHCORE_DTYPE_FP32;
    g.d_q = {out[0], nullptr, 6, 0, 0, 2};
    g.d_k = {out[1], nullptr, 6, 0, 0, 2};
    g.d_v = {out[2], nullptr, 6, 0, 0, 2};
    g.d_sinks = d_sinks;
    spoil(g);
    const int want = *change ? FLASHCORE_REFERENCE_BAD_ARGUMENT : FLASHCORE_REFERENCE_OK;
    const int got = flashcore_attention_backward(&g, 1);
    const bool untouched = out[0][0] == UNTOUCHED && out[1][0] == UNTOUCHED && out[2][0] == UNTOUCHED;
    if (got == want && untouched == (*change != 0)) return void(++refused);
    good = false;
    std::printf("FAIL hostile gradients, %s: returned %d\n", *change ? change : "unchanged", got);
  };
  using Gradients = flashcore_attention_gradients;
  static const int32_t table[] = {0};
  refuses("", [](Gradients&) {});
  refuses("a forward problem", [](Gradients& g) { g.forward.D = 0; });
  refuses("no dO", [](Gradients& g) { g.d_o.data = nullptr; });
  refuses("a dO too small", [](Gradients& g) { g.d_o.count = 5; });
  refuses("a dtype of dO", [](Gradients& g) { g.d_o_dtype = FLASHCORE_DTYPE_TF32; });
  refuses("nothing wanted", [](Gradients& g) { g.d_q.value = g.d_k.value = g.d_v.value = g.d_sinks = nullptr; });
  refuses("sinks that are not there", [](Gradients& g) { g.forward.sinks = nullptr; });
  refuses("pages",
          [](Gradients& g) { g.forward.page_table = table, g.forward.page_size = 3, g.forward.most_pages = 1; });
  float rounding[6];
  for (const auto out : {&Gradients::d_q, &Gradients::d_k, &Gradients::d_v}) {
    refuses("an output too small", [=](Gradients& g) { (g.*out).count = 5; });
    refuses("a negative stride", [=](Gradients& g) { (g.*out).row_stride = -1; });
    refuses("a rounding to an unknown dtype",
            [&, out](Gradients& g) { (g.*out).rounding = rounding, g.d_q_dtype = g.d_k_dtype = g.d_v_dtype = -1; });
    refuses("a rounding without its value", [&, out](Gradients& g) {
      for (const auto each : {&Gradients::d_q, &Gradients::d_k, &Gradients::d_v}) (g.*each).value = nullptr;
      (g.*out).rounding = rounding;
    });
  }
  refuses("a rounding of sinks to an unknown dtype",
          [&](Gradients& g) { g.d_sinks_rounding = rounding, g.d_sinks_dtype = FLASHCORE_DTYPE_INT8; });
  refuses("an O too small", [&](Gradients& g) { g.o = g.d_o, g.o.count = 5; });
  refuses("a dtype of O", [&](Gradients& g) { g.o = g.d_o, g.o_dtype = FLASHCORE_DTYPE_INT8; });
  good &= flashcore_attention_backward(nullptr, 1) == FLASHCORE_REFERENCE_BAD_ARGUMENT;
  return good && std::printf("ok   %d hostile gradients are refused\n", refused), good;
}

// Parts with an LSE of -infinity have NaN for O.
bool merge_agrees(uint32_t seed) {
  Random random(seed);
  flashcore_attention_parts p = {};
  p.parts = random.from(1, 7), p.B = random.from(1, 3), p.H = random.from(1, 4), p.S = random.from(1, 120);
  p.Dv = random.from(1, 20);
  p.o_dtype = DTYPES[random.from(0, 4)], p.lse_dtype = DTYPES[random.from(0, 2)];
  p.output_dtype = DTYPES[random.from(0, 2)], p.lse_base_2 = random.one_in(2);
  lay_out(p.o, random, p.B, p.H, p.S, p.Dv);
  lay_out(p.lse, random, p.B, p.H, p.S, 1);
  lay_out(p.out_o, random, p.B, p.H, p.S, p.Dv);
  lay_out(p.out_lse, random, p.B, p.H, p.S, 1);
  p.o_part_stride = p.o.count + random.from(0, 3), p.lse_part_stride = p.lse.count;
  p.o.count += (p.parts - 1) * p.o_part_stride, p.lse.count *= p.parts;
  Tensor o(p.o_dtype, p.o.count), lse(p.lse_dtype, p.lse.count);
  p.o.data = o.bits.get(), p.lse.data = lse.bits.get();
  std::vector<double> out_o(static_cast<size_t>(p.out_o.count), UNTOUCHED),
      want_o = out_o, want_o_rounding = out_o, out_lse(static_cast<size_t>(p.out_lse.count), UNTOUCHED),
      want_lse = out_lse, want_lse_rounding = out_lse;
  std::vector<float> o_rounding(out_o.size(), UNTOUCHED), lse_rounding(out_lse.size(), UNTOUCHED);
  p.out_o.value = out_o.data(), p.out_o.rounding = o_rounding.data();
  p.out_lse.value = out_lse.data(), p.out_lse.rounding = lse_rounding.data();
  const double u_o = unit_of(p.output_dtype), smallest = smallest_of(p.output_dtype);
  for (int b = 0; b < p.B; ++b)
    for (int head = 0; head < p.H; ++head)
      for (int i = 0; i < p.S; ++i) {
        const auto at = [&](const auto& t) {
          return static_cast<size_t>(b * t.batch_stride + head * t.head_stride + i * t.row_stride);
        };
        std::vector<double> natural(p.parts);
        double total = 0;
        for (int part = 0; part < p.parts; ++part) {
          const size_t of_part = at(p.lse) + static_cast<size_t>(part * p.lse_part_stride);
          if (random.one_in(3))
            lse.infinity(of_part, true);
          else
            random.fill(lse, of_part, 1, 3),
                random.fill(o, at(p.o) + static_cast<size_t>(part * p.o_part_stride), p.Dv);
          natural[part] = lse.values[of_part] * (p.lse_base_2 ? std::log(2.0) : 1);
          total += std::exp(natural[part]);
        }
        for (int c = 0; c < p.Dv; ++c) {
          double sum = 0, squares = 0;
          for (int part = 0; part < p.parts; ++part) {
            if (natural[part] == -INFINITY) continue;
            const double each =
                std::exp(natural[part]) / total * o.values[at(p.o) + static_cast<size_t>(part * p.o_part_stride + c)];
            sum += each;
            squares += each * each;
          }
          want_o[at(p.out_o) + c] = sum;
          want_o_rounding[at(p.out_o) + c] =
              std::sqrt((std::pow(u_o * std::max(std::fabs(sum), smallest), 2) + 0x1p-42 * squares) / 3);
        }
        const double all = std::log(total), base = p.lse_base_2 ? std::log(2.0) : 1;
        want_lse[at(p.out_lse)] = all / base;
        want_lse_rounding[at(p.out_lse)] =
            total == 0 ? 0 : 0x1p-21 * std::max(std::fabs(all), 1.0) / base / std::sqrt(3.0);
      }
  const flashcore_attention_parts sound = p;
  bool good = flashcore_attention_merge(&p, random.from(1, 3)) == FLASHCORE_REFERENCE_OK &&
              agree(out_o, want_o, 1, 1e-12, true) && agree(out_lse, want_lse, 1, 1e-12, true) &&
              agree(o_rounding, want_o_rounding, 1e-9, 1e-5, true) &&
              agree(lse_rounding, want_lse_rounding, 1e-9, 1e-5, true);
  const auto refuses = [&](const std::function<void()>& spoil) {
    p = sound;
    spoil();
    good &= flashcore_attention_merge(&p, 1) == FLASHCORE_REFERENCE_BAD_ARGUMENT;
  };
  for (const auto extent :
       {&flashcore_attention_parts::parts, &flashcore_attention_parts::B, &flashcore_attention_parts::H,
        &flashcore_attention_parts::S, &flashcore_attention_parts::Dv})
    for (const int32_t value : {0, -1, INT32_MIN, INT32_MAX}) refuses([&] { p.*extent = value; });
  refuses([&] { p.o.data = nullptr; });
  refuses([&] { p.lse.data = nullptr; });
  refuses([&] { p.out_o.value = p.out_lse.value = nullptr; });
  refuses([&] { --p.o.count; });
  refuses([&] { --p.lse.count; });
  refuses([&] { --p.out_o.count; });
  refuses([&] { --p.out_lse.count; });
  refuses([&] { p.o_part_stride = -1; });
  refuses([&] { p.lse_part_stride = INT64_MIN; });
  refuses([&] { p.o.row_stride = -1; });
  refuses([&] { p.o_dtype = FLASHCORE_DTYPE_TF32; });
  refuses([&] { p.lse_dtype = -1; });
  refuses([&] { p.output_dtype = 6; });
  return good;
}

bool merges_agree() {
  for (uint32_t seed = 1; seed <= 200; ++seed)
    if (!merge_agrees(seed)) return std::printf("FAIL merge of seed %u\n", seed), false;
  return flashcore_attention_merge(nullptr, 1) == FLASHCORE_REFERENCE_BAD_ARGUMENT &&
         std::printf("ok   200 drawn merges\n");
}

float bf16(double x) {
  uint32_t bits;
  const float value = static_cast<float>(x);
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
  float rounded;
  std::memcpy(&rounded, &bits, sizeof bits);
  return rounded;
}

// Decodes one query per head as a bf16 kernel would: it rounds weights relative
// to the largest, and sums weights and products in fp32. Returns the root mean
// square of error / rounding over all heads, without the last `dropped` keys.
double decode_error(int keys, int dropped, uint32_t key) {
  constexpr int H = 8, D = 128;
  const size_t count = static_cast<size_t>(H) * keys * D;
  std::vector<uint16_t> q(H * D), k(count), v(count);
  flashcore_normals source = {key, 0, 1, 0};
  for (auto* tensor : {&q, &k, &v}) {
    flashcore_reference_normal(&source, FLASHCORE_DTYPE_BF16, tensor->data(), static_cast<int64_t>(tensor->size()));
    ++source.stream;
  }
  std::vector<double> o(H * D);
  std::vector<float> rounding(H * D);
  flashcore_attention p = {};
  p.B = p.Sq = 1, p.Hq = p.Hkv = H, p.Skv = keys, p.D = p.Dv = D, p.dtype = FLASHCORE_DTYPE_BF16;
  p.q = {q.data(), H * D, 0, D, D};
  p.k = {k.data(), static_cast<int64_t>(count), 0, int64_t{keys} * D, D};
  p.v = {v.data(), static_cast<int64_t>(count), 0, int64_t{keys} * D, D};
  p.o = {o.data(), rounding.data(), H * D, 0, D, D};
  p.window_left = p.window_right = -1;
  p.scale = 1 / std::sqrt(static_cast<float>(D));
  p.weight_dtype = p.output_dtype = FLASHCORE_DTYPE_BF16;
  if (flashcore_attention_forward(&p, 0)) return NAN;
  const auto value = [](uint16_t bits) {
    const uint32_t upper = static_cast<uint32_t>(bits) << 16;
    float of;
    std::memcpy(&of, &upper, sizeof of);
    return of;
  };
  double squares = 0;
  for (int head = 0; head < H; ++head) {
    const int read = keys - dropped;
    std::vector<float> weight(read), sums(D);
    float max = -INFINITY, total = 0;
    for (int j = 0; j < read; ++j) {
      for (int c = 0; c < D; ++c)
        weight[j] += value(q[head * D + c]) * value(k[(static_cast<size_t>(head) * keys + j) * D + c]);
      max = std::max(max, weight[j] *= p.scale);
    }
    for (int j = 0; j < read; ++j) {
      weight[j] = std::exp(weight[j] - max);
      total += weight[j];
      for (int c = 0; c < D; ++c) sums[c] += bf16(weight[j]) * value(v[(static_cast<size_t>(head) * keys + j) * D + c]);
    }
    for (int c = 0; c < D; ++c)
      squares += std::pow((bf16(sums[c] / total) - o[head * D + c]) / rounding[head * D + c], 2);
  }
  return std::sqrt(squares / (H * D));
}

bool rounding_tells_dropped_keys() {
  constexpr double LIMIT = 3;
  bool good = true;
  for (const int keys : {1024, 8192})
    for (uint32_t key = 1; key <= 3; ++key) {
      const double honest = decode_error(keys, 0, key), wrong = decode_error(keys, 16, key);
      const bool apart = honest > 0.2 && honest < LIMIT / 1.5 && wrong > LIMIT * 1.5;
      good &= apart;
      std::printf("%s bf16 decode of %d keys: error %.2f times its rounding, without the last 16 keys %.1f\n",
                  apart ? "ok  " : "FAIL", keys, honest, wrong);
    }
  return good;
}

// A backward pass in fp16: how many bits of P and dS its last three products use, and whether it subtracts delta.
struct BackwardKernel {
  const char* about;
  int weight_bits = 11, score_bits = 11;
  bool subtracts_delta = true;
  bool found = true;
};

double keep_bits(double x, int bits) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}

struct GradientErrors {
  double of_rounding = 0;  // the worst 16 rows of dQ, dK and dV
  double of_tolerance = 0;  // the worst element, where 1 is the tolerance `parity` of problems/attention_backward
};

// Computes the gradients of one head from an O that was rounded to fp16.
GradientErrors gradient_errors(const BackwardKernel& kernel, uint32_t seed) {
  constexpr int S = 48, KEYS = 80, D = 64, ROWS_TOGETHER = 16;
  Random random(seed);
  Tensor q(FLASHCORE_DTYPE_FP16, S * D), k(FLASHCORE_DTYPE_FP16, KEYS * D), v(FLASHCORE_DTYPE_FP16, KEYS * D),
      d_o(FLASHCORE_DTYPE_FP16, S * D);
  for (Tensor* tensor : {&q, &k, &v, &d_o}) random.fill(*tensor, 0, static_cast<int>(tensor->values.size()));
  struct Gradient {
    int rows;
    std::vector<double> want = std::vector<double>(rows * D), got = std::vector<double>(rows * D);
    std::vector<float> rounding = std::vector<float>(rows * D);
    flashcore_output out = {want.data(), rounding.data(), int64_t{rows} * D, 0, 0, D};
  } d_q{S}, d_k{KEYS}, d_v{KEYS};
  std::vector<double> exact_o(S * D);
  flashcore_attention_gradients g = {};
  flashcore_attention& p = g.forward;
  p.B = p.Hq = p.Hkv = 1, p.Sq = S, p.Skv = KEYS, p.D = p.Dv = D, p.dtype = FLASHCORE_DTYPE_FP16;
  p.q = {q.bits.get(), S * D, 0, 0, D};
  p.k = {k.bits.get(), KEYS * D, 0, 0, D};
  p.v = {v.bits.get(), KEYS * D, 0, 0, D};
  p.window_left = p.window_right = -1, p.scale = 0.125f;
  p.o = {exact_o.data(), nullptr, S * D, 0, 0, D};
  if (flashcore_attention_forward(&p, 0)) return {NAN, NAN};
  std::vector<float> o;
  for (const double each : exact_o) o.push_back(static_cast<float>(keep_bits(each, 11)));
  g.d_o = {d_o.bits.get(), S * D, 0, 0, D};
  g.o = {o.data(), S * D, 0, 0, D};
  g.o_dtype = FLASHCORE_DTYPE_FP32;
  g.d_q = d_q.out, g.d_k = d_k.out, g.d_v = d_v.out;
  if (flashcore_attention_backward(&g, 0)) return {NAN, NAN};

  const auto row = [](const Tensor& tensor, int index) { return tensor.values.data() + index * D; };
  const auto dot = [](const double* a, const double* b) { return std::inner_product(a, a + D, b, 0.0); };
  for (int i = 0; i < S; ++i) {
    double weights[KEYS], total = 0;
    for (int j = 0; j < KEYS; ++j) total += weights[j] = std::exp(p.scale * dot(row(q, i), row(k, j)));
    const double delta =
        kernel.subtracts_delta ? std::inner_product(row(d_o, i), row(d_o, i) + D, o.data() + i * D, 0.0) : 0;
    for (int j = 0; j < KEYS; ++j) {
      const double weight = weights[j] / total;
      const double of_score = keep_bits(weight * (dot(row(d_o, i), row(v, j)) - delta), kernel.score_bits);
      for (int c = 0; c < D; ++c) {
        d_q.got[i * D + c] += p.scale * of_score * row(k, j)[c];
        d_k.got[j * D + c] += p.scale * of_score * row(q, i)[c];
        d_v.got[j * D + c] += keep_bits(weight, kernel.weight_bits) * row(d_o, i)[c];
      }
    }
  }
  GradientErrors worst;
  for (const Gradient* of : {&d_q, &d_k, &d_v})
    for (int first = 0; first < of->rows; first += ROWS_TOGETHER) {
      double squares = 0;
      for (int at = first * D; at < (first + ROWS_TOGETHER) * D; ++at) {
        const double error = std::fabs(keep_bits(of->got[at], 11) - of->want[at]);
        squares += std::pow(error / of->rounding[at], 2);
        worst.of_tolerance =
            std::max(worst.of_tolerance, error / ((of == &d_k ? 1.2e-2 : 6e-3) + 4e-3 * std::fabs(of->want[at])));
      }
      worst.of_rounding = std::max(worst.of_rounding, std::sqrt(squares / (ROWS_TOGETHER * D)));
    }
  return worst;
}

bool rounding_tells_wrong_gradients() {
  constexpr double LIMIT = 2;
  constexpr uint32_t SEEDS = 100;
  bool good = true;
  for (const BackwardKernel& kernel : {BackwardKernel{"an honest kernel", 11, 11, true, false},
                                       {"P in bf16", 8, 11},
                                       {"dS in bf16", 11, 8},
                                       {"dS in e4m3", 11, 4},
                                       {"delta forgotten", 11, 11, false}}) {
    double least = INFINITY, most = 0, of_tolerance = 0;
    for (uint32_t seed = 1; seed <= SEEDS; ++seed) {
      const GradientErrors errors = gradient_errors(kernel, seed);
      least = std::min(least, errors.of_rounding);
      most = std::max(most, errors.of_rounding);
      of_tolerance = std::max(of_tolerance, errors.of_tolerance);
    }
    const bool apart = kernel.found ? least > 1.5 * LIMIT : least > 0.2 && most < LIMIT / 1.5;
    good &= apart;
    std::printf("%s fp16 gradients, %s: error %.2f to %.2f times its rounding, at most %.2f of the tolerance\n",
                apart ? "ok  " : "FAIL", kernel.about, least, most, of_tolerance);
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const auto seed = static_cast<uint32_t>(argc > 1 ? std::atoi(argv[1]) : 1);
  bool good = drawn_problems_agree(seed, argc > 2 ? std::atoi(argv[2]) : 1000);
  for (const auto check :
       {knows_every_fp8, hides_what_is_not_finite, refuses_hostile_problems, gradients_are_slopes,
        refuses_hostile_gradients, merges_agree, rounding_tells_dropped_keys, rounding_tells_wrong_gradients})
    good &= check();
  return good ? 0 : 1;
}
