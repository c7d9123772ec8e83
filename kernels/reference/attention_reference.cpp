// Blocked attention on the CPU; see attention_reference.h for what it promises.
// All precisions are one template: Fp64 rounds nowhere, the others where an implementation of that dtype stores a tensor.
#include "attention_reference.h"
#include "elements.h"
#include "vector_math.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <new>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>

namespace {

// Query rows that a call of multiply_rows() works on: as many as let their sums stay in registers, of which there are 32
// or 16.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int ROWS = 8;
#else
constexpr int ROWS = 6;
#endif
constexpr int COL_VECTORS = 2;  // 2 registers of the right factor, 1 of the left
constexpr int ROWS_PER_TASK = 256;  // query rows a thread takes at a time; unpacking K and V costs 1/256 of the task
constexpr int64_t NORMALS_PER_TASK = 1 << 15;  // 0.2 ms of a thread; a multiple of what is drawn at once

// The fp16 value nearest to x (ties to even), as a float.
float round_to_half(float x) {
  const uint32_t bits = float_to_bits(x), magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x477ff000u)  // 65520 and above, infinity, NaN
    return magnitude > 0x7f800000u ? x : bits_to_float((bits & 0x80000000u) | 0x7f800000u);
  const float subnormal =
      std::copysign((std::fabs(x) + 0.5f) - 0.5f, x);  // an ulp of 0.5f is 2^-24, fp16's smallest step
  const float normal = bits_to_float((bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu);
  return magnitude < 0x38800000u ? subnormal : normal;  // 2^-14, the smallest normal fp16
}

// Bits of a float that is an fp16 value already.
uint16_t half_bits(float x) {
  const uint32_t bits = float_to_bits(x), magnitude = bits & 0x7fffffffu;
  const uint32_t sign = bits >> 16 & 0x8000u;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude == 0x7f800000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::fabs(x) * 0x1p24f));
  return static_cast<uint16_t>(sign | ((magnitude >> 13) - (112u << 10)));
}

// Bits of the bf16 value nearest to x (ties to even).
uint16_t bfloat_bits(float x) {
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

template <typename Real>
using VectorOf = std::conditional_t<std::is_same_v<Real, double>, VectorFp64, VectorFp32>;

// Row-major matrix of vectors; the columns past `cols` are 0.
template <typename Real>
struct Matrix {
  using Vector = VectorOf<Real>;
  static constexpr int LANES = sizeof(Vector) / sizeof(Real);
  int stride;
  std::vector<Vector> data;
  Matrix(int rows, int cols)
      : stride((cols + LANES * COL_VECTORS - 1) / (LANES * COL_VECTORS) * COL_VECTORS),
        data(static_cast<size_t>(rows) * stride) {}
  Vector* row(int r) { return data.data() + static_cast<size_t>(r) * stride; }
  Real* elements(int r) { return reinterpret_cast<Real*>(row(r)); }
};

// The right factor of a product: panels of COL_VECTORS vectors, each with all its rows one after the other, as
// multiply_rows() reads it. Rows of a power of two would all fall into the same few lines of a cache.
template <typename Real>
struct Panels {
  using Vector = VectorOf<Real>;
  static constexpr int COLS = COL_VECTORS * static_cast<int>(sizeof(Vector) / sizeof(Real));
  int rows;
  std::vector<Vector> data;
  Panels(int rows, int cols) : rows(rows), data(static_cast<size_t>((cols + COLS - 1) / COLS) * rows * COL_VECTORS) {}
  Vector* panel(int p) { return data.data() + static_cast<size_t>(p) * rows * COL_VECTORS; }
  Real* element(int row, int col) {
    return reinterpret_cast<Real*>(panel(col / COLS) + static_cast<size_t>(row) * COL_VECTORS) + col % COLS;
  }
};

// C[0..ROWS) = A[0..ROWS) x B, where A has `depth` columns and C `cols`.
template <typename Real>
void multiply_rows(Matrix<Real>& A, Panels<Real>& B, Matrix<Real>& C, int depth, int cols) {
  using Vector = VectorOf<Real>;
  for (int p = 0; p * Panels<Real>::COLS < cols; ++p) {
    Vector sum[ROWS][COL_VECTORS] = {};
    const Vector* b = B.panel(p);
    for (int k = 0; k < depth; ++k, b += COL_VECTORS) {
      const Vector left = b[0], right = b[1];  // read once for all rows
      for (int r = 0; r < ROWS; ++r) {
        const Real a = A.elements(r)[k];
        sum[r][0] += a * left;
        sum[r][1] += a * right;
      }
    }
    for (int r = 0; r < ROWS; ++r)
      for (int c = 0; c < COL_VECTORS; ++c) C.row(r)[p * COL_VECTORS + c] = sum[r][c];
  }
}

// Scores of the columns up to `cols` to probabilities in place; those past `visible` become 0.
template <typename P>
void softmax_row(Matrix<typename P::Real>& scores, int r, int visible, int cols, typename P::Real scale) {
  using Real = typename P::Real;
  using Vector = VectorOf<Real>;
  constexpr int LANES = Matrix<Real>::LANES;
  const int vectors = (cols + LANES - 1) / LANES;
  Real* const row = scores.elements(r);
  Vector* const of_row = scores.row(r);
  for (int key = 0; key < visible; ++key) row[key] = P::round(P::round(row[key]) * scale);
  for (int key = visible; key < vectors * LANES; ++key) row[key] = -std::numeric_limits<Real>::infinity();
  Vector maxima = Vector{} - std::numeric_limits<Real>::infinity();
  for (int i = 0; i < vectors; ++i) maxima = of_row[i] > maxima ? of_row[i] : maxima;
  Real max = -std::numeric_limits<Real>::infinity(), sum = 0;
  for (int lane = 0; lane < LANES; ++lane) max = maxima[lane] > max ? maxima[lane] : max;
  Vector sums = {};
  for (int i = 0; i < vectors; ++i) sums += of_row[i] = exp_of_negative(of_row[i] - max);
  for (int lane = 0; lane < LANES; ++lane) sum += sums[lane];
  for (int key = 0; key < vectors * LANES; ++key) row[key] = P::round(row[key] / sum);
}

struct Problem {
  int dtype;
  const void *q, *k, *v;
  int heads, S, D;
  float scale;
  bool causal;
};

// What a thread needs for a task.
template <typename Real>
struct Scratch {
  Panels<Real> K_transposed, V;
  Matrix<Real> Q, scores, O;
  std::vector<Real> row;
  explicit Scratch(const Problem& p)
      : K_transposed(p.D, p.S), V(p.S, p.D), Q(ROWS, p.D), scores(ROWS, p.S), O(ROWS, p.D), row(p.D) {}
};

// Query rows [first, last) of one head.
template <typename P>
void attend(const Problem& p, int head, int first, int last, typename P::Output* out,
            Scratch<typename P::Real>& scratch) {
  using Real = typename P::Real;
  auto& [K_transposed, V, Q, scores, O, row] = scratch;
  constexpr int COLS = Panels<Real>::COLS;
  const size_t offset = static_cast<size_t>(head) * p.S * p.D;
  const int keys = p.causal ? last : p.S;
  for (int key = 0; key < keys; ++key) {
    const size_t at = offset + static_cast<size_t>(key) * p.D;
    unpack(p.dtype, p.k, at, p.D, row.data());
    Real* const column = K_transposed.element(0, key);
    for (int d = 0; d < p.D; ++d) column[static_cast<size_t>(d) * COLS] = row[d];
    for (int d = 0; d < p.D; d += COLS) unpack(p.dtype, p.v, at + d, std::min(COLS, p.D - d), V.element(key, d));
  }
  for (int group = first; group < last; group += ROWS) {
    const int rows = last - group < ROWS ? last - group : ROWS;
    const int cols = p.causal ? group + rows : p.S;
    for (int r = 0; r < rows; ++r)
      unpack(p.dtype, p.q, offset + static_cast<size_t>(group + r) * p.D, p.D, Q.elements(r));
    multiply_rows(Q, K_transposed, scores, p.D, cols);
    for (int r = 0; r < rows; ++r) softmax_row<P>(scores, r, p.causal ? group + r + 1 : p.S, cols, p.scale);
    // Keys that all of the rows see; and those that only the later ones do, so that no zero of a mask meets infinity.
    const int common = p.causal ? group + 1 : p.S;
    multiply_rows(scores, V, O, common, p.D);
    for (int r = 1; r < rows; ++r)
      for (int key = common; key < (p.causal ? group + r + 1 : common); ++key) {
        const Real probability = scores.elements(r)[key];
        for (int d = 0; d < p.D; ++d) O.elements(r)[d] += probability * *V.element(key, d);
      }
    for (int r = 0; r < rows; ++r)
      for (int d = 0; d < p.D; ++d) out[offset + static_cast<size_t>(group + r) * p.D + d] = P::store(O.elements(r)[d]);
  }
}

// Runs task(0) .. task(tasks - 1) on up to `threads` threads, each of which has a task of its own from make_task().
// False: out of memory.
template <typename MakeTask>
bool in_parallel(int64_t tasks, int threads, const MakeTask& make_task) {
  std::atomic<int64_t> next{0};
  std::atomic<bool> out_of_memory{false};
  const auto work = [&] {
    try {
      auto task = make_task();
      for (int64_t each; (each = next++) < tasks;) task(each);
    } catch (const std::bad_alloc&) {
      out_of_memory = true;
    }
  };
  if (threads <= 0) threads = static_cast<int>(std::thread::hardware_concurrency());
  std::vector<std::thread> helpers;
  try {
    for (int i = 1; i < threads && i < tasks; ++i) helpers.emplace_back(work);
  } catch (const std::system_error&) {
    // No more threads to be had: those that started, and this one, take all tasks.
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  return !out_of_memory;
}

template <typename P>
int run(const Problem& p, typename P::Output* out, int threads) {
  const int tasks_per_head = (p.S + ROWS_PER_TASK - 1) / ROWS_PER_TASK;
  const bool done = in_parallel(static_cast<int64_t>(p.heads) * tasks_per_head, threads, [&] {
    return [&p, out, tasks_per_head, scratch = Scratch<typename P::Real>(p)](int64_t task) mutable {
      const int first = static_cast<int>(task % tasks_per_head) * ROWS_PER_TASK;
      attend<P>(p, static_cast<int>(task / tasks_per_head), first, std::min(p.S, first + ROWS_PER_TASK), out, scratch);
    };
  });
  return done ? FLASHCORE_REFERENCE_OK : FLASHCORE_REFERENCE_OUT_OF_MEMORY;
}

// Blocks of Philox for the counters (low, high); each number in the lower half of its lane.
struct PhiloxBlocks {
  VectorInt64 first, second;
};

PhiloxBlocks philox2x32(VectorInt64 low, uint32_t high_word, uint32_t key) {
  constexpr uint64_t MULTIPLIER = 0xd256d193u;
  constexpr uint32_t WEYL = 0x9e3779b9u;
  VectorUint64 left = bits_as<VectorUint64>(low), right = VectorUint64{} + high_word;
  for (int round = 0; round < 10; ++round, key += WEYL) {
    const VectorUint64 product = left * MULTIPLIER;
    left = (product >> 32) ^ key ^ right;
    right = product & 0xffffffffu;
  }
  return {bits_as<VectorInt64>(left), bits_as<VectorInt64>(right)};
}

// Of a whole number below 2^52.
VectorFp64 to_fp64(VectorInt64 number) { return bits_as<VectorFp64>(number + bits_as<int64_t>(0x1p52)) - 0x1p52; }

constexpr double TWO_PI = 2 * 3.141592653589793;
constexpr int PAIRS = VECTOR_BYTES / sizeof(double);

struct Drawing {
  uint32_t key, stream;
  double scale;
};

// Elements [first, first + 2 * PAIRS), as fp32.
void draw_normals(int64_t first, const Drawing& drawing, float* out) {
  VectorInt64 counter;
  for (int pair = 0; pair < PAIRS; ++pair) counter[pair] = (first / 2 + pair) & 0xffffffff;
  const PhiloxBlocks random = philox2x32(counter, drawing.stream, drawing.key);
  VectorFp64 radius = -2.0 * log_of_normal((to_fp64(random.first) + 1.0) / 0x1p32);
  for (int pair = 0; pair < PAIRS; ++pair) radius[pair] = std::sqrt(radius[pair]);
  const SineCosine of = sine_cosine_of_turn(TWO_PI * to_fp64(random.second) / 0x1p32);
  const VectorFp64 even = drawing.scale * radius * of.cosine, odd = drawing.scale * radius * of.sine;
  for (int pair = 0; pair < PAIRS; ++pair) {
    out[2 * pair] = static_cast<float>(even[pair]);
    out[2 * pair + 1] = static_cast<float>(odd[pair]);
  }
}

void fill_normal(int dtype, void* out, int64_t first, int64_t last, const Drawing& drawing) {
  constexpr int AT_ONCE = 64 * 2 * PAIRS;
  float values[AT_ONCE];
  for (int64_t begin = first; begin < last; begin += AT_ONCE) {
    const int64_t count = std::min<int64_t>(AT_ONCE, last - begin);
    for (int64_t i = 0; i < count; i += 2 * PAIRS) draw_normals(begin + i, drawing, values + i);
    uint16_t* const bits = static_cast<uint16_t*>(out) + begin;
    if (dtype == FLASHCORE_DTYPE_FP32)
      std::copy_n(values, count, static_cast<float*>(out) + begin);
    else if (dtype == FLASHCORE_DTYPE_BF16)
      for (int64_t i = 0; i < count; ++i) bits[i] = bfloat_bits(values[i]);
    else
      for (int64_t i = 0; i < count; ++i) bits[i] = half_bits(round_to_half(values[i]));
  }
}

template <typename P>
int checked_run(int dtype, const void* q, const void* k, const void* v, void* out, int32_t B, int32_t H, int32_t S,
                int32_t D, float scale, int32_t causal, int32_t threads) {
  if (!q || !k || !v || !out || B < 1 || H < 1 || S < 1 || D < 1) return FLASHCORE_REFERENCE_BAD_ARGUMENT;
  const int64_t heads = static_cast<int64_t>(B) * H;
  if (heads > std::numeric_limits<int32_t>::max() || static_cast<double>(heads) * S * D >= 0x1p40)
    return FLASHCORE_REFERENCE_BAD_ARGUMENT;
  return run<P>({dtype, q, k, v, static_cast<int>(heads), S, D, scale, causal != 0},
                static_cast<typename P::Output*>(out), threads);
}

}  // namespace

int flashcore_reference_fp64(int32_t dtype, const void* q, const void* k, const void* v, double* out, int32_t B,
                             int32_t H, int32_t S, int32_t D, float scale, int32_t causal, int32_t threads) {
  if (!known_dtype(dtype)) return FLASHCORE_REFERENCE_BAD_ARGUMENT;
  return checked_run<Fp64>(dtype, q, k, v, out, B, H, S, D, scale, causal, threads);
}

int flashcore_reference_plain(int32_t dtype, const void* q, const void* k, const void* v, void* out, int32_t B,
                              int32_t H, int32_t S, int32_t D, float scale, int32_t causal, int32_t threads) {
  switch (dtype) {
    case FLASHCORE_DTYPE_FP16: return checked_run<Fp16>(dtype, q, k, v, out, B, H, S, D, scale, causal, threads);
    case FLASHCORE_DTYPE_BF16: return checked_run<Bf16>(dtype, q, k, v, out, B, H, S, D, scale, causal, threads);
    case FLASHCORE_DTYPE_FP32: return checked_run<Fp32>(dtype, q, k, v, out, B, H, S, D, scale, causal, threads);
    default: return FLASHCORE_REFERENCE_BAD_ARGUMENT;
  }
}

int flashcore_reference_normal(int32_t dtype, void* out, int64_t count, uint32_t key, uint32_t stream, double scale,
                               int32_t threads) {
  if (!known_dtype(dtype) || !out || count < 1 || count >= int64_t{1} << 33) return FLASHCORE_REFERENCE_BAD_ARGUMENT;
  const bool done = in_parallel((count + NORMALS_PER_TASK - 1) / NORMALS_PER_TASK, threads, [=] {
    return [=](int64_t task) {
      const int64_t first = task * NORMALS_PER_TASK;
      fill_normal(dtype, out, first, std::min(count, first + NORMALS_PER_TASK), {key, stream, scale});
    };
  });
  return done ? FLASHCORE_REFERENCE_OK : FLASHCORE_REFERENCE_OUT_OF_MEMORY;
}
