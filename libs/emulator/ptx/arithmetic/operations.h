// Operations on one lane that integers and floats share.
#pragma once
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace flashcore::emu::ptx {

namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;

#define UNARY(NAME, EXPRESSION) \
  struct NAME {                 \
    template <class A>          \
    static auto of(A a) {       \
      return EXPRESSION;        \
    }                           \
  };
#define BINARY(NAME, EXPRESSION) \
  struct NAME {                  \
    template <class A, class B>  \
    static auto of(A a, B b) {   \
      return EXPRESSION;         \
    }                            \
  };
#define TERNARY(NAME, EXPRESSION)        \
  struct NAME {                          \
    template <class A, class B, class C> \
    static auto of(A a, B b, C c) {      \
      return EXPRESSION;                 \
    }                                    \
  };

template <class T>
T smaller(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a < b || b != b ? a : (a == b && std::signbit(a) ? a : b);
  return a < b ? a : b;
}
template <class T>
T larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a > b || b != b ? a : (a == b && std::signbit(b) ? a : b);
  return a > b ? a : b;
}
inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }

/** The negative, for integers as on hardware: the negative of the smallest number is that number. */
template <class T>
T negative_of(T a) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
  else
    return -a;
}

/** The lower bits of a product of integers. C++ would multiply two 16-bit numbers as int, which could overflow. */
template <class T>
auto product_of(T a, T b) {
  if constexpr (std::is_integral_v<T> && sizeof(T) < 4)
    return static_cast<uint32_t>(a) * static_cast<uint32_t>(b);
  else
    return a * b;
}

BINARY(Add, a + b)
BINARY(Subtract, a - b)
BINARY(Multiply, product_of(a, b))
BINARY(Smaller, smaller(a, b))
BINARY(Larger, larger(a, b))
BINARY(SmallerOrNan, a != a ? a : (b != b ? b : smaller(a, b)))
BINARY(LargerOrNan, a != a ? a : (b != b ? b : larger(a, b)))
BINARY(And, a& b)
BINARY(Or, a | b)
BINARY(Xor, a ^ b)
UNARY(Same, a)
UNARY(Not, ~a)
UNARY(LogicalNot, a == 0)
UNARY(Negate, negative_of(a))
UNARY(Magnitude, a < 0 ? negative_of(a) : a)
TERNARY(MultiplyAdd, product_of(a, b) + c)
TERNARY(FusedMultiplyAdd, fused(a, b, c))
BINARY(Divide, a / b)

}  // namespace

}  // namespace flashcore::emu::ptx
