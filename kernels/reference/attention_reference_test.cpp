// Checks attention_reference.cpp against triple loops in double, and times it. Exit code 0: all agree.
//   g++ -std=c++17 -O3 -march=native -pthread attention_reference.cpp attention_reference_test.cpp -o reference_test &&
// ./reference_test [--time]
#include "attention_reference.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

namespace {

struct Shape {
  int B, H, S, D;
  bool causal;
};

// By the definition of the format: sign, exponent, mantissa.
double half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

// By search: the nearest of all finite fp16 values, ties to the even bit pattern; 65520 and above is infinity.
uint16_t nearest_half(double x) {
  const double magnitude = std::fabs(x);
  int low = 0, high = 0x7c00;
  while (high - low > 1)
    (half_value(static_cast<uint16_t>((low + high) / 2)) <= magnitude ? low : high) = (low + high) / 2;
  const double below = half_value(static_cast<uint16_t>(low)),
               above = high == 0x7c00 ? 65536.0 : half_value(static_cast<uint16_t>(high));
  const bool up = magnitude - below > above - magnitude || (magnitude - below == above - magnitude && low % 2 == 1);
  return static_cast<uint16_t>((up ? high : low) | (std::signbit(x) ? 0x8000 : 0));
}

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

std::vector<double> triple_loop(const std::vector<uint16_t>& q, const std::vector<uint16_t>& k,
                                const std::vector<uint16_t>& v, Shape s, double scale, Round round) {
  std::vector<double> out(q.size());
  std::vector<double> p(s.S);
  for (int head = 0; head < s.B * s.H; ++head)
    for (int i = 0; i < s.S; ++i) {
      const size_t base = static_cast<size_t>(head) * s.S * s.D;
      const int keys = s.causal ? i + 1 : s.S;
      double max = -INFINITY, sum = 0;
      for (int j = 0; j < keys; ++j) {
        double dot = 0;
        for (int d = 0; d < s.D; ++d) dot += half_value(q[base + i * s.D + d]) * half_value(k[base + j * s.D + d]);
        p[j] = round(round(dot) * scale);
        max = std::fmax(max, p[j]);
      }
      for (int j = 0; j < keys; ++j) sum += p[j] = std::exp(p[j] - max);
      for (int j = 0; j < keys; ++j)
        for (int d = 0; d < s.D; ++d) out[base + i * s.D + d] += round(p[j] / sum) * half_value(v[base + j * s.D + d]);
    }
  return out;
}

bool agrees(Shape s, int threads) {
  const size_t count = static_cast<size_t>(s.B) * s.H * s.S * s.D;
  const auto q = random_halves(count, 1), k = random_halves(count, 2), v = random_halves(count, 3);
  const float scale = 1.0f / std::sqrt(static_cast<float>(s.D));
  std::vector<double> fp64(count, NAN);
  std::vector<uint16_t> fp16(count, 0x7e00);
  if (flashcore_reference_fp64(q.data(), k.data(), v.data(), fp64.data(), s.B, s.H, s.S, s.D, scale, s.causal, threads))
    return false;
  if (flashcore_reference_fp16(q.data(), k.data(), v.data(), fp16.data(), s.B, s.H, s.S, s.D, scale, s.causal, threads))
    return false;
  const auto want64 = triple_loop(q, k, v, s, scale, no_rounding),
             want16 = triple_loop(q, k, v, s, scale, fp16_rounding);
  double worst64 = 0, worst16 = 0;
  for (size_t i = 0; i < count; ++i) {
    worst64 = std::fmax(worst64, std::isnan(fp64[i]) ? INFINITY : std::fabs(fp64[i] - want64[i]));
    const double got = half_value(fp16[i]);
    worst16 = std::fmax(worst16, std::fabs(got - want16[i]) / (std::fabs(want16[i]) + 1));
  }
  // fp16: sums of the loops differ in the last fp32 bits, which moves a score by at most one fp16 step now and then.
  const bool good = worst64 < 1e-12 && worst16 < 4e-3;
  std::printf("%s B%d H%d S%d D%d%s threads %d: fp64 max error %.1e, fp16 %.1e\n", good ? "ok  " : "FAIL", s.B, s.H,
              s.S, s.D, s.causal ? " causal" : "", threads, worst64, worst16);
  return good;
}

// With one key, O = V exactly: every finite fp16 value goes in and must come out.
bool keeps_every_half() {
  std::vector<uint16_t> v, zero, out;
  for (int bits = 0; bits < 0x10000; ++bits)
    if ((bits & 0x7c00) != 0x7c00) v.push_back(static_cast<uint16_t>(bits));
  zero.assign(v.size(), 0);
  out.assign(v.size(), 0x7e00);
  flashcore_reference_fp16(zero.data(), zero.data(), v.data(), out.data(), 1, 1, 1, static_cast<int>(v.size()), 1.0f, 0,
                           1);
  for (size_t i = 0; i < v.size(); ++i)
    if (half_value(out[i]) != half_value(v[i]))
      return std::printf("FAIL fp16 %04x came back as %04x\n", v[i], out[i]), false;
  return std::printf("ok   every finite fp16 value is kept\n"), true;
}

bool refuses_bad_arguments() {
  uint16_t half = 0;
  double out = 1;
  const bool good =
      flashcore_reference_fp64(nullptr, &half, &half, &out, 1, 1, 1, 1, 1, 0, 1) == FLASHCORE_REFERENCE_BAD_ARGUMENT &&
      flashcore_reference_fp64(&half, &half, &half, &out, 1, 1, 0, 1, 1, 0, 1) == FLASHCORE_REFERENCE_BAD_ARGUMENT &&
      flashcore_reference_fp64(&half, &half, &half, &out, 65536, 65536, 1, 1, 1, 0, 1) ==
          FLASHCORE_REFERENCE_BAD_ARGUMENT &&
      out == 1;
  return std::printf("%s bad arguments are refused\n", good ? "ok  " : "FAIL"), good;
}

void time_parity_cases() {
  const Shape parity[] = {{1, 8, 512, 64, false}, {2, 8, 512, 64, false},  {1, 8, 512, 64, true}, {2, 8, 512, 64, true},
                          {1, 4, 128, 64, false}, {1, 16, 256, 64, false}, {4, 8, 512, 64, false}};
  double seconds64 = 0, seconds16 = 0;
  for (const Shape s : parity) {
    const size_t count = static_cast<size_t>(s.B) * s.H * s.S * s.D;
    const auto q = random_halves(count, 1), k = random_halves(count, 2), v = random_halves(count, 3);
    std::vector<double> fp64(count);
    std::vector<uint16_t> fp16(count);
    const auto start = std::chrono::steady_clock::now();
    flashcore_reference_fp64(q.data(), k.data(), v.data(), fp64.data(), s.B, s.H, s.S, s.D, 0.125f, s.causal, 0);
    const auto middle = std::chrono::steady_clock::now();
    flashcore_reference_fp16(q.data(), k.data(), v.data(), fp16.data(), s.B, s.H, s.S, s.D, 0.125f, s.causal, 0);
    seconds64 += std::chrono::duration<double>(middle - start).count();
    seconds16 += std::chrono::duration<double>(std::chrono::steady_clock::now() - middle).count();
  }
  std::printf("seven parity cases: fp64 %.3f s, fp16 %.3f s\n", seconds64, seconds16);
}

}  // namespace

int main(int argc, char** argv) {
  bool good = keeps_every_half() & refuses_bad_arguments();
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
