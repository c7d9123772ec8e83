// Attention on the CPU, and inputs to test it on; attention_reference.h documents both.
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

namespace {

constexpr int64_t NORMALS_PER_TASK = 1 << 15;  // 0.2 ms of a thread; a multiple of 2 * PAIRS

// Computes `problem`, but writes O to `out`.
template <typename P>
int run(const flashcore_attention& problem, typename P::Output* out, int threads) try {
  const Plan plan(problem);
  if (!plan.sound) return FLASHCORE_REFERENCE_BAD_ARGUMENT;
  const bool done = in_parallel(plan.tasks, threads, [&] { return Attending<P>(plan, out); });
  return done ? FLASHCORE_REFERENCE_OK : FLASHCORE_REFERENCE_OUT_OF_MEMORY;
} catch (const std::bad_alloc&) {
  return FLASHCORE_REFERENCE_OUT_OF_MEMORY;
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

// Converts integers below 2^52.
VectorFp64 to_fp64(VectorInt64 number) { return bits_as<VectorFp64>(number + bits_as<int64_t>(0x1p52)) - 0x1p52; }

constexpr double TWO_PI = 2 * 3.141592653589793;
constexpr int PAIRS = VECTOR_BYTES / sizeof(double);

struct Drawing {
  uint32_t key, stream;
  double scale;
};

// Draws elements [first, first + 2 * PAIRS), as fp32.
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

// [B, H, S, D] contiguous: B * H heads of one sequence each; P and O are rounded to the tensors' dtype.
template <typename P>
int run_contiguous(int dtype, const void* q, const void* k, const void* v, void* out, int32_t B, int32_t H, int32_t S,
                   int32_t D, float scale, int32_t causal, int32_t threads, float* rounding = nullptr) {
  if (!known_dtype(dtype) || !out || B < 1 || H < 1 || S < 1 || D < 1) return FLASHCORE_REFERENCE_BAD_ARGUMENT;
  const int64_t heads = static_cast<int64_t>(B) * H;
  if (heads > std::numeric_limits<int32_t>::max() || static_cast<double>(heads) * S * D >= MOST_ELEMENTS)
    return FLASHCORE_REFERENCE_BAD_ARGUMENT;
  const int64_t row = D, head = row * S, count = head * heads;
  flashcore_attention p = {};
  p.B = 1;
  p.Hq = p.Hkv = static_cast<int32_t>(heads);
  p.Sq = p.Skv = S;
  p.D = p.Dv = D;
  p.dtype = dtype;
  p.q = {q, count, 0, head, row};
  p.k = {k, count, 0, head, row};
  p.v = {v, count, 0, head, row};
  p.causal = causal;
  p.window_left = p.window_right = -1;
  p.scale = scale;
  // Products of fp32 tensors may be tf32.
  p.weight_dtype = p.output_dtype = dtype == FLASHCORE_DTYPE_FP32 ? FLASHCORE_DTYPE_TF32 : dtype;
  p.o = {nullptr, rounding, count, 0, head, row};
  return run<P>(p, static_cast<typename P::Output*>(out), threads);
}

}  // namespace

int flashcore_attention_forward(const flashcore_attention* problem, int32_t threads) {
  if (!problem || !(problem->o.value || problem->lse.value)) return FLASHCORE_REFERENCE_BAD_ARGUMENT;
  return run<Fp64>(*problem, problem->o.value, threads);
}

int flashcore_reference_fp64(int32_t dtype, const void* q, const void* k, const void* v, double* out, int32_t B,
                             int32_t H, int32_t S, int32_t D, float scale, int32_t causal, int32_t threads) {
  return run_contiguous<Fp64>(dtype, q, k, v, out, B, H, S, D, scale, causal, threads);
}

int flashcore_reference_with_rounding(int32_t dtype, const void* q, const void* k, const void* v, double* out,
                                      float* rounding, int32_t B, int32_t H, int32_t S, int32_t D, float scale,
                                      int32_t causal, int32_t threads) {
  if (!rounding) return FLASHCORE_REFERENCE_BAD_ARGUMENT;
  return run_contiguous<Fp64>(dtype, q, k, v, out, B, H, S, D, scale, causal, threads, rounding);
}

int flashcore_reference_plain(int32_t dtype, const void* q, const void* k, const void* v, void* out, int32_t B,
                              int32_t H, int32_t S, int32_t D, float scale, int32_t causal, int32_t threads) {
  switch (dtype) {
    case FLASHCORE_DTYPE_FP16: return run_contiguous<Fp16>(dtype, q, k, v, out, B, H, S, D, scale, causal, threads);
    case FLASHCORE_DTYPE_BF16: return run_contiguous<Bf16>(dtype, q, k, v, out, B, H, S, D, scale, causal, threads);
    case FLASHCORE_DTYPE_FP32: return run_contiguous<Fp32>(dtype, q, k, v, out, B, H, S, D, scale, causal, threads);
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
