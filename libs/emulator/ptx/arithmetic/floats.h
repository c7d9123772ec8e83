// Floats of 32 and 64 bits.
#pragma once
#include <cmath>
#include <string>

#include "comparisons.h"
#include "operations.h"
#include "shapes.h"

namespace flashcore::emu::ptx {

namespace {

struct FloatMagnitude {
  static float of(float a) { return __builtin_fabsf(a); }
  static double of(double a) { return __builtin_fabs(a); }
};
struct CopySign {  // copysign a, b: the sign of a, the magnitude of b
  static float of(float a, float b) { return __builtin_copysignf(b, a); }
};
struct SquareRoot {
  static float of(float a) { return __builtin_sqrtf(a); }
  static double of(double a) { return __builtin_sqrt(a); }
};
struct ReciprocalRoot {
  static float of(float a) { return 1.0f / __builtin_sqrtf(a); }
  static double of(double a) { return 1.0 / __builtin_sqrt(a); }
};
UNARY(Reciprocal, 1 / a)
struct Sine {
  static float of(float a) { return static_cast<float>(std::sin(static_cast<double>(a))); }
};
struct Cosine {
  static float of(float a) { return static_cast<float>(std::cos(static_cast<double>(a))); }
};
struct Logarithm2 {
  static float of(float a) { return static_cast<float>(std::log2(static_cast<double>(a))); }
};
struct HyperbolicTangent {
  static float of(float a) { return static_cast<float>(std::tanh(static_cast<double>(a))); }
};

/** 2^x as a polynomial on [-1/2, 1/2] (minimax, error below 2^-25) times an exponent that is applied in two halves. */
struct Exponential2 {
  static float of(float x) {
    const float bounded = x < -160.0f ? -160.0f : (x > 130.0f ? 130.0f : x);
    const float whole = __builtin_rintf(bounded), f = bounded - whole;
    float p = 1.535336188e-4f;
    p = __builtin_fmaf(p, f, 1.339887440e-3f);
    p = __builtin_fmaf(p, f, 9.618437357e-3f);
    p = __builtin_fmaf(p, f, 5.550332548e-2f);
    p = __builtin_fmaf(p, f, 2.402264791e-1f);
    p = __builtin_fmaf(p, f, 6.931472028e-1f);
    p = __builtin_fmaf(p, f, 1.0f);
    const int n = static_cast<int>(whole), first = n >> 1, second = n - first;
    const float y = p * bits_float(static_cast<uint32_t>(first + 127) << 23) *
                    bits_float(static_cast<uint32_t>(second + 127) << 23);
    return x != x ? x : y;
  }
};

/** div.approx: the quotient is 0 if the divisor is 2^126 or more, as the PTX manual says. */
struct DivideApproximately {
  static float of(float a, float b) {
    const float magnitude = __builtin_fabsf(b);
    const float q = a / b;
    return magnitude > 0x1p126f && magnitude < INFINITY && a - a == 0 ? __builtin_copysignf(0.0f, q) : q;
  }
};

template <class T>
void floats(Table& t, const std::string& type) {
  add2<Add, T, T, T>(t, "add." + type);
  add2<Subtract, T, T, T>(t, "sub." + type);
  add2<Multiply, T, T, T>(t, "mul." + type);
  add3<FusedMultiplyAdd, T, T, T, T>(t, "fma." + type);
  add3<FusedMultiplyAdd, T, T, T, T>(t, "mad." + type);
  add2<Smaller, T, T, T>(t, "min." + type);
  add2<Larger, T, T, T>(t, "max." + type);
  add2<SmallerOrNan, T, T, T>(t, "min.NaN." + type);
  add2<LargerOrNan, T, T, T>(t, "max.NaN." + type);
  add1<Negate, T, T>(t, "neg." + type);
  add1<FloatMagnitude, T, T>(t, "abs." + type);
  add2<Divide, T, T, T>(t, "div." + type);
  add1<Reciprocal, T, T>(t, "rcp." + type);
  add1<SquareRoot, T, T>(t, "sqrt." + type);
  add1<ReciprocalRoot, T, T>(t, "rsqrt." + type);
  comparisons<T>(t, type);
  t["selp." + type] = {select<T>, 4, {sizeof(T), sizeof(T), sizeof(T), 0}};
  add1<Same, T, T>(t, "mov." + type);
}

/** Adds operations of both widths. Operations that a GPU approximates are exact or nearly exact here. */
void add_floats(Table& t) {
  floats<float>(t, "f32");
  floats<double>(t, "f64");
  add2<DivideApproximately, float, float, float>(t, "div.approx.f32");
  add2<Divide, float, float, float>(t, "div.full.f32");
  add1<Reciprocal, float, float>(t, "rcp.approx.f32");
  add1<SquareRoot, float, float>(t, "sqrt.approx.f32");
  add1<ReciprocalRoot, float, float>(t, "rsqrt.approx.f32");
  add1<Exponential2, float, float>(t, "ex2.approx.f32");
  add1<Logarithm2, float, float>(t, "lg2.approx.f32");
  add1<Sine, float, float>(t, "sin.approx.f32");
  add1<Cosine, float, float>(t, "cos.approx.f32");
  add1<HyperbolicTangent, float, float>(t, "tanh.approx.f32");
  add2<CopySign, float, float, float>(t, "copysign.f32");
}

}  // namespace

}  // namespace flashcore::emu::ptx
