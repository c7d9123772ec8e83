// Checks attention_reference.cpp against triple loops in double, and times it. Exit code 0: all agree.
//   g++ -std=c++17 -O3 -march=native -fno-math-errno -fno-trapping-math -pthread attention_reference.cpp
//   attention_reference_test.cpp -o reference_test && ./reference_test [--time]
#include "attention_reference.h"
#include "vector_math.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace {

struct Shape {
  int B, H, S, D;
  bool causal;
};

// Decodes by the format's definition: sign, exponent, mantissa.
double half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

// Encodes by searching all finite values for the nearest, ties to the even bit pattern.
// From halfway to `infinity_value` on the result is `infinity`, the bits of infinity.
template <double (*value)(uint16_t)>
uint16_t nearest(double x, int infinity, double infinity_value) {
  const double magnitude = std::fabs(x);
  int low = 0, high = infinity;
  while (high - low > 1) (value(static_cast<uint16_t>((low + high) / 2)) <= magnitude ? low : high) = (low + high) / 2;
  const double below = value(static_cast<uint16_t>(low)),
               above = high == infinity ? infinity_value : value(static_cast<uint16_t>(high));
  const bool up = magnitude - below > above - magnitude || (magnitude - below == above - magnitude && low % 2 == 1);
  return static_cast<uint16_t>((up ? high : low) | (std::signbit(x) ? 0x8000 : 0));
}

uint16_t nearest_half(double x) { return nearest<half_value>(x, 0x7c00, 65536.0); }

// Decodes by the definition: bf16 is the upper half of a float.
double bfloat_value(uint16_t bits) {
  const int exponent = bits >> 7 & 255, mantissa = bits & 127;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -133) : std::ldexp(128 + mantissa, exponent - 134);
  return bits & 0x8000 ? -magnitude : magnitude;
}

uint16_t nearest_bfloat(double x) { return nearest<bfloat_value>(x, 0x7f80, std::ldexp(1.0, 128)); }

std::vector<uint16_t> random_halves(size_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<uint16_t> halves(count);
  for (uint16_t& half : halves) half = nearest_half(normal(generator));
  return halves;
}

using Round = double (*)(double);
double no_rounding(double x) { return x; }
double fp16_rounding(double x) { return half_value(nearest_half(x)); }
double bf16_rounding(double x) { return bfloat_value(nearest_bfloat(x)); }

std::vector<double> values_of(const std::vector<uint16_t>& bits) {
  std::vector<double> values;
  for (const uint16_t each : bits) values.push_back(half_value(each));
  return values;
}

std::vector<double> triple_loop(const std::vector<double>& q, const std::vector<double>& k,
                                const std::vector<double>& v, Shape s, double scale, Round round) {
  std::vector<double> out(q.size());
  std::vector<double> p(s.S);
  for (int head = 0; head < s.B * s.H; ++head)
    for (int i = 0; i < s.S; ++i) {
      const size_t base = static_cast<size_t>(head) * s.S * s.D;
      const int keys = s.causal ? i + 1 : s.S;
      double max = -INFINITY, sum = 0;
      for (int j = 0; j < keys; ++j) {
        double dot = 0;
        for (int d = 0; d < s.D; ++d) dot += q[base + i * s.D + d] * k[base + j * s.D + d];
        p[j] = round(round(dot) * scale);
        max = std::fmax(max, p[j]);
      }
      for (int j = 0; j < keys; ++j) sum += p[j] = std::exp(p[j] - max);
      for (int j = 0; j < keys; ++j)
        for (int d = 0; d < s.D; ++d) out[base + i * s.D + d] += round(p[j] / sum) * v[base + j * s.D + d];
    }
  return out;
}

// The formula of attention_reference.h for fp16, addend by addend.
std::vector<double> rounding_by_loops(const std::vector<double>& q, const std::vector<double>& k,
                                      const std::vector<double>& v, Shape s, double scale) {
  const double smallest = 0x1p-14;
  const size_t D = s.D, heads = static_cast<size_t>(s.B) * s.H;
  std::vector<double> out(heads * s.S * D);
  for (size_t head = 0; head < heads; ++head)
    for (int i = 0; i < s.S; ++i) {
      const size_t base = head * s.S * D;
      const int keys = s.causal ? i + 1 : s.S;
      std::vector<double> p(keys);
      double sum = 0;
      for (int j = 0; j < keys; ++j) {
        for (size_t d = 0; d < D; ++d) p[j] += q[base + i * D + d] * k[base + j * D + d];
        sum += p[j] = std::exp(p[j] * scale);
      }
      for (size_t d = 0; d < D; ++d) {
        double o = 0, spread = 0;
        for (int j = 0; j < keys; ++j) {
          const double value = v[base + j * D + d];
          o += p[j] / sum * value;
          spread += std::pow(std::fmax(p[j] / sum, smallest) * value, 2);
        }
        out[base + i * D + d] =
            0x1p-11 * std::sqrt((std::pow(std::fmax(std::fabs(o), smallest), 2) + o * o + spread) / 3);
      }
    }
  return out;
}

template <typename Tensor>
flashcore_contiguous inputs_of(int dtype, Shape s, const Tensor& q, const Tensor& k, const Tensor& v) {
  return {dtype, s.B, s.H, s.S, s.D, s.causal, 1.0f / std::sqrt(static_cast<float>(s.D)), q.data(), k.data(), v.data()};
}

bool agrees(Shape s, int threads) {
  const size_t count = static_cast<size_t>(s.B) * s.H * s.S * s.D;
  const auto q = random_halves(count, 1), k = random_halves(count, 2), v = random_halves(count, 3);
  const flashcore_contiguous inputs = inputs_of(FLASHCORE_DTYPE_FP16, s, q, k, v);
  std::vector<double> fp64(count, NAN), again(count, NAN);
  std::vector<uint16_t> fp16(count, 0x7e00);
  std::vector<float> rounding(count, NAN);
  if (flashcore_reference_fp64(&inputs, fp64.data(), nullptr, threads) ||
      flashcore_reference_plain(&inputs, fp16.data(), threads) ||
      flashcore_reference_fp64(&inputs, again.data(), rounding.data(), threads) || again != fp64)
    return false;
  const float scale = inputs.scale;
  const auto q64 = values_of(q), k64 = values_of(k), v64 = values_of(v);
  const auto rounding64 = rounding_by_loops(q64, k64, v64, s, scale);
  const auto want64 = triple_loop(q64, k64, v64, s, scale, no_rounding),
             want16 = triple_loop(q64, k64, v64, s, scale, fp16_rounding);
  double worst64 = 0, worst16 = 0, worst_rounding = 0;
  for (size_t i = 0; i < count; ++i) {
    const double share = std::fabs(rounding[i] / rounding64[i] - 1);
    worst_rounding = std::fmax(worst_rounding, std::isnan(share) ? INFINITY : share);
    worst64 = std::fmax(worst64, std::isnan(fp64[i]) ? INFINITY : std::fabs(fp64[i] - want64[i]));
    const double got = half_value(fp16[i]);
    worst16 = std::fmax(worst16, std::fabs(got - want16[i]) / (std::fabs(want16[i]) + 1));
  }
  // fp16: sums of the loops differ in the last fp32 bits, which moves a score by at most one fp16 step now and then.
  const bool good = worst64 < 1e-12 && worst16 < 4e-3 && worst_rounding < 1e-6;
  std::printf("%s B%d H%d S%d D%d%s threads %d: fp64 max error %.1e, fp16 %.1e, rounding %.1e\n",
              good ? "ok  " : "FAIL", s.B, s.H, s.S, s.D, s.causal ? " causal" : "", threads, worst64, worst16,
              worst_rounding);
  return good;
}

// Tensors of bf16 and fp32: exact in fp64, and the plain arithmetic against loops that round as it does.
bool agrees_in_other_dtypes(Shape s) {
  const size_t count = static_cast<size_t>(s.B) * s.H * s.S * s.D;
  std::vector<float> floats[3];
  std::vector<uint16_t> bfloats[3];
  std::vector<double> exact[2][3];
  std::mt19937 generator(9);
  std::normal_distribution<double> normal;
  for (int tensor = 0; tensor < 3; ++tensor)
    for (size_t i = 0; i < count; ++i) {
      const double drawn = normal(generator);
      bfloats[tensor].push_back(nearest_bfloat(drawn));
      exact[0][tensor].push_back(bfloat_value(bfloats[tensor].back()));
      floats[tensor].push_back(static_cast<float>(drawn));
      exact[1][tensor].push_back(floats[tensor].back());
    }
  const flashcore_contiguous in16 = inputs_of(FLASHCORE_DTYPE_BF16, s, bfloats[0], bfloats[1], bfloats[2]),
                             in32 = inputs_of(FLASHCORE_DTYPE_FP32, s, floats[0], floats[1], floats[2]);
  const float scale = in16.scale;
  std::vector<uint16_t> plain16(count);
  std::vector<float> plain32(count);
  std::vector<double> fp64[2] = {std::vector<double>(count), std::vector<double>(count)};
  if (flashcore_reference_fp64(&in16, fp64[0].data(), nullptr, 2) ||
      flashcore_reference_fp64(&in32, fp64[1].data(), nullptr, 2) ||
      flashcore_reference_plain(&in16, plain16.data(), 2) || flashcore_reference_plain(&in32, plain32.data(), 2))
    return false;
  double worst64 = 0, worst16 = 0, worst32 = 0;
  for (int kind = 0; kind < 2; ++kind) {
    const auto want = triple_loop(exact[kind][0], exact[kind][1], exact[kind][2], s, scale, no_rounding);
    for (size_t i = 0; i < count; ++i) worst64 = std::fmax(worst64, std::fabs(fp64[kind][i] - want[i]));
    if (kind == 1)
      for (size_t i = 0; i < count; ++i) worst32 = std::fmax(worst32, std::fabs(plain32[i] - want[i]));
  }
  const auto want16 = triple_loop(exact[0][0], exact[0][1], exact[0][2], s, scale, bf16_rounding);
  for (size_t i = 0; i < count; ++i)
    worst16 = std::fmax(worst16, std::fabs(bfloat_value(plain16[i]) - want16[i]) / (std::fabs(want16[i]) + 1));
  const bool good = worst64 < 1e-12 && worst16 < 1e-2 && worst32 < 1e-5 && worst32 > 0;
  std::printf("%s bf16 and fp32 tensors: fp64 max error %.1e, bf16 %.1e, fp32 %.1e\n", good ? "ok  " : "FAIL", worst64,
              worst16, worst32);
  return good;
}

// With one key, O = V exactly. V holds every finite fp16 value.
bool keeps_every_half() {
  std::vector<uint16_t> v, zero, out;
  for (int bits = 0; bits < 0x10000; ++bits)
    if ((bits & 0x7c00) != 0x7c00) v.push_back(static_cast<uint16_t>(bits));
  zero.assign(v.size(), 0);
  out.assign(v.size(), 0x7e00);
  const auto inputs = inputs_of(FLASHCORE_DTYPE_FP16, {1, 1, 1, static_cast<int>(v.size()), false}, zero, zero, v);
  flashcore_reference_plain(&inputs, out.data(), 1);
  for (size_t i = 0; i < v.size(); ++i)
    if (half_value(out[i]) != half_value(v[i]))
      return std::printf("FAIL fp16 %04x came back as %04x\n", v[i], out[i]), false;
  return std::printf("ok   every finite fp16 value is kept\n"), true;
}

bool refuses_bad_arguments() {
  uint16_t half = 0;
  double out = 1;
  const flashcore_contiguous sound = {FLASHCORE_DTYPE_FP16, 1, 1, 1, 1, 0, 1, &half, &half, &half};
  flashcore_contiguous no_q = sound, no_rows = sound, too_large = sound, unknown_dtype = sound;
  no_q.q = nullptr;
  no_rows.S = 0;
  too_large.B = too_large.H = 65536;
  unknown_dtype.dtype = 3;
  bool good = true;
  for (const flashcore_contiguous& each : {no_q, no_rows, too_large, unknown_dtype})
    good &= flashcore_reference_fp64(&each, &out, nullptr, 1) == FLASHCORE_REFERENCE_BAD_ARGUMENT && out == 1;
  return std::printf("%s bad arguments are refused\n", good ? "ok  " : "FAIL"), good;
}

// The error in units of the last place of `want`.
template <typename Real>
double distance(Real got, double want) {
  const Real nearest = static_cast<Real>(want);
  return std::fabs(got - want) /
         (std::nextafter(std::fabs(nearest), std::numeric_limits<Real>::max()) - std::fabs(nearest));
}

template <typename Vector, typename Real>
Vector filled(Real value) {
  return Vector{} + value;
}

bool functions_are_the_libraries() {
  std::mt19937_64 generator(4);
  double exponential = 0, single = 0, logarithm = 0, turn = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double share = static_cast<double>(generator() >> 11) / 0x1p53;
    const double x = -708 * share * share;
    exponential = std::fmax(exponential, distance(exp_of_negative(filled<VectorFp64>(x))[0], std::exp(x)));
    const float y = static_cast<float>(-87 * share * share);
    single = std::fmax(single, distance(exp_of_negative(filled<VectorFp32>(y))[1], std::exp(static_cast<double>(y))));
    const double number = (static_cast<double>(generator() >> 32 >> (i % 32)) + 1) / 0x1p32;
    logarithm = std::fmax(logarithm, distance(log_of_normal(filled<VectorFp64>(number))[0], std::log(number)));
    const double angle = 2 * 3.141592653589793 * static_cast<double>(generator() >> 32) / 0x1p32;
    const SineCosine of = sine_cosine_of_turn(filled<VectorFp64>(angle));
    turn = std::fmax(turn, std::fmax(distance(of.sine[1], std::sin(angle)), distance(of.cosine[1], std::cos(angle))));
  }
  const double nan = exp_of_negative(filled<VectorFp64>(double{NAN}))[0];
  const float small = exp_of_negative(filled<VectorFp32>(-INFINITY))[0];
  const bool good = exponential <= 2 && single <= 2 && logarithm <= 2 && turn <= 2 && std::isnan(nan) && small == 0 &&
                    exp_of_negative(filled<VectorFp64>(-INFINITY))[0] == 0 &&
                    std::isnan(exp_of_negative(filled<VectorFp32>(NAN))[0]) &&
                    log_of_normal(filled<VectorFp64>(1.0))[0] == 0;
  return std::printf("%s exp %.2f, of floats %.2f, log %.2f, sine and cosine %.2f units of the last place\n",
                     good ? "ok  " : "FAIL", exponential, single, logarithm, turn),
         good;
}

// An element of Q or V that is not finite changes only the rows that use it.
bool carries_what_is_not_finite() {
  constexpr int S = 33, D = 24;
  std::vector<uint16_t> q = random_halves(S * D, 5), k = random_halves(S * D, 6), v = random_halves(S * D, 7);
  q[3 * D] = 0x7e00;
  v[30 * D + 5] = 0x7c00;
  std::vector<double> out(S * D);
  std::vector<uint16_t> plain(S * D);
  const flashcore_contiguous inputs = {FLASHCORE_DTYPE_FP16, 1, 1, S, D, 1, 0.2f, q.data(), k.data(), v.data()};
  flashcore_reference_fp64(&inputs, out.data(), nullptr, 1);
  flashcore_reference_plain(&inputs, plain.data(), 1);
  bool good = true;
  for (int row = 0; row < S; ++row)
    for (int d = 0; d < D; ++d) {
      const double each[] = {out[row * D + d], half_value(plain[row * D + d])};
      const bool infinite = row >= 30 && d == 5;
      good &= row == 3   ? std::isnan(each[0]) && (plain[row * D + d] & 0x7fff) > 0x7c00
              : infinite ? std::isinf(each[0]) && plain[row * D + d] == 0x7c00
                         : std::isfinite(each[0]) && std::fabs(each[1] - each[0]) < 0.02;
    }
  return std::printf("%s NaN and infinity travel\n", good ? "ok  " : "FAIL"), good;
}

void time_parity_cases() {
  const Shape parity[] = {{1, 8, 512, 64, false}, {2, 8, 512, 64, false},  {1, 8, 512, 64, true}, {2, 8, 512, 64, true},
                          {1, 4, 128, 64, false}, {1, 16, 256, 64, false}, {4, 8, 512, 64, false}};
  double seconds64 = 0, seconds16 = 0, seconds_rounding = 0;
  for (const Shape s : parity) {
    const size_t count = static_cast<size_t>(s.B) * s.H * s.S * s.D;
    const auto q = random_halves(count, 1), k = random_halves(count, 2), v = random_halves(count, 3);
    std::vector<double> fp64(count);
    std::vector<uint16_t> fp16(count);
    std::vector<float> rounding(count);
    const flashcore_contiguous inputs = inputs_of(FLASHCORE_DTYPE_FP16, s, q, k, v);
    const auto start = std::chrono::steady_clock::now();
    flashcore_reference_fp64(&inputs, fp64.data(), nullptr, 0);
    const auto middle = std::chrono::steady_clock::now();
    flashcore_reference_plain(&inputs, fp16.data(), 0);
    const auto end = std::chrono::steady_clock::now();
    flashcore_reference_fp64(&inputs, fp64.data(), rounding.data(), 0);
    seconds64 += std::chrono::duration<double>(middle - start).count();
    seconds16 += std::chrono::duration<double>(end - middle).count();
    seconds_rounding += std::chrono::duration<double>(std::chrono::steady_clock::now() - end).count();
  }
  std::printf("seven parity cases: fp64 %.3f s, with rounding %.3f s, fp16 %.3f s\n", seconds64, seconds_rounding,
              seconds16);
}

}  // namespace

int main(int argc, char** argv) {
  bool good = true;
  for (const auto check :
       {keeps_every_half, refuses_bad_arguments, functions_are_the_libraries, carries_what_is_not_finite})
    good &= check();
  good &= agrees_in_other_dtypes({1, 2, 61, 32, true});
  for (const Shape s : {Shape{1, 2, 64, 64, false},
                        {1, 1, 64, 64, true},
                        {2, 1, 113, 64, true},
                        {1, 1, 1, 64, true},
                        {1, 1, 2, 1, false},
                        {1, 1, 37, 80, false},
                        {1, 1, 261, 128, true}})
    for (const int threads : {1, 3}) good &= agrees(s, threads);
  if (argc > 1 && !std::strcmp(argv[1], "--time")) time_parity_cases();
  return good ? 0 : 1;
}
