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

// Draws elements [first, first + 2 * PAIRS), as fp32.
void draw_normals(int64_t first, const flashcore_normals& source, float* out) {
  VectorInt64 counter;
  for (int pair = 0; pair < PAIRS; ++pair) counter[pair] = (first / 2 + pair) & 0xffffffff;
  const PhiloxBlocks random = philox2x32(counter, source.stream, source.key);
  VectorFp64 radius = -2.0 * log_of_normal((to_fp64(random.first) + 1.0) / 0x1p32);
  for (int pair = 0; pair < PAIRS; ++pair) radius[pair] = std::sqrt(radius[pair]);
  const SineCosine of = sine_cosine_of_turn(TWO_PI * to_fp64(random.second) / 0x1p32);
  const VectorFp64 even = source.scale * radius * of.cosine, odd = source.scale * radius * of.sine;
  for (int pair = 0; pair < PAIRS; ++pair) {
    out[2 * pair] = static_cast<float>(even[pair]);
    out[2 * pair + 1] = static_cast<float>(odd[pair]);
  }
}

struct Drawing {
  flashcore_normals source;
  int32_t dtype;
  void* out;
};

void fill_normal(const Drawing& drawing, int64_t first, int64_t last) {
  constexpr int AT_ONCE = 64 * 2 * PAIRS;
  float values[AT_ONCE];
  for (int64_t begin = first; begin < last; begin += AT_ONCE) {
    const int64_t count = std::min<int64_t>(AT_ONCE, last - begin);
    for (int64_t i = 0; i < count; i += 2 * PAIRS) draw_normals(begin + i, drawing.source, values + i);
    uint16_t* const bits = static_cast<uint16_t*>(drawing.out) + begin;
    if (drawing.dtype == FLASHCORE_DTYPE_FP32)
      std::copy_n(values, count, static_cast<float*>(drawing.out) + begin);
    else if (drawing.dtype == FLASHCORE_DTYPE_BF16)
      for (int64_t i = 0; i < count; ++i) bits[i] = bfloat_bits(values[i]);
    else
      for (int64_t i = 0; i < count; ++i) bits[i] = half_bits(round_to_half(values[i]));
  }
}

// B * H heads of one sequence each; P and O are rounded to the tensors' dtype.
template <typename P>
int run_contiguous(const flashcore_contiguous* c, void* out, float* rounding, int32_t threads) {
  if (!c || !known_dtype(c->dtype) || !out || c->B < 1 || c->H < 1 || c->S < 1 || c->D < 1)
    return FLASHCORE_REFERENCE_BAD_ARGUMENT;
  const int64_t heads = static_cast<int64_t>(c->B) * c->H;
  if (heads > std::numeric_limits<int32_t>::max() || static_cast<double>(heads) * c->S * c->D >= MOST_ELEMENTS)
    return FLASHCORE_REFERENCE_BAD_ARGUMENT;
  const int64_t row = c->D, head = row * c->S, count = head * heads;
  flashcore_attention p = {};
  p.B = 1;
  p.Hq = p.Hkv = static_cast<int32_t>(heads);
  p.Sq = p.Skv = c->S;
  p.D = p.Dv = c->D;
  p.dtype = c->dtype;
  p.q = {c->q, count, 0, head, row};
  p.k = {c->k, count, 0, head, row};
  p.v = {c->v, count, 0, head, row};
  p.causal = c->causal;
  p.window_left = p.window_right = -1;
  p.scale = c->scale;
  // Products of fp32 tensors may be tf32.
  p.weight_dtype = p.output_dtype = c->dtype == FLASHCORE_DTYPE_FP32 ? FLASHCORE_DTYPE_TF32 : c->dtype;
  p.o = {nullptr, rounding, count, 0, head, row};
  return run<P>(p, static_cast<typename P::Output*>(out), threads);
}

}  // namespace

int flashcore_attention_forward(const flashcore_attention* problem, int32_t threads) {
  if (!problem || !(problem->o.value || problem->lse.value)) return FLASHCORE_REFERENCE_BAD_ARGUMENT;
  return run<Fp64>(*problem, problem->o.value, threads);
}

int flashcore_reference_fp64(const flashcore_contiguous* inputs, double* out, float* rounding, int32_t threads) {
  return run_contiguous<Fp64>(inputs, out, rounding, threads);
}

int flashcore_reference_plain(const flashcore_contiguous* inputs, void* out, int32_t threads) {
  switch (inputs ? inputs->dtype : -1) {
    case FLASHCORE_DTYPE_FP16: return run_contiguous<Fp16>(inputs, out, nullptr, threads);
    case FLASHCORE_DTYPE_BF16: return run_contiguous<Bf16>(inputs, out, nullptr, threads);
    case FLASHCORE_DTYPE_FP32: return run_contiguous<Fp32>(inputs, out, nullptr, threads);
    default: return FLASHCORE_REFERENCE_BAD_ARGUMENT;
  }
}

int flashcore_reference_normal(const flashcore_normals* source, int32_t dtype, void* out, int64_t count) {
  if (!source || !known_dtype(dtype) || !out || count < 1 || count >= int64_t{1} << 33)
    return FLASHCORE_REFERENCE_BAD_ARGUMENT;
  const int64_t tasks = (count + NORMALS_PER_TASK - 1) / NORMALS_PER_TASK;
  const bool done = in_parallel(tasks, source->threads, [drawing = Drawing{*source, dtype, out}, count] {
    return [=](int64_t task) {
      const int64_t first = task * NORMALS_PER_TASK;
      fill_normal(drawing, first, std::min(count, first + NORMALS_PER_TASK));
    };
  });
  return done ? FLASHCORE_REFERENCE_OK : FLASHCORE_REFERENCE_OUT_OF_MEMORY;
}
