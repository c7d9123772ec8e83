// Blocked attention on the CPU; see attention_reference.h for what it promises.
// All precisions are one template: Fp64 rounds nowhere, the others where an implementation of that dtype stores a tensor.
#include "attention_reference.h"
#include "elements.h"

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

constexpr int ROWS = 4;  // query rows a micro-kernel call works on: 4 x 2 vector accumulators stay in registers
constexpr int COL_VECTORS = 2;
constexpr int ROWS_PER_TASK = 256;  // query rows a thread takes at a time; unpacking K and V costs 1/256 of the task
constexpr int64_t NORMALS_PER_TASK = 1 << 15;  // about a millisecond of a thread; even, for they are drawn in pairs

typedef double VectorFp64 __attribute__((vector_size(64)));
typedef float VectorFp32 __attribute__((vector_size(64)));

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

// C[0..ROWS) = A[0..ROWS) x B, where A has `depth` columns and C `cols`.
template <typename Real>
void multiply_rows(Matrix<Real>& A, Matrix<Real>& B, Matrix<Real>& C, int depth, int cols) {
  using Vector = VectorOf<Real>;
  const int vectors = (cols + Matrix<Real>::LANES - 1) / Matrix<Real>::LANES;
  for (int col = 0; col < vectors; col += COL_VECTORS) {
    Vector sum[ROWS][COL_VECTORS] = {};
    for (int k = 0; k < depth; ++k) {
      const Vector* b = B.row(k) + col;
      for (int r = 0; r < ROWS; ++r)
        for (int c = 0; c < COL_VECTORS; ++c) sum[r][c] += A.elements(r)[k] * b[c];
    }
    for (int r = 0; r < ROWS; ++r)
      for (int c = 0; c < COL_VECTORS; ++c) C.row(r)[col + c] = sum[r][c];
  }
}

// Scores to probabilities in place; columns past `visible` become 0, so that the product with V may run over the whole
// row group.
template <typename P>
void softmax_row(typename P::Real* scores, int visible, int cols, typename P::Real scale) {
  using Real = typename P::Real;
  Real max = -std::numeric_limits<Real>::infinity();
  for (int key = 0; key < visible; ++key) {
    scores[key] = P::round(P::round(scores[key]) * scale);
    max = scores[key] > max ? scores[key] : max;
  }
  Real sum = 0;
  for (int key = 0; key < visible; ++key) sum += scores[key] = std::exp(scores[key] - max);
  for (int key = 0; key < visible; ++key) scores[key] = P::round(scores[key] / sum);
  for (int key = visible; key < cols; ++key) scores[key] = 0;
}

struct Problem {
  int dtype;
  const void *q, *k, *v;
  int heads, S, D;
  float scale;
  bool causal;
};

// Query rows [first, last) of one head.
template <typename P>
void attend(const Problem& p, int head, int first, int last, typename P::Output* out) {
  const size_t offset = static_cast<size_t>(head) * p.S * p.D;
  const int keys = p.causal ? last : p.S;
  using Real = typename P::Real;
  Matrix<Real> K_transposed(p.D, keys), V(keys, p.D), Q(ROWS, p.D), scores(ROWS, keys), O(ROWS, p.D);
  const size_t key_stride = static_cast<size_t>(K_transposed.stride) * Matrix<Real>::LANES;
  for (int key = 0; key < keys; ++key) {
    const size_t at = offset + static_cast<size_t>(key) * p.D;
    unpack(p.dtype, p.k, at, p.D, K_transposed.elements(0) + key, key_stride);
    unpack(p.dtype, p.v, at, p.D, V.elements(key));
  }
  for (int group = first; group < last; group += ROWS) {
    const int rows = last - group < ROWS ? last - group : ROWS;
    const int cols = p.causal ? group + rows : p.S;
    for (int r = 0; r < rows; ++r)
      unpack(p.dtype, p.q, offset + static_cast<size_t>(group + r) * p.D, p.D, Q.elements(r));
    multiply_rows(Q, K_transposed, scores, p.D, cols);
    for (int r = 0; r < rows; ++r) softmax_row<P>(scores.elements(r), p.causal ? group + r + 1 : p.S, cols, p.scale);
    multiply_rows(scores, V, O, cols, p.D);
    for (int r = 0; r < rows; ++r)
      for (int d = 0; d < p.D; ++d) out[offset + static_cast<size_t>(group + r) * p.D + d] = P::store(O.elements(r)[d]);
  }
}

// Runs task(0) .. task(tasks - 1) on up to `threads` threads. False: out of memory.
template <typename Task>
bool in_parallel(int64_t tasks, int threads, const Task& task) {
  std::atomic<int64_t> next{0};
  std::atomic<bool> out_of_memory{false};
  const auto work = [&] {
    try {
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
  const bool done = in_parallel(static_cast<int64_t>(p.heads) * tasks_per_head, threads, [&](int64_t task) {
    const int first = static_cast<int>(task % tasks_per_head) * ROWS_PER_TASK;
    attend<P>(p, static_cast<int>(task / tasks_per_head), first,
              first + ROWS_PER_TASK < p.S ? first + ROWS_PER_TASK : p.S, out);
  });
  return done ? FLASHCORE_REFERENCE_OK : FLASHCORE_REFERENCE_OUT_OF_MEMORY;
}

struct PhiloxBlock {
  uint32_t first, second;
};

PhiloxBlock philox2x32(uint32_t low, uint32_t high, uint32_t key) {
  constexpr uint32_t MULTIPLIER = 0xd256d193u, WEYL = 0x9e3779b9u;
  for (int round = 0; round < 10; ++round, key += WEYL) {
    const uint64_t product = static_cast<uint64_t>(MULTIPLIER) * low;
    low = static_cast<uint32_t>(product >> 32) ^ key ^ high;
    high = static_cast<uint32_t>(product);
  }
  return {low, high};
}

constexpr double TWO_PI = 2 * 3.141592653589793;

// A drawn value as an element of a tensor.
void store_float(int dtype, void* out, int64_t at, double value) {
  const float rounded = static_cast<float>(value);
  if (dtype == FLASHCORE_DTYPE_FP32)
    static_cast<float*>(out)[at] = rounded;
  else
    static_cast<uint16_t*>(out)[at] =
        dtype == FLASHCORE_DTYPE_BF16 ? bfloat_bits(rounded) : half_bits(round_to_half(rounded));
}

struct Drawing {
  uint32_t key, stream;
  double scale;
};

void fill_normal(int dtype, void* out, int64_t first, int64_t last, const Drawing& drawing) {
  for (int64_t i = first; i < last; i += 2) {
    const PhiloxBlock random = philox2x32(static_cast<uint32_t>(i / 2), drawing.stream, drawing.key);
    const double radius = drawing.scale * std::sqrt(-2 * std::log((random.first + 1.0) / 0x1p32)),
                 angle = TWO_PI * random.second / 0x1p32;
    store_float(dtype, out, i, radius * std::cos(angle));
    if (i + 1 < last) store_float(dtype, out, i + 1, radius * std::sin(angle));
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
  const bool done = in_parallel((count + NORMALS_PER_TASK - 1) / NORMALS_PER_TASK, threads, [=](int64_t task) {
    const int64_t first = task * NORMALS_PER_TASK;
    fill_normal(dtype, out, first, std::min(count, first + NORMALS_PER_TASK), {key, stream, scale});
  });
  return done ? FLASHCORE_REFERENCE_OK : FLASHCORE_REFERENCE_OUT_OF_MEMORY;
}
