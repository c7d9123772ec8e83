// Validates a flashcore_attention and plans its computation: which rows and keys its sequences
// own, where they are, which rows see which keys, and the tasks into which the work is divided.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "attention_reference.h"
#include "blocked.h"
#include "elements.h"

// Rows that a thread takes at a time, so that unpacking K and V is 1/256 of a task.
constexpr int ROWS_PER_TASK = 256;
// The most scores, or other elements, of a task: 16 MiB of doubles.
constexpr int64_t MOST_OF_TASK = 1 << 21;
constexpr int32_t MOST_KEYS = 1 << 24, MOST_COLUMNS = 1 << 20;
constexpr double MOST_ELEMENTS = 0x1p40;

struct Roundoff {
  double unit, smallest;
  bool relative;  // `smallest` is a share of the largest weight
};

inline Roundoff roundoff_of(int dtype) {
  // For types with fp32's exponents: arithmetic may flush subnormal numbers to 0, an error of up to 2^-126.
  constexpr double FLUSHED = 0x1p-126;
  switch (dtype) {
    case FLASHCORE_DTYPE_FP16: return {0x1p-11, 0x1p-14, false};
    case FLASHCORE_DTYPE_BF16: return {0x1p-8, FLUSHED / 0x1p-8, false};
    case FLASHCORE_DTYPE_TF32: return {0x1p-11, FLUSHED / 0x1p-11, false};
    case FLASHCORE_DTYPE_FP8_E4M3: return {0x1p-4, 0x1p-6, true};
    case FLASHCORE_DTYPE_FP8_E5M2: return {0x1p-3, 0x1p-14, true};
    default: return {0x1p-24, FLUSHED / 0x1p-24, false};
  }
}

// Whether element (batch, head, row, columns - 1) lies within the tensor. Exact: every number that matters is below
// 2^53.
template <typename Tensor>
bool holds(const Tensor& tensor, double batch, double head, double row, double columns) {
  return tensor.batch_stride >= 0 && tensor.head_stride >= 0 && tensor.row_stride >= 0 &&
         static_cast<double>(tensor.count) < 0x1p50 &&
         batch * static_cast<double>(tensor.batch_stride) + head * static_cast<double>(tensor.head_stride) +
                 row * static_cast<double>(tensor.row_stride) + columns <=
             static_cast<double>(tensor.count);
}

struct Keys {
  int64_t begin, end;
  bool empty() const { return begin >= end; }
};

// Rows [first, last) of a key head of a sequence. Row r is query r / group, of query head number r % group among those
// that read the key head, so that neighboring rows see nearly the same keys.
struct Task {
  int32_t b, kv_head;
  int64_t first, last;
};

class Plan {
 public:
  const flashcore_attention& p;
  const int group;  // query heads of a key head
  bool sound;  // if false, the other members are meaningless
  int64_t most_keys = 1, tasks = 0;

  explicit Plan(const flashcore_attention& problem)
      : p(problem), group(problem.Hkv > 0 ? problem.Hq / problem.Hkv : 0), sound(extents() && options()) {
    if (sound) sound = sequences();
    if (!sound) return;
    const int64_t widest = std::max<int64_t>({most_keys, p.D, p.Dv});
    rows_per_task = static_cast<int>(std::clamp<int64_t>(MOST_OF_TASK / widest / ROWS * ROWS, ROWS, ROWS_PER_TASK));
    tasks_before.push_back(0);
    for (int32_t b = 0; b < p.B; ++b) tasks_before.push_back(tasks += p.Hkv * tasks_of_head(b));
  }

  int64_t rows(int32_t b) const {
    return p.query_offsets ? int64_t{p.query_offsets[b + 1]} - p.query_offsets[b] : p.Sq;
  }
  int64_t keys(int32_t b) const {
    if (p.key_lengths) return p.key_lengths[b];
    return p.key_offsets ? int64_t{p.key_offsets[b + 1]} - p.key_offsets[b] : p.Skv;
  }

  // Whether a tensor in Q's order, or one in K's order without pages, has all rows that sequences own.
  template <typename Tensor>
  bool has_queries(const Tensor& tensor, int32_t columns) const {
    for (int32_t b = 0; b < p.B; ++b)
      if (rows(b) > 0 && !has_query(tensor, b, rows(b) - 1, columns)) return false;
    return true;
  }
  template <typename Tensor>
  bool has_keys(const Tensor& tensor, int32_t columns) const {
    for (int32_t b = 0; b < p.B; ++b)
      if (keys(b) > 0 && !has_key(tensor, b, keys(b) - 1, columns)) return false;
    return true;
  }

  // The most rows of a task, rounded up to groups of ROWS.
  int task_rows() const {
    const int64_t most = std::min<int64_t>(rows_per_task, int64_t{p.Sq} * group);
    return static_cast<int>((most + ROWS - 1) / ROWS * ROWS);
  }

  Task task(int64_t index) const {
    const auto after = std::upper_bound(tasks_before.begin(), tasks_before.end(), index);
    const auto b = static_cast<int32_t>(after - tasks_before.begin() - 1);
    const int64_t of_sequence = index - tasks_before[b], of_head = of_sequence % tasks_of_head(b);
    const int64_t part = of_head / tasks_of_part(b), begin = part * part_rows(b);
    const int64_t first = begin + of_head % tasks_of_part(b) * rows_per_task;
    return {b, static_cast<int32_t>(of_sequence / tasks_of_head(b)), first,
            std::min(first + rows_per_task, begin + part_rows(b))};
  }

  // Index of the first element of a query's row in a tensor of Q's order.
  template <typename Tensor>
  size_t query_at(const Tensor& tensor, int32_t b, int64_t head, int64_t query) const {
    const int64_t first = p.query_offsets ? p.query_offsets[b] * tensor.row_stride : b * tensor.batch_stride;
    return static_cast<size_t>(first + head * tensor.head_stride + query * tensor.row_stride);
  }

  // Index of the first element of a key's row in K, V or a tensor in their order.
  template <typename Tensor>
  size_t key_at(const Tensor& tensor, int32_t b, int64_t kv_head, int64_t key) const {
    int64_t first = b * tensor.batch_stride, row = key;
    if (p.page_table) {
      first = p.page_table[page_index(b) + key / p.page_size] * tensor.batch_stride;
      row = key % p.page_size;
    } else if (p.key_offsets) {
      first = p.key_offsets[b] * tensor.row_stride;
    }
    return static_cast<size_t>(first + kv_head * tensor.head_stride + row * tensor.row_stride);
  }

  int64_t position(int32_t b, int64_t query) const {
    return p.alignment == FLASHCORE_ALIGN_BOTTOM_RIGHT ? query + keys(b) - rows(b) : query;
  }

  // Keys that the masks let a query see.
  Keys visible(int32_t b, int64_t query) const {
    const int64_t at = position(b, query);
    Keys seen = {0, keys(b)};
    if (p.causal) seen.end = std::min(seen.end, at + 1);
    if (p.window_right >= 0) seen.end = std::min(seen.end, at + p.window_right + 1);
    if (p.window_left >= 0) seen.begin = std::max(seen.begin, at - p.window_left);
    return seen;
  }

 private:
  int rows_per_task = 0;
  std::vector<int64_t> tasks_before;

  // If keys are selected, all rows of a part use the same list.
  int64_t part_rows(int32_t b) const { return p.selected.data ? group : rows(b) * group; }
  int64_t tasks_of_part(int32_t b) const { return (part_rows(b) + rows_per_task - 1) / rows_per_task; }
  int64_t tasks_of_head(int32_t b) const { return (p.selected.data ? rows(b) : 1) * tasks_of_part(b); }

  int64_t page_index(int32_t b) const { return p.page_offsets ? p.page_offsets[b] : int64_t{b} * p.most_pages; }

  bool extents() const {
    const double columns = std::max(p.D, p.Dv);
    return p.B >= 1 && p.Hq >= 1 && p.Hkv >= 1 && p.Sq >= 1 && p.Skv >= 1 && p.D >= 1 && p.Dv >= 1 &&
           p.Hq % p.Hkv == 0 && p.D <= MOST_COLUMNS && p.Dv <= MOST_COLUMNS && p.Skv <= MOST_KEYS &&
           static_cast<double>(p.B) * p.Hq * p.Sq * columns < MOST_ELEMENTS &&
           static_cast<double>(p.B) * p.Hkv * p.Skv * columns < MOST_ELEMENTS;
  }

  bool options() const {
    const auto stored = [](int dtype) { return known_dtype(dtype) || is_fp8(dtype); };
    const auto rounded_to = [&](int dtype) { return stored(dtype) || dtype == FLASHCORE_DTYPE_TF32; };
    const bool rounding = p.o.rounding || p.lse.rounding;
    return p.q.data && p.k.data && p.v.data && stored(p.dtype) && p.softcap >= 0 && p.window_left >= -1 &&
           p.window_right >= -1 &&
           (p.alignment == FLASHCORE_ALIGN_TOP_LEFT || p.alignment == FLASHCORE_ALIGN_BOTTOM_RIGHT) &&
           (!p.bias.data || (stored(p.bias_dtype) && p.bias_key_stride >= 0)) &&
           (!rounding || (rounded_to(p.weight_dtype) && rounded_to(p.output_dtype))) &&
           (!p.page_table || (!p.key_offsets && p.page_size >= 1 && (p.page_offsets || p.most_pages >= 1))) &&
           (p.page_table || !p.page_offsets) &&
           (!p.selected.data || (p.most_selected >= 1 && p.most_selected <= MOST_KEYS));
  }

  bool sequences() {
    for (const int32_t* offsets : {p.query_offsets, p.key_offsets, p.page_offsets})
      for (int32_t b = 0; offsets && b < p.B; ++b)
        if (offsets[b] < 0 || offsets[b + 1] < offsets[b]) return false;
    most_keys = p.selected.data ? p.most_selected : 1;
    for (int32_t b = 0; b < p.B; ++b) {
      if (rows(b) > p.Sq || keys(b) > p.Skv || keys(b) < 0) return false;
      if (!p.selected.data) most_keys = std::max(most_keys, keys(b));
      if (rows(b) > 0 && !(rows_inside(b) && selection_inside(b))) return false;
      if (keys(b) > 0 && !keys_inside(b)) return false;
    }
    return true;
  }

  // Checks the last head, whose rows are farthest from the start of the tensor.
  template <typename Tensor>
  bool has_query(const Tensor& tensor, int32_t b, int64_t query, int32_t columns) const {
    const double first = p.query_offsets ? p.query_offsets[b] : 0, batch = p.query_offsets ? 0 : b;
    return holds(tensor, batch, p.Hq - 1, first + static_cast<double>(query), columns);
  }
  template <typename Tensor>
  bool has_key(const Tensor& tensor, int32_t b, int64_t key, int32_t columns) const {
    const double first = p.key_offsets ? p.key_offsets[b] : 0, batch = p.key_offsets ? 0 : b;
    return holds(tensor, batch, p.Hkv - 1, first + static_cast<double>(key), columns);
  }

  bool rows_inside(int32_t b) const {
    const int64_t last = rows(b) - 1;
    const auto written = [&](const flashcore_output& out, int32_t columns) {
      return (!out.value && !out.rounding) || has_query(out, b, last, columns);
    };
    const double key = static_cast<double>(std::max<int64_t>(keys(b), 1) - 1);
    return has_query(p.q, b, last, p.D) && written(p.o, p.Dv) && written(p.lse, 1) &&
           (!p.bias.data ||
            holds(p.bias, b, p.Hq - 1, static_cast<double>(last), key * static_cast<double>(p.bias_key_stride) + 1));
  }

  bool selection_inside(int32_t b) const {
    if (!p.selected.data) return true;
    const double first = p.query_offsets ? p.query_offsets[b] : 0, batch = p.query_offsets ? 0 : b;
    if (!holds(p.selected, batch, p.Hkv - 1, first + static_cast<double>(rows(b) - 1), p.most_selected)) return false;
    for (int64_t head = 0; head < p.Hkv; ++head)
      for (int64_t query = 0; query < rows(b); ++query) {
        const int32_t* list = static_cast<const int32_t*>(p.selected.data) + query_at(p.selected, b, head, query);
        for (int32_t i = 0; i < p.most_selected; ++i)
          if (list[i] < -1 || list[i] >= keys(b)) return false;
      }
    return true;
  }

  bool keys_inside(int32_t b) const {
    if (!p.page_table) {
      if (p.key_offsets && keys(b) > int64_t{p.key_offsets[b + 1]} - p.key_offsets[b]) return false;
      return has_key(p.k, b, keys(b) - 1, p.D) && has_key(p.v, b, keys(b) - 1, p.Dv);
    }
    const int64_t pages = (keys(b) + p.page_size - 1) / p.page_size;
    if (pages > (p.page_offsets ? int64_t{p.page_offsets[b + 1]} - p.page_offsets[b] : p.most_pages)) return false;
    for (int64_t page = 0; page < pages; ++page) {
      const int32_t entry = p.page_table[page_index(b) + page];
      const int64_t used = std::min<int64_t>(p.page_size, keys(b) - page * p.page_size);
      const double slot = static_cast<double>(used - 1);
      if (entry < 0 || !holds(p.k, entry, p.Hkv - 1, slot, p.D) || !holds(p.v, entry, p.Hkv - 1, slot, p.Dv))
        return false;
    }
    return true;
  }
};
