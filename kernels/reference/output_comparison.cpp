// Compares rows; output_comparison.h documents the results. Threads take groups of heads. The number of groups depends
// only on the shape, and their figures are added in order, so that every host gets the same sums. Rows that have only
// finite elements go through loops that the compiler vectorizes.
#include "output_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "attention_reference.h"
#include "blocked.h"
#include "elements.h"

namespace {

constexpr double SMALLEST_NORMAL_FP16 = 0x1p-14;
// Divides an error where nothing is tolerated.
constexpr double SMALLEST_LIMIT = std::numeric_limits<double>::min();
constexpr double INFINITE = std::numeric_limits<double>::infinity();

struct Comparison : flashcore_compared, flashcore_comparison_rules, flashcore_comparison {};

// How many heads a task has: about 2^16 elements, which take a thread a few tenths of a millisecond, but at least one
// head.
int64_t heads_of_task(int64_t S, int64_t D) { return std::max<int64_t>(1, (1 << 16) / (S * D)); }

// Compares some heads.
class Rows {
 public:
  explicit Rows(const Comparison& comparison)
      : c(comparison),
        columns((c.D + c.block_columns - 1) / c.block_columns),
        blocks(static_cast<size_t>((c.S + c.block_rows - 1) / c.block_rows) * columns),
        value(c.D),
        error(c.D),
        of_limit(c.D) {
    std::fill_n(c.figures, FLASHCORE_COMPARED_FIGURES, 0.0);
    c.figures[FLASHCORE_COMPARED_WORST_INDEX] = -1;
    // -1 is below every error, so that each block names an element even if all are exact.
    std::fill_n(c.map, blocks, -1.0);
    std::fill_n(c.map_index, blocks, 0.0);
  }

  // Compares these heads. Returns the errors of the finite elements.
  std::vector<float> compare(int64_t first_head, int64_t last_head) {
    errors.reserve(static_cast<size_t>(last_head - first_head) * c.S * c.D);
    for (int64_t head = first_head; head < last_head; ++head) {
      if (c.head_map) std::fill_n(c.head_map + head * blocks, blocks, 0.0f);
      for (int32_t row = 0; row < c.S; ++row) this->row(head, row);
    }
    return std::move(errors);
  }

 private:
  void row(int64_t head, int32_t row) {
    const int64_t base = (head * c.S + row) * c.D;
    const double* want = c.want + base;
    double most = 0;
    bool finite = true;
    unpack(c.dtype, c.got, static_cast<size_t>(base), c.D, value.data());
    for (int32_t d = 0; d < c.D; ++d) {
      error[d] = std::fabs(value[d] - want[d]);
      finite &= error[d] < INFINITE;
      most = error[d] > most ? error[d] : most;
    }
    if (!finite) return element_by_element(head, row, base);
    double *const figures = c.figures, wanted = figures[FLASHCORE_COMPARED_WANT_SQUARES],
                  written = figures[FLASHCORE_COMPARED_GOT_SQUARES], sum = figures[FLASHCORE_COMPARED_SUM_ABS],
                  squares = figures[FLASHCORE_COMPARED_SUM_SQUARE];
    for (int32_t d = 0; d < c.D; ++d) {
      wanted += want[d] * want[d];
      written += value[d] * value[d];
      sum += error[d];
      squares += error[d] * error[d];
    }
    figures[FLASHCORE_COMPARED_WANT_SQUARES] = wanted;
    figures[FLASHCORE_COMPARED_GOT_SQUARES] = written;
    figures[FLASHCORE_COMPARED_SUM_ABS] = sum;
    figures[FLASHCORE_COMPARED_SUM_SQUARE] = squares;
    double relative = figures[FLASHCORE_COMPARED_MAX_REL];
    int outside = 0;
    for (int32_t d = 0; d < c.D; ++d) {
      const double size = std::fabs(want[d]), share = error[d] / std::max(size, SMALLEST_NORMAL_FP16);
      relative = share > relative ? share : relative;
      const double tolerated = c.absolute + c.relative * size;
      outside += error[d] > tolerated;  // rounding may explain it
      of_limit[d] = error[d] / std::max(tolerated, SMALLEST_LIMIT);
    }
    figures[FLASHCORE_COMPARED_MAX_REL] = relative;
    if (outside > 0 && c.rounding)
      for (int32_t d = 0; d < c.D; ++d) of_limit[d] = share_of_limit(error[d], base + d);
    for (int32_t d = 0; outside > 0 && d < c.D; ++d) {
      if (is_outside(error[d], base + d)) note_number(base + d);
    }
    errors.insert(errors.end(), error.begin(), error.end());
    figures[FLASHCORE_COMPARED_MAX_ABS] = std::max(figures[FLASHCORE_COMPARED_MAX_ABS], most);
    const auto worst = std::max_element(of_limit.begin(), of_limit.end());
    note_worst(*worst, base + (worst - of_limit.begin()));
    for (int32_t column = 0; column < columns; ++column) {
      const int32_t begin = column * c.block_columns, end = std::min(c.D, begin + c.block_columns);
      double largest = error[begin];
      for (int32_t d = begin + 1; d < end; ++d) largest = error[d] > largest ? error[d] : largest;
      const size_t block = static_cast<size_t>(row / c.block_rows) * columns + column;
      if (largest > c.map[block]) {
        const auto place = std::find(error.begin() + begin, error.begin() + end, largest) - error.begin();
        c.map[block] = largest;
        c.map_index[block] = static_cast<double>(base + place);
      }
      if (c.head_map && largest > c.head_map[head * blocks + block])
        c.head_map[head * blocks + block] = static_cast<float>(largest);
    }
  }

  void element_by_element(int64_t head, int32_t row, int64_t base) {
    double* const figures = c.figures;
    for (int32_t d = 0; d < c.D; ++d) {
      const double want = c.want[base + d], size = std::fabs(want);
      const bool infinite = std::isinf(want);
      const double each = infinite && value[d] == want ? 0 : error[d];
      if (!infinite) figures[FLASHCORE_COMPARED_WANT_SQUARES] += want * want;
      const size_t block = static_cast<size_t>(row / c.block_rows) * columns + d / c.block_columns;
      if (!(each < INFINITE)) {
        if (bits_at(base + d) == c.poison)
          ++figures[FLASHCORE_COMPARED_UNWRITTEN];
        else if (!std::isfinite(value[d]))
          ++figures[std::isnan(value[d]) ? FLASHCORE_COMPARED_NAN : FLASHCORE_COMPARED_INF];
        note(base + d);
        add(head, block, base + d, std::numeric_limits<double>::quiet_NaN());
        continue;
      }
      if (!infinite) figures[FLASHCORE_COMPARED_GOT_SQUARES] += value[d] * value[d];
      errors.push_back(static_cast<float>(each));
      figures[FLASHCORE_COMPARED_SUM_ABS] += each;
      figures[FLASHCORE_COMPARED_SUM_SQUARE] += each * each;
      figures[FLASHCORE_COMPARED_MAX_ABS] = std::max(figures[FLASHCORE_COMPARED_MAX_ABS], each);
      note_worst(infinite ? 0 : share_of_limit(each, base + d), base + d);
      const double share = infinite ? 0 : each / std::max(size, SMALLEST_NORMAL_FP16);
      if (share > figures[FLASHCORE_COMPARED_MAX_REL]) figures[FLASHCORE_COMPARED_MAX_REL] = share;
      if (is_outside(each, base + d)) note_number(base + d);
      add(head, block, base + d, each);
    }
  }

  bool is_outside(double each, int64_t index) const {
    if (!(each > c.absolute + c.relative * std::fabs(c.want[index]))) return false;
    return !c.rounding || each > c.explained * double{c.rounding[index]};
  }

  double share_of_limit(double each, int64_t index) const {
    const double tolerated = c.absolute + c.relative * std::fabs(c.want[index]);
    const double explained = c.rounding ? c.explained * double{c.rounding[index]} : 0;
    return each / std::max({tolerated, explained, SMALLEST_LIMIT});
  }

  void note_worst(double of_limit, int64_t index) {
    if (c.figures[FLASHCORE_COMPARED_WORST_INDEX] >= 0 && !(of_limit > c.figures[FLASHCORE_COMPARED_WORST_OF_LIMIT]))
      return;
    c.figures[FLASHCORE_COMPARED_WORST_OF_LIMIT] = of_limit;
    c.figures[FLASHCORE_COMPARED_WORST_INDEX] = static_cast<double>(index);
  }

  uint32_t bits_at(int64_t index) const {
    if (c.dtype == FLASHCORE_DTYPE_FP32) return static_cast<const uint32_t*>(c.got)[index];
    if (c.dtype == FLASHCORE_DTYPE_FP16 || c.dtype == FLASHCORE_DTYPE_BF16)
      return static_cast<const uint16_t*>(c.got)[index];
    return static_cast<const uint8_t*>(c.got)[index];
  }

  void note(int64_t index) {
    const auto before = static_cast<int64_t>(c.figures[FLASHCORE_COMPARED_MISMATCHES]++);
    if (before < c.listed) c.first[before] = static_cast<double>(index);
  }

  // An int8 that was never written looks like any other number, so only a wrong one can be found.
  void note_number(int64_t index) {
    note(index);
    c.figures[FLASHCORE_COMPARED_UNWRITTEN] += c.dtype == FLASHCORE_DTYPE_INT8 && bits_at(index) == c.poison;
  }

  // Keeps a NaN, because no comparison with NaN is true.
  void add(int64_t head, size_t block, int64_t index, double each) {
    if (each > c.map[block] || (std::isnan(each) && !std::isnan(c.map[block]))) {
      c.map[block] = each;
      c.map_index[block] = static_cast<double>(index);
    }
    if (!c.head_map) return;
    float& most = c.head_map[head * blocks + block];
    if (each > most || std::isnan(each)) most = static_cast<float>(each);
  }

  const Comparison& c;
  const int32_t columns;
  const size_t blocks;
  std::vector<double> value, error, of_limit;
  std::vector<float> errors;
};

// The results of a task, in separate memory.
struct Part {
  std::vector<double> figures, first, map, map_index;
  std::vector<float> errors;
};

// Adds the results of a part to those in `c`. The part's heads follow the heads that `c` already has.
void append(const Comparison& c, const Part& part) {
  const auto found = static_cast<int64_t>(c.figures[FLASHCORE_COMPARED_MISMATCHES]);
  for (int64_t i = found; i < c.listed; ++i) c.first[i] = part.first[i - found];
  const double most = std::max(c.figures[FLASHCORE_COMPARED_MAX_ABS], part.figures[FLASHCORE_COMPARED_MAX_ABS]);
  const bool is_worse = c.figures[FLASHCORE_COMPARED_WORST_INDEX] < 0 ||
                        part.figures[FLASHCORE_COMPARED_WORST_OF_LIMIT] > c.figures[FLASHCORE_COMPARED_WORST_OF_LIMIT];
  const double* const worse = is_worse ? part.figures.data() : c.figures;
  const double worst = worse[FLASHCORE_COMPARED_WORST_INDEX], of_limit = worse[FLASHCORE_COMPARED_WORST_OF_LIMIT];
  const double relative = std::max(c.figures[FLASHCORE_COMPARED_MAX_REL], part.figures[FLASHCORE_COMPARED_MAX_REL]);
  for (int i = 0; i < FLASHCORE_COMPARED_FIGURES; ++i) c.figures[i] += part.figures[i];
  c.figures[FLASHCORE_COMPARED_MAX_ABS] = most;
  c.figures[FLASHCORE_COMPARED_WORST_INDEX] = worst;
  c.figures[FLASHCORE_COMPARED_WORST_OF_LIMIT] = of_limit;
  c.figures[FLASHCORE_COMPARED_MAX_REL] = relative;
  for (size_t block = 0; block < part.map.size(); ++block) {
    const double most_here = part.map[block];
    // Keeps a NaN, because no comparison with NaN is true.
    if (!(most_here > c.map[block] || (std::isnan(most_here) && !std::isnan(c.map[block])))) continue;
    c.map[block] = most_here;
    c.map_index[block] = part.map_index[block];
  }
}

// The n-th smallest (from 0) of floats that are not negative: their bits have the
// same order as their values. Only few have the same upper 16 bits as the result.
float nth_smallest(const std::vector<Part>& parts, size_t n) {
  std::vector<uint32_t> buckets(1 << 15);
  for (const Part& part : parts)
    for (const float value : part.errors) ++buckets[float_to_bits(value) >> 16];
  uint32_t bucket = 0;
  while (n >= buckets[bucket]) n -= buckets[bucket++];
  std::vector<float> among;
  among.reserve(buckets[bucket]);
  for (const Part& part : parts)
    for (const float value : part.errors)
      if (float_to_bits(value) >> 16 == bucket) among.push_back(value);
  std::nth_element(among.begin(), among.begin() + static_cast<std::ptrdiff_t>(n), among.end());
  return among[n];
}

// Returns false if out of memory.
bool compare(const Comparison& c) {
  const size_t blocks =
      static_cast<size_t>((c.S + c.block_rows - 1) / c.block_rows) * ((c.D + c.block_columns - 1) / c.block_columns);
  const int64_t of_task = heads_of_task(c.S, c.D), tasks = (c.heads + of_task - 1) / of_task;
  std::vector<Part> parts(static_cast<size_t>(tasks));
  const bool done = in_parallel(tasks, ALL_THREADS, [&] {
    return [&](int64_t task) {
      Part& part = parts[static_cast<size_t>(task)];
      part.figures.resize(FLASHCORE_COMPARED_FIGURES);
      part.first.resize(static_cast<size_t>(c.listed));
      part.map.resize(blocks);
      part.map_index.resize(blocks);
      Comparison own = c;
      own.figures = part.figures.data();
      own.first = part.first.data();
      own.map = part.map.data();
      own.map_index = part.map_index.data();
      part.errors = Rows(own).compare(task * of_task, std::min(c.heads, (task + 1) * of_task));
    };
  });
  if (!done) return false;
  std::copy(parts[0].figures.begin(), parts[0].figures.end(), c.figures);
  std::copy(parts[0].first.begin(), parts[0].first.end(), c.first);
  std::copy(parts[0].map.begin(), parts[0].map.end(), c.map);
  std::copy(parts[0].map_index.begin(), parts[0].map_index.end(), c.map_index);
  size_t finite = parts[0].errors.size();
  for (size_t i = 1; i < parts.size(); ++i) {
    append(c, parts[i]);
    finite += parts[i].errors.size();
  }
  if (finite == 0) return true;
  const auto rank = static_cast<size_t>(std::max(0.0, std::ceil(static_cast<double>(finite) * 0.999) - 1));
  c.figures[FLASHCORE_COMPARED_P999_ABS] = nth_smallest(parts, std::min(finite - 1, rank));
  return true;
}

bool is_sound(const flashcore_compared* o) {
  return o && comparable_dtype(o->dtype) && o->got && o->want && o->heads >= 1 && o->S >= 1 && o->D >= 1;
}

struct BlockRatio {
  double ratio;
  int64_t index;
};

}  // namespace

int flashcore_compare_output(const flashcore_compared* output, const flashcore_comparison_rules* rules,
                             const flashcore_comparison* results) {
  if (!is_sound(output) || !rules || !results || !results->figures || !results->first || !results->map ||
      !results->map_index || rules->block_rows < 1 || rules->block_columns < 1 || rules->listed < 0)
    return FLASHCORE_REFERENCE_BAD_ARGUMENT;
  try {
    return compare({*output, *rules, *results}) ? FLASHCORE_REFERENCE_OK : FLASHCORE_REFERENCE_OUT_OF_MEMORY;
  } catch (const std::bad_alloc&) {
    return FLASHCORE_REFERENCE_OUT_OF_MEMORY;
  }
}

int flashcore_max_abs_error(const flashcore_compared* output, double* out) {
  if (!is_sound(output) || !out) return FLASHCORE_REFERENCE_BAD_ARGUMENT;
  const flashcore_compared o = *output;
  const int64_t count = o.heads * o.S * o.D;
  double most = 0;
  constexpr int AT_ONCE = 1024;
  double value[AT_ONCE];
  for (int64_t first = 0; first < count; first += AT_ONCE) {
    const auto some = static_cast<int>(std::min<int64_t>(AT_ONCE, count - first));
    unpack(o.dtype, o.got, static_cast<size_t>(first), some, value);
    for (int i = 0; i < some; ++i) {
      const double error = std::fabs(value[i] - o.want[first + i]);
      most = error > most ? error : most;
    }
  }
  *out = most;
  return FLASHCORE_REFERENCE_OK;
}

int flashcore_rounding_ratio(const flashcore_compared* output, int32_t least_rows, double* out) {
  if (!is_sound(output) || !output->rounding || !out) return FLASHCORE_REFERENCE_BAD_ARGUMENT;
  const flashcore_compared o = *output;
  constexpr int BLOCK_ROWS = 16;
  // How much larger the error of a single row or column may be, and the fewest elements over which it is averaged.
  constexpr double OF_ONE = 2;
  constexpr int64_t LEAST_OF_ONE = 16;
  const auto root_mean = [](double squares, int64_t count) { return std::sqrt(squares / static_cast<double>(count)); };
  const int64_t of_task = heads_of_task(o.S, o.D), tasks = (o.heads + of_task - 1) / of_task;
  try {
    std::vector<BlockRatio> worst(static_cast<size_t>(tasks));
    const bool done = in_parallel(tasks, ALL_THREADS, [&] {
      const auto D = static_cast<size_t>(o.D);
      return [&, value = std::vector<double>(D), columns = std::vector<double>(D)](int64_t task) mutable {
        BlockRatio& most = worst[static_cast<size_t>(task)];
        const auto raise = [&most](double ratio, int64_t index) {
          if (ratio > most.ratio) most = {ratio, index};
        };
        for (int64_t head = task * of_task; head < std::min(o.heads, (task + 1) * of_task); ++head) {
          std::fill(columns.begin(), columns.end(), 0.0);
          for (int32_t first = 0; first < o.S; first += BLOCK_ROWS) {
            double squares = 0, of_row = 0;
            int64_t counted = 0;
            for (int32_t row = first; row < std::min(o.S, first + BLOCK_ROWS); ++row) {
              const int64_t base = (head * o.S + row) * o.D;
              unpack(o.dtype, o.got, static_cast<size_t>(base), o.D, value.data());
              const double before = squares;
              for (int32_t d = 0; d < o.D; ++d) {
                const double error = value[d] - o.want[base + d], share = error == 0 ? 0 : error / o.rounding[base + d];
                const bool finite = std::fabs(error) < INFINITE;
                squares += finite ? share * share : 0;
                columns[static_cast<size_t>(d)] += finite ? share * share : 0;
                counted += finite;
              }
              of_row = std::max(of_row, squares - before);
            }
            if (least_rows == 0)
              raise(root_mean(of_row, std::max<int64_t>(o.D, LEAST_OF_ONE)) / OF_ONE, (head * o.S + first) * o.D);
            const int64_t of = std::max(counted, int64_t{least_rows} * o.D);
            if (counted > 0) raise(root_mean(squares, of), (head * o.S + first) * o.D);
          }
          if (least_rows > 0) continue;
          for (int32_t d = 0; d < o.D; ++d)
            raise(root_mean(columns[static_cast<size_t>(d)], std::max<int64_t>(o.S, LEAST_OF_ONE)) / OF_ONE,
                  head * o.S * o.D + d);
        }
      };
    });
    if (!done) return FLASHCORE_REFERENCE_OUT_OF_MEMORY;
    BlockRatio most = {};
    for (const BlockRatio& each : worst)
      if (each.ratio > most.ratio) most = each;
    out[0] = most.ratio;
    out[1] = static_cast<double>(most.index);
    return FLASHCORE_REFERENCE_OK;
  } catch (const std::bad_alloc&) {
    return FLASHCORE_REFERENCE_OUT_OF_MEMORY;
  }
}
