// Arithmetic, logic, comparisons and conversions: a loop over 32 lanes each, which the compiler makes vectors of.
#include <cmath>
#include <limits>
#include <type_traits>

#include "halves.h"
#include "lanes.h"
#include "lower.h"

namespace flashcore::emu::ptx {

namespace {

// --- shapes -------------------------------------------------------------------------------------------------------

template <class Op, class D, class A>
const Ins* unary(Warp& w, const Ins* i) {
  const A* a = w.reg<A>(i->a);
  write_lanes<D>(w, i->d, w.active(i), [=](int k) { return static_cast<D>(Op::of(a[k])); });
  return i + 1;
}

template <class Op, class D, class A, class B>
const Ins* binary(Warp& w, const Ins* i) {
  const A* a = w.reg<A>(i->a);
  const B* b = w.reg<B>(i->b);
  write_lanes<D>(w, i->d, w.active(i), [=](int k) { return static_cast<D>(Op::of(a[k], b[k])); });
  return i + 1;
}

template <class Op, class D, class A, class B, class C>
const Ins* ternary(Warp& w, const Ins* i) {
  const A* a = w.reg<A>(i->a);
  const B* b = w.reg<B>(i->b);
  const C* c = w.reg<C>(i->c);
  write_lanes<D>(w, i->d, w.active(i), [=](int k) { return static_cast<D>(Op::of(a[k], b[k], c[k])); });
  return i + 1;
}

/** For operations on 16-bit floats: done in float, rounded once at the end. */
template <class F>
void write_halves(Warp& w, uint32_t slot, uint32_t m, int count, F value) {
  alignas(64) float t[2 * LANES];
  alignas(64) uint16_t h[2 * LANES];
#pragma GCC ivdep
  for (int k = 0; k < count; ++k) t[k] = value(k);
  halves_of(t, h, count);
  if (count == LANES)
    write_lanes<uint16_t>(w, slot, m, [&](int k) { return h[k]; });
  else
    write_lanes<uint32_t>(
        w, slot, m, [&](int k) { return static_cast<uint32_t>(h[2 * k]) | static_cast<uint32_t>(h[2 * k + 1]) << 16; });
}

struct Half {
  static void read(const uint16_t* from, float* to, int count) { floats_of(from, to, count); }
  static uint16_t round(float x) { return float_to_half(x); }
};
struct Bfloat {
  static void read(const uint16_t* from, float* to, int count) {
    for (int k = 0; k < count; ++k) to[k] = bfloat16_to_float(from[k]);
  }
  static uint16_t round(float x) { return float_to_bfloat16(x); }
};

template <class Type, int WIDTH, class F>
const Ins* sixteen_bit(Warp& w, const Ins* i, int operands, F value) {
  constexpr int N = LANES * WIDTH;
  alignas(64) float in[3][N];
  const uint32_t slots[] = {i->a, i->b, i->c};
  for (int o = 0; o < operands; ++o) Type::read(w.reg<uint16_t>(slots[o]), in[o], N);
  alignas(64) uint16_t out[N];
  for (int k = 0; k < N; ++k) {
    const float x = value(in[0][k], operands > 1 ? in[1][k] : 0.0f, operands > 2 ? in[2][k] : 0.0f);
    out[k] = Type::round(x);
  }
  const uint32_t m = w.active(i);
  uint16_t* d = w.reg<uint16_t>(i->d);
  for (int k = 0; k < N; ++k)
    if (m >> (k / WIDTH) & 1) d[k] = out[k];
  return i + 1;
}

// --- operations -----------------------------------------------------------------------------------------------------

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

/** Of a whole number as the hardware has it: the least one is its own negative. */
template <class T>
T negative_of(T a) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
  else
    return -a;
}

/** Of whole numbers the lower bits: in C++ two of 16 bits would be multiplied as int, and might not fit. */
template <class T>
auto product_of(T a, T b) {
  if constexpr (std::is_integral_v<T> && sizeof(T) < 4)
    return static_cast<uint32_t>(a) * static_cast<uint32_t>(b);
  else
    return a * b;
}

inline float relu(float x) { return x != x ? x : (x > 0 ? x : 0.0f); }

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

/** 2^x: a polynomial on [-1/2, 1/2] (minimax, error below 2^-25) and an exponent put in two halves. */
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

/** div.approx: for a divisor from 2^126 up the answer is 0, as the PTX manual says. */
struct DivideApproximately {
  static float of(float a, float b) {
    const float magnitude = __builtin_fabsf(b);
    const float q = a / b;
    return magnitude > 0x1p126f && magnitude < INFINITY && a - a == 0 ? __builtin_copysignf(0.0f, q) : q;
  }
};

template <class T>
struct Wide {
  using type = std::conditional_t<std::is_signed_v<T>, std::conditional_t<sizeof(T) == 2, int32_t, int64_t>,
                                  std::conditional_t<sizeof(T) == 2, uint32_t, uint64_t>>;
};
template <class T>
using Unsigned = std::make_unsigned_t<T>;

struct WideMultiply {
  template <class T>
  static auto of(T a, T b) {
    return static_cast<typename Wide<T>::type>(a) * b;
  }
};
struct WideMultiplyAdd {
  template <class T, class C>
  static C of(T a, T b, C c) {
    return static_cast<C>(static_cast<typename Wide<T>::type>(a) * b) + c;
  }
};
struct HighMultiply {
  template <class T>
  static T of(T a, T b) {
    if constexpr (sizeof(T) == 8) {
      using Big = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
      return static_cast<T>(static_cast<Big>(a) * b >> 64);
    } else {
      return static_cast<T>(static_cast<typename Wide<T>::type>(a) * b >> (8 * sizeof(T)));
    }
  }
};
struct HighMultiplyAdd {
  template <class T>
  static T of(T a, T b, T c) {
    return static_cast<T>(static_cast<Unsigned<T>>(HighMultiply::of(a, b)) + static_cast<Unsigned<T>>(c));
  }
};
// A divisor of 0 gives all ones, as GPUs do; the manual calls it unspecified.
struct IntegerDivide {
  template <class T>
  static T of(T a, T b) {
    if (b == 0) return static_cast<T>(-1);
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return static_cast<T>(-static_cast<Unsigned<T>>(a));
    return static_cast<T>(a / b);
  }
};
struct Remainder {
  template <class T>
  static T of(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return 0;
    return static_cast<T>(a % b);
  }
};
// Shifts by the width and more: zeros, or the sign.
struct ShiftLeft {
  template <class T>
  static T of(T a, uint32_t b) {
    return b >= 8 * sizeof(T) ? T(0) : static_cast<T>(a << (b & (8 * sizeof(T) - 1)));
  }
};
struct ShiftRight {
  template <class T>
  static T of(T a, uint32_t b) {
    constexpr uint32_t BITS = 8 * sizeof(T);
    if constexpr (std::is_signed_v<T>) return static_cast<T>(a >> (b >= BITS ? BITS - 1 : b));
    return b >= BITS ? T(0) : static_cast<T>(a >> (b & (BITS - 1)));
  }
};
struct PopulationCount {
  template <class T>
  static uint32_t of(T a) {
    return static_cast<uint32_t>(__builtin_popcountll(a));
  }
};
struct LeadingZeros {
  static uint32_t of(uint32_t a) { return a ? static_cast<uint32_t>(__builtin_clz(a)) : 32; }
  static uint32_t of(uint64_t a) { return a ? static_cast<uint32_t>(__builtin_clzll(a)) : 64; }
};
struct FindHighest {
  template <class T>
  static uint32_t of(T a) {
    Unsigned<T> bits = static_cast<Unsigned<T>>(a);
    if (std::is_signed_v<T> && a < 0) bits = static_cast<Unsigned<T>>(~bits);
    return bits ? 63u - static_cast<uint32_t>(__builtin_clzll(bits)) : ~0u;
  }
};
struct Reverse {
  static uint32_t of(uint32_t a) {
    uint32_t r = 0;
    for (int k = 0; k < 32; ++k) r |= (a >> k & 1) << (31 - k);
    return r;
  }
  static uint64_t of(uint64_t a) {
    return static_cast<uint64_t>(of(static_cast<uint32_t>(a))) << 32 | of(static_cast<uint32_t>(a >> 32));
  }
};
struct Extract {
  template <class T>
  static T of(T a, uint32_t position, uint32_t length) {
    constexpr unsigned BITS = 8 * sizeof(T);
    if (BITS == 32) position &= 255;  // the hardware looks at all of them where it has 64 bits
    if (BITS == 32) length &= 255;
    if (length > BITS) length = BITS;
    const Unsigned<T> bits = static_cast<Unsigned<T>>(a);
    const unsigned top = position < BITS && position + length - 1 < BITS ? position + length - 1 : BITS - 1;
    const bool sign = std::is_signed_v<T> && length != 0 && (bits >> top & 1);
    if (length == 0) return 0;
    Unsigned<T> out = position >= BITS ? Unsigned<T>(0) : static_cast<Unsigned<T>>(bits >> position);
    if (length < BITS) {
      const Unsigned<T> m = static_cast<Unsigned<T>>((Unsigned<T>(1) << length) - 1);
      const unsigned kept = position >= BITS ? 0 : BITS - position;
      out &= m;
      if (sign) out |= static_cast<Unsigned<T>>(~m);
      if (sign && kept < length) out |= static_cast<Unsigned<T>>(~((Unsigned<T>(1) << kept) - 1));
    } else if (sign && position) {
      out |= position >= BITS ? static_cast<Unsigned<T>>(~Unsigned<T>(0))
                              : static_cast<Unsigned<T>>(~Unsigned<T>(0) << (BITS - position));
    }
    return static_cast<T>(out);
  }
};
template <class T>
const Ins* insert(Warp& w, const Ins* i) {
  const T *a = w.reg<T>(i->a), *b = w.reg<T>(i->b);
  const uint32_t* position = w.reg<uint32_t>(i->c);
  const uint32_t* length = w.reg<uint32_t>(i->extra->d[0]);
  write_lanes<T>(w, i->d, w.active(i), [=](int k) {
    constexpr unsigned BITS = 8 * sizeof(T);
    const unsigned at = BITS == 32 ? position[k] & 255 : position[k], count = BITS == 32 ? length[k] & 255 : length[k];
    if (count == 0 || at >= BITS) return b[k];
    const T ones = count >= BITS ? ~T(0) : static_cast<T>((T(1) << count) - 1);
    const T m = static_cast<T>(ones << at);
    return static_cast<T>((b[k] & ~m) | ((a[k] << at) & m));
  });
  return i + 1;
}

struct FunnelLeft {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
    return static_cast<uint32_t>(both << (c & 31) >> 32);
  }
};
struct FunnelRight {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
    return static_cast<uint32_t>(both >> (c & 31));
  }
};
struct FunnelLeftClamped {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
    return c >= 32 ? a : static_cast<uint32_t>(both << c >> 32);
  }
};
struct FunnelRightClamped {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
    return c >= 32 ? b : static_cast<uint32_t>(both >> c);
  }
};
struct Permute {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t selectors) {
    const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
    uint32_t out = 0;
    for (int n = 0; n < 4; ++n) {
      const uint32_t selector = selectors >> (4 * n) & 15;
      uint32_t byte = static_cast<uint32_t>(both >> (8 * (selector & 7))) & 255;
      if (selector & 8) byte = byte & 128 ? 255 : 0;
      out |= byte << (8 * n);
    }
    return out;
  }
};
struct AbsoluteDifferenceAdd {
  template <class T>
  static T of(T a, T b, T c) {
    return static_cast<T>(static_cast<Unsigned<T>>(c) +
                          (a < b ? static_cast<Unsigned<T>>(b) - static_cast<Unsigned<T>>(a)
                                 : static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b)));
  }
};
template <class A, class B>
struct DotProduct4 {
  template <class C>
  static C of(uint32_t a, uint32_t b, C c) {
    uint32_t sum = static_cast<uint32_t>(c);
    for (int n = 0; n < 4; ++n)
      sum += static_cast<uint32_t>(static_cast<int>(static_cast<A>(a >> (8 * n))) *
                                   static_cast<int>(static_cast<B>(b >> (8 * n))));
    return static_cast<C>(sum);
  }
};

const Ins* logic3(Warp& w, const Ins* i) {
  const uint32_t *a = w.reg<uint32_t>(i->a), *b = w.reg<uint32_t>(i->b), *c = w.reg<uint32_t>(i->c);
  const unsigned table = static_cast<unsigned>(i->imm);
  write_lanes<uint32_t>(w, i->d, w.active(i), [=](int k) {
    uint32_t out = 0;
    for (unsigned n = 0; n < 8; ++n)
      out |= (table >> n & 1) ? ((n & 4 ? a[k] : ~a[k]) & (n & 2 ? b[k] : ~b[k]) & (n & 1 ? c[k] : ~c[k])) : 0;
    return out;
  });
  return i + 1;
}

template <class T>
const Ins* select(Warp& w, const Ins* i) {
  const T *a = w.reg<T>(i->a), *b = w.reg<T>(i->b);
  const uint32_t p = w.pred(i->c);
  write_lanes<T>(w, i->d, w.active(i), [=](int k) { return (p >> k & 1) ? a[k] : b[k]; });
  return i + 1;
}

// --- predicates -----------------------------------------------------------------------------------------------------

enum class Test { Eq, Ne, Lt, Le, Gt, Ge, Equ, Neu, Ltu, Leu, Gtu, Geu, Num, Nan };

template <Test TEST, class T>
inline bool holds(T a, T b) {
  const bool unordered = a != a || b != b;
  switch (TEST) {
    case Test::Eq: return a == b;
    case Test::Ne: return a != b && !unordered;
    case Test::Lt: return a < b;
    case Test::Le: return a <= b;
    case Test::Gt: return a > b;
    case Test::Ge: return a >= b;
    case Test::Equ: return a == b || unordered;
    case Test::Neu: return a != b;
    case Test::Ltu: return !(a >= b);
    case Test::Leu: return !(a > b);
    case Test::Gtu: return !(a <= b);
    case Test::Geu: return !(a < b);
    case Test::Num: return !unordered;
    case Test::Nan: return unordered;
  }
  return false;
}

template <Test TEST, class T>
inline uint32_t test_lanes(const T* a, const T* b) {
  uint32_t bits = 0;
#pragma GCC ivdep
  for (int k = 0; k < LANES; ++k) bits |= holds<TEST>(a[k], b[k]) ? 1u << k : 0u;
  return bits;
}

/** What .and, .or or .xor (count) make of a comparison and the predicate c. */
uint32_t combined(Warp& w, const Ins* i, uint32_t bits) {
  const uint32_t c = i->c == NO_SLOT ? 0 : w.pred(i->c) ^ (i->imm ? ALL : 0);
  switch (i->count) {
    case 2: return bits & c;
    case 3: return bits | c;
    case 4: return bits ^ c;
  }
  return bits;
}

/** setp: with .and, .or, .xor and a predicate c; the second destination gets the opposite. */
template <Test TEST, class T>
const Ins* compare(Warp& w, const Ins* i) {
  uint32_t bits = test_lanes<TEST>(w.reg<T>(i->a), w.reg<T>(i->b));
  const uint32_t m = w.active(i);
  if (__builtin_expect(i->count == 0, 1)) {
    write_pred(w, i->d, m, bits);
    return i + 1;
  }
  const uint32_t first = combined(w, i, bits);
  if (i->b != NO_SLOT && i->extra) write_pred(w, i->extra->d[0], m, combined(w, i, ~bits));
  write_pred(w, i->d, m, first);
  return i + 1;
}

/** set: all ones or 1.0 where it holds. */
template <Test TEST, class D, class T>
const Ins* set_where(Warp& w, const Ins* i) {
  const uint32_t bits = test_lanes<TEST>(w.reg<T>(i->a), w.reg<T>(i->b));
  write_lanes<D>(w, i->d, w.active(i), [=](int k) {
    return (bits >> k & 1) ? (std::is_floating_point_v<D> ? D(1) : static_cast<D>(-1)) : D(0);
  });
  return i + 1;
}

template <class Type, int WIDTH, Test TEST>
const Ins* compare_halves(Warp& w, const Ins* i) {
  alignas(64) float a[2 * LANES], b[2 * LANES];
  Type::read(w.reg<uint16_t>(i->a), a, LANES * WIDTH);
  Type::read(w.reg<uint16_t>(i->b), b, LANES * WIDTH);
  uint32_t low = 0, high = 0;
  for (int k = 0; k < LANES; ++k) {
    low |= holds<TEST>(a[k * WIDTH], b[k * WIDTH]) ? 1u << k : 0;
    if (WIDTH == 2) high |= holds<TEST>(a[2 * k + 1], b[2 * k + 1]) ? 1u << k : 0;
  }
  const uint32_t m = w.active(i), first = combined(w, i, low);
  if (WIDTH == 2 && i->extra) write_pred(w, i->extra->d[0], m, combined(w, i, high));
  write_pred(w, i->d, m, first);
  return i + 1;
}

template <class Op>
const Ins* logic_of_predicates(Warp& w, const Ins* i) {
  const uint32_t a = w.pred(i->a), b = i->b == NO_SLOT ? 0 : w.pred(i->b);
  write_pred(w, i->d, w.active(i), Op::of(a, b));
  return i + 1;
}
BINARY(First, (void(b), a))
BINARY(NotFirst, (void(b), ~a))

// --- conversions -----------------------------------------------------------------------------------------------------

enum class Round { Nearest, Zero, Down, Up };

template <Round R, class T>
inline T to_whole(T x) {
  if constexpr (std::is_same_v<T, float>) {
    switch (R) {
      case Round::Nearest: return __builtin_rintf(x);
      case Round::Zero: return __builtin_truncf(x);
      case Round::Down: return __builtin_floorf(x);
      case Round::Up: return __builtin_ceilf(x);
    }
  } else {
    switch (R) {
      case Round::Nearest: return __builtin_rint(x);
      case Round::Zero: return __builtin_trunc(x);
      case Round::Down: return __builtin_floor(x);
      case Round::Up: return __builtin_ceil(x);
    }
  }
  return x;
}

/** Clamped to what D holds; a NaN is 0, but from or to 64 bits D's highest bit alone. */
template <Round R, class D, class S>
struct ToInteger {
  static D of(S x) {
    const S whole = to_whole<R>(x);
    constexpr S LIMIT = static_cast<S>(std::numeric_limits<D>::max()) + S(1);
    constexpr D SIGN = static_cast<D>(Unsigned<D>(1) << (8 * sizeof(D) - 1));
    if (x != x) return sizeof(D) == 8 || sizeof(S) == 8 ? SIGN : D(0);
    if (whole >= LIMIT) return std::numeric_limits<D>::max();
    if (whole < (std::is_signed_v<D> ? -LIMIT : S(0))) return std::numeric_limits<D>::min();
    return static_cast<D>(whole);
  }
};

/** An integer between widths; S is how it is read, W the register that it is read from. */
template <class S, class W>
void read_integers(const char* from, int64_t* to) {
  const W* a = reinterpret_cast<const W*>(from);
  for (int k = 0; k < LANES; ++k) to[k] = static_cast<int64_t>(static_cast<S>(a[k]));
}
/** D is what it becomes, R the register that it is written to. */
template <class D, class R>
void write_integers(Warp& w, uint32_t slot, uint32_t m, const int64_t* from) {
  write_lanes<R>(w, slot, m, [=](int k) { return static_cast<R>(static_cast<D>(from[k])); });
}
using ReadIntegers = void (*)(const char*, int64_t*);
using WriteIntegers = void (*)(Warp&, uint32_t, uint32_t, const int64_t*);

template <class S>
ReadIntegers reader(unsigned bytes) {
  return bytes == 2 ? read_integers<S, uint16_t> : bytes == 4 ? read_integers<S, uint32_t> : read_integers<S, uint64_t>;
}
template <class D>
WriteIntegers writer(unsigned bytes) {
  if (bytes == 2) return write_integers<D, std::conditional_t<std::is_signed_v<D>, int16_t, uint16_t>>;
  if (bytes == 4) return write_integers<D, std::conditional_t<std::is_signed_v<D>, int32_t, uint32_t>>;
  return write_integers<D, std::conditional_t<std::is_signed_v<D>, int64_t, uint64_t>>;
}

const Ins* convert_integer(Warp& w, const Ins* i) {
  alignas(64) int64_t t[LANES];
  reinterpret_cast<ReadIntegers>(i->extra->readers[0])(w.regs + i->a, t);
  reinterpret_cast<WriteIntegers>(i->extra->readers[1])(w, i->d, w.active(i), t);
  return i + 1;
}
template <class D, class S>
struct Saturated {
  static D of(S x) {
    constexpr __int128 LOW = std::is_signed_v<D> ? -(static_cast<__int128>(1) << (8 * sizeof(D) - 1)) : 0;
    constexpr __int128 HIGH = LOW + (static_cast<__int128>(1) << (8 * sizeof(D))) - 1;
    const __int128 v = x;
    return static_cast<D>(v < LOW ? LOW : (v > HIGH ? HIGH : v));
  }
};

const Ins* half_to_float32(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  const uint16_t* a = w.reg<uint16_t>(i->a);
  if (m == ALL) {
    floats_of(a, w.reg<float>(i->d), LANES);
    return i + 1;
  }
  alignas(64) float t[LANES];
  floats_of(a, t, LANES);
  write_lanes<float>(w, i->d, m, [&](int k) { return t[k]; });
  return i + 1;
}
/** Of a pair of halves the low or the high one. */
template <int SHIFT>
const Ins* half_of_pair_to_float32(Warp& w, const Ins* i) {
  const uint32_t* a = w.reg<uint32_t>(i->a);
  alignas(64) uint16_t h[LANES];
  for (int k = 0; k < LANES; ++k) h[k] = static_cast<uint16_t>(a[k] >> SHIFT);
  alignas(64) float t[LANES];
  floats_of(h, t, LANES);
  write_lanes<float>(w, i->d, w.active(i), [&](int k) { return t[k]; });
  return i + 1;
}
/** Both. */
const Ins* pair_to_float32(Warp& w, const Ins* i) {
  const uint32_t* a = w.reg<uint32_t>(i->a);
  const uint32_t m = w.active(i);
  if (__builtin_expect(m == ALL, 1)) {
    floats_of_pairs(a, w.reg<float>(i->d), w.reg<float>(i->b), LANES);
    return i + 1;
  }
  alignas(64) float low[LANES], high[LANES];
  floats_of_pairs(a, low, high, LANES);
  write_lanes<float>(w, i->d, m, [&](int k) { return low[k]; });
  write_lanes<float>(w, i->b, m, [&](int k) { return high[k]; });
  return i + 1;
}
const Ins* float32_to_half(Warp& w, const Ins* i) {
  const float* a = w.reg<float>(i->a);
  write_halves(w, i->d, w.active(i), LANES, [=](int k) { return a[k]; });
  return i + 1;
}
/** d = {a in the upper half, b in the lower}. */
const Ins* floats_to_half2(Warp& w, const Ins* i) {
  const float *a = w.reg<float>(i->a), *b = w.reg<float>(i->b);
  alignas(64) uint16_t high[LANES], low[LANES];
  halves_of(a, high, LANES);
  halves_of(b, low, LANES);
  write_lanes<uint32_t>(w, i->d, w.active(i), [&](int k) { return static_cast<uint32_t>(high[k]) << 16 | low[k]; });
  return i + 1;
}
template <class Type, int DIRECTION>
struct Directed {
  static uint16_t of(float x) {
    if constexpr (std::is_same_v<Type, Half>) return float_to_half_directed(x, DIRECTION);
    return float_to_bfloat16_directed(x, DIRECTION);
  }
};
template <class Op>
const Ins* floats_to_pair(Warp& w, const Ins* i) {
  const float *a = w.reg<float>(i->a), *b = w.reg<float>(i->b);
  write_lanes<uint32_t>(w, i->d, w.active(i),
                        [=](int k) { return static_cast<uint32_t>(Op::of(a[k])) << 16 | Op::of(b[k]); });
  return i + 1;
}
struct ToBfloat {
  static uint16_t of(float x) { return float_to_bfloat16(x); }
};
struct FromBfloat {
  static float of(uint16_t x) { return bfloat16_to_float(x); }
};
struct HalfToInteger32 {
  static int32_t of(uint16_t x) { return ToInteger<Round::Zero, int32_t, float>::of(half_to_float(x)); }
};
template <class S>
struct IntegerToHalf {
  static uint16_t of(S x) { return float_to_half(static_cast<float>(x)); }
};
struct ToTf32 {  // cvt.rna: nearest, ties away from zero
  static uint32_t of(uint32_t bits) {
    return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fffffffu : (bits + 0x1000) & ~0x1fffu;
  }
};

// --- the table -------------------------------------------------------------------------------------------------------

using Table = std::map<std::string, Operation>;

template <class T>
constexpr uint8_t bytes_of() {
  return sizeof(T);
}

template <class Op, class D, class A>
void add1(Table& t, const std::string& name) {
  t[name] = {unary<Op, D, A>, 2, {bytes_of<D>(), bytes_of<A>(), 0, 0}};
}
template <class Op, class D, class A, class B>
void add2(Table& t, const std::string& name) {
  t[name] = {binary<Op, D, A, B>, 3, {bytes_of<D>(), bytes_of<A>(), bytes_of<B>(), 0}};
}
template <class Op, class D, class A, class B, class C>
void add3(Table& t, const std::string& name) {
  t[name] = {ternary<Op, D, A, B, C>, 4, {bytes_of<D>(), bytes_of<A>(), bytes_of<B>(), bytes_of<C>()}};
}

template <class T>
void comparisons(Table& t, const std::string& type) {
#define COMPARISON(NAME, TEST)                                                         \
  t["setp." NAME "." + type] = {compare<Test::TEST, T>, 3, {0, sizeof(T), sizeof(T)}}; \
  if constexpr (sizeof(T) == 4)                                                        \
    t["set." NAME ".u32." + type] = {set_where<Test::TEST, uint32_t, T>, 3, {4, sizeof(T), sizeof(T)}};
  COMPARISON("eq", Eq)
  COMPARISON("ne", Ne)
  COMPARISON("lt", Lt)
  COMPARISON("le", Le)
  COMPARISON("gt", Gt)
  COMPARISON("ge", Ge)
  if (std::is_floating_point_v<T>) {
    COMPARISON("equ", Equ)
    COMPARISON("neu", Neu)
    COMPARISON("ltu", Ltu)
    COMPARISON("leu", Leu)
    COMPARISON("gtu", Gtu)
    COMPARISON("geu", Geu)
    COMPARISON("num", Num)
    COMPARISON("nan", Nan)
  } else if (!std::is_signed_v<T>) {
    COMPARISON("lo", Lt)
    COMPARISON("ls", Le)
    COMPARISON("hi", Gt)
    COMPARISON("hs", Ge)
  }
#undef COMPARISON
}

template <class Type, int WIDTH>
void half_comparisons(Table& t, const std::string& type) {
  const uint8_t b = 2 * WIDTH;
#define COMPARISON(NAME, TEST) t["setp." NAME "." + type] = {compare_halves<Type, WIDTH, Test::TEST>, 3, {0, b, b}};
  COMPARISON("eq", Eq)
  COMPARISON("ne", Ne)
  COMPARISON("lt", Lt)
  COMPARISON("le", Le)
  COMPARISON("gt", Gt)
  COMPARISON("ge", Ge)
  COMPARISON("neu", Neu)
  COMPARISON("ltu", Ltu)
  COMPARISON("gtu", Gtu)
  COMPARISON("nan", Nan)
#undef COMPARISON
}

template <class T>
void integers(Table& t, const std::string& type) {
  using U = Unsigned<T>;
  add2<Add, U, U, U>(t, "add." + type);
  add2<Subtract, U, U, U>(t, "sub." + type);
  if (sizeof(T) == 2)
    add2<WideMultiply, uint16_t, uint16_t, uint16_t>(t, "mul.lo." + type);
  else
    add2<Multiply, U, U, U>(t, "mul.lo." + type);
  add2<HighMultiply, T, T, T>(t, "mul.hi." + type);
  add3<HighMultiplyAdd, T, T, T, T>(t, "mad.hi." + type);
  add3<MultiplyAdd, U, U, U, U>(t, "mad.lo." + type);
  if constexpr (sizeof(T) < 8) {
    using W = typename Wide<T>::type;
    add2<WideMultiply, W, T, T>(t, "mul.wide." + type);
    add3<WideMultiplyAdd, W, T, T, W>(t, "mad.wide." + type);
  }
  add2<IntegerDivide, T, T, T>(t, "div." + type);
  add2<Remainder, T, T, T>(t, "rem." + type);
  add2<Smaller, T, T, T>(t, "min." + type);
  add2<Larger, T, T, T>(t, "max." + type);
  add2<ShiftRight, T, T, uint32_t>(t, "shr." + type);
  add3<AbsoluteDifferenceAdd, T, T, T, T>(t, "sad." + type);
  if (std::is_signed_v<T>) {
    add1<Negate, U, U>(t, "neg." + type);
    add1<Magnitude, T, T>(t, "abs." + type);
  }
  if constexpr (sizeof(T) >= 4) {
    add3<Extract, T, T, uint32_t, uint32_t>(t, "bfe." + type);
    add1<FindHighest, uint32_t, T>(t, "bfind." + type);
  }
  comparisons<T>(t, type);
  t["selp." + type] = {select<U>, 4, {sizeof(T), sizeof(T), sizeof(T), 0}};
  add1<Same, U, U>(t, "mov." + type);
}

template <class U>
void bits(Table& t, const std::string& type) {
  add2<And, U, U, U>(t, "and." + type);
  add2<Or, U, U, U>(t, "or." + type);
  add2<Xor, U, U, U>(t, "xor." + type);
  add1<Not, U, U>(t, "not." + type);
  add1<LogicalNot, U, U>(t, "cnot." + type);
  add2<ShiftLeft, U, U, uint32_t>(t, "shl." + type);
  add2<ShiftRight, U, U, uint32_t>(t, "shr." + type);
  add1<Same, U, U>(t, "mov." + type);
  t["selp." + type] = {select<U>, 4, {sizeof(U), sizeof(U), sizeof(U), 0}};
  comparisons<U>(t, type);
  if constexpr (sizeof(U) >= 4) {
    add1<PopulationCount, uint32_t, U>(t, "popc." + type);
    add1<LeadingZeros, uint32_t, U>(t, "clz." + type);
    add1<Reverse, U, U>(t, "brev." + type);
    t["bfi." + type] = {insert<U>, 4, {sizeof(U), sizeof(U), sizeof(U), 4}};
  }
}

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

#define HALF_OPERATION(NAME, OPERANDS, EXPRESSION)                                                        \
  t[NAME "." + type] = {[](Warp& w, const Ins* i) {                                                       \
                          return sixteen_bit<Type, WIDTH>(w, i, OPERANDS, [](float a, float b, float c) { \
                            (void)b;                                                                      \
                            (void)c;                                                                      \
                            return EXPRESSION;                                                            \
                          });                                                                             \
                        },                                                                                \
                        OPERANDS + 1,                                                                     \
                        {2 * WIDTH, 2 * WIDTH, 2 * WIDTH, 2 * WIDTH}};

template <class Type, int WIDTH>
void halves(Table& t, const std::string& type) {
  HALF_OPERATION("add", 2, a + b)
  HALF_OPERATION("sub", 2, a - b)
  HALF_OPERATION("mul", 2, a * b)
  HALF_OPERATION("fma", 3, fused_to_odd(a, b, c))
  HALF_OPERATION("fma.relu", 3, relu(fused_to_odd(a, b, c)))
  HALF_OPERATION("min", 2, smaller(a, b))
  HALF_OPERATION("max", 2, larger(a, b))
  HALF_OPERATION("min.NaN", 2, SmallerOrNan::of(a, b))
  HALF_OPERATION("max.NaN", 2, LargerOrNan::of(a, b))
  HALF_OPERATION("neg", 1, -a)
  HALF_OPERATION("abs", 1, __builtin_fabsf(a))
  HALF_OPERATION("ex2.approx", 1, Exponential2::of(a))
  HALF_OPERATION("tanh.approx", 1, HyperbolicTangent::of(a))
  half_comparisons<Type, WIDTH>(t, type);
}

template <class D, class S>
void float_to_integer(Table& t, const std::string& to, const std::string& from) {
  add1<ToInteger<Round::Nearest, D, S>, D, S>(t, "cvt.rni." + to + "." + from);
  add1<ToInteger<Round::Zero, D, S>, D, S>(t, "cvt.rzi." + to + "." + from);
  add1<ToInteger<Round::Down, D, S>, D, S>(t, "cvt.rmi." + to + "." + from);
  add1<ToInteger<Round::Up, D, S>, D, S>(t, "cvt.rpi." + to + "." + from);
}
template <class S>
void from_float(Table& t, const std::string& from) {
  float_to_integer<int16_t, S>(t, "s16", from);
  float_to_integer<uint16_t, S>(t, "u16", from);
  float_to_integer<int32_t, S>(t, "s32", from);
  float_to_integer<uint32_t, S>(t, "u32", from);
  float_to_integer<int64_t, S>(t, "s64", from);
  float_to_integer<uint64_t, S>(t, "u64", from);
}
struct ToFloat {
  template <class S>
  static S of(S a) {
    return a;
  }
};
template <class S>
void from_integer(Table& t, const std::string& from) {
  add1<ToFloat, float, S>(t, "cvt.rn.f32." + from);
  add1<ToFloat, double, S>(t, "cvt.rn.f64." + from);
  add1<IntegerToHalf<S>, uint16_t, S>(t, "cvt.rn.f16." + from);
}
template <Round R, class T>
struct Whole {
  static T of(T x) { return to_whole<R>(x); }
};
template <class D, class S>
void saturated(Table& t, const std::string& name) {
  add1<Saturated<D, S>, D, S>(t, "cvt.sat." + name);
}

Table make_table() {
  Table t;
  integers<int16_t>(t, "s16");
  integers<uint16_t>(t, "u16");
  integers<int32_t>(t, "s32");
  integers<uint32_t>(t, "u32");
  integers<int64_t>(t, "s64");
  integers<uint64_t>(t, "u64");
  bits<uint16_t>(t, "b16");
  bits<uint32_t>(t, "b32");
  bits<uint64_t>(t, "b64");
  floats<float>(t, "f32");
  floats<double>(t, "f64");
  halves<Half, 1>(t, "f16");
  halves<Half, 2>(t, "f16x2");
  halves<Bfloat, 1>(t, "bf16");
  halves<Bfloat, 2>(t, "bf16x2");
  add1<Same, uint16_t, uint16_t>(t, "mov.f16");
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
  add3<FunnelLeft, uint32_t, uint32_t, uint32_t, uint32_t>(t, "shf.l.wrap.b32");
  add3<FunnelRight, uint32_t, uint32_t, uint32_t, uint32_t>(t, "shf.r.wrap.b32");
  add3<FunnelLeftClamped, uint32_t, uint32_t, uint32_t, uint32_t>(t, "shf.l.clamp.b32");
  add3<FunnelRightClamped, uint32_t, uint32_t, uint32_t, uint32_t>(t, "shf.r.clamp.b32");
  add3<Permute, uint32_t, uint32_t, uint32_t, uint32_t>(t, "prmt.b32");
  t["lop3.b32"] = {logic3, 4, {4, 4, 4, 4}};
  add3<DotProduct4<int8_t, int8_t>, int32_t, uint32_t, uint32_t, int32_t>(t, "dp4a.s32.s32");
  add3<DotProduct4<uint8_t, uint8_t>, uint32_t, uint32_t, uint32_t, uint32_t>(t, "dp4a.u32.u32");
  add3<DotProduct4<int8_t, uint8_t>, int32_t, uint32_t, uint32_t, int32_t>(t, "dp4a.s32.u32");
  add3<DotProduct4<uint8_t, int8_t>, int32_t, uint32_t, uint32_t, int32_t>(t, "dp4a.u32.s32");
  for (const char* op : {"and", "or", "xor", "not", "mov"}) {
    const std::string name = op;
    const Handler fn = name == "and"   ? logic_of_predicates<And>
                       : name == "or"  ? logic_of_predicates<Or>
                       : name == "xor" ? logic_of_predicates<Xor>
                       : name == "not" ? logic_of_predicates<NotFirst>
                                       : logic_of_predicates<First>;
    t[name + ".pred"] = {fn, static_cast<uint8_t>(name == "not" || name == "mov" ? 2 : 3), {0, 0, 0, 0}};
  }
  from_float<float>(t, "f32");
  from_float<double>(t, "f64");
  from_integer<int16_t>(t, "s16");
  from_integer<uint16_t>(t, "u16");
  from_integer<int32_t>(t, "s32");
  from_integer<uint32_t>(t, "u32");
  from_integer<int64_t>(t, "s64");
  from_integer<uint64_t>(t, "u64");
  // The common ones between integers; any other goes through 64 bits.
  add1<ToFloat, int64_t, int32_t>(t, "cvt.s64.s32");
  add1<ToFloat, uint64_t, uint32_t>(t, "cvt.u64.u32");
  add1<ToFloat, uint32_t, uint64_t>(t, "cvt.u32.u64");
  t["cvt.f32.f16"] = {half_to_float32, 2, {4, 2}};
  t["cvt.f32.low"] = {half_of_pair_to_float32<0>, 2, {4, 4}};
  t["cvt.f32.high"] = {half_of_pair_to_float32<16>, 2, {4, 4}};
  t["cvt.rn.f16.f32"] = {float32_to_half, 2, {2, 4}};
  t["cvt.rn.f16x2.f32"] = {floats_to_half2, 3, {4, 4, 4}};
  t["cvt.rn.bf16x2.f32"] = {floats_to_pair<ToBfloat>, 3, {4, 4, 4}};
  t["cvt.rz.f16x2.f32"] = {floats_to_pair<Directed<Half, 0>>, 3, {4, 4, 4}};
  t["cvt.rz.bf16x2.f32"] = {floats_to_pair<Directed<Bfloat, 0>>, 3, {4, 4, 4}};
  add1<Directed<Half, 0>, uint16_t, float>(t, "cvt.rz.f16.f32");
  add1<Directed<Half, -1>, uint16_t, float>(t, "cvt.rm.f16.f32");
  add1<Directed<Half, 1>, uint16_t, float>(t, "cvt.rp.f16.f32");
  add1<Directed<Bfloat, 0>, uint16_t, float>(t, "cvt.rz.bf16.f32");
  add1<ToBfloat, uint16_t, float>(t, "cvt.rn.bf16.f32");
  add1<FromBfloat, float, uint16_t>(t, "cvt.f32.bf16");
  add1<HalfToInteger32, int32_t, uint16_t>(t, "cvt.rzi.s32.f16");
  add1<ToTf32, uint32_t, uint32_t>(t, "cvt.rna.tf32.f32");
  add1<ToFloat, float, double>(t, "cvt.rn.f32.f64");
  add1<ToFloat, double, float>(t, "cvt.f64.f32");
  add1<Whole<Round::Nearest, float>, float, float>(t, "cvt.rni.f32.f32");
  add1<Whole<Round::Zero, float>, float, float>(t, "cvt.rzi.f32.f32");
  add1<Whole<Round::Down, float>, float, float>(t, "cvt.rmi.f32.f32");
  add1<Whole<Round::Up, float>, float, float>(t, "cvt.rpi.f32.f32");
  add1<Whole<Round::Nearest, double>, double, double>(t, "cvt.rni.f64.f64");
  add1<Whole<Round::Zero, double>, double, double>(t, "cvt.rzi.f64.f64");
  add1<Whole<Round::Down, double>, double, double>(t, "cvt.rmi.f64.f64");
  add1<Whole<Round::Up, double>, double, double>(t, "cvt.rpi.f64.f64");
  saturated<int16_t, int32_t>(t, "s16.s32");
  saturated<uint16_t, uint32_t>(t, "u16.u32");
  saturated<int32_t, int64_t>(t, "s32.s64");
  saturated<uint32_t, int32_t>(t, "u32.s32");
  return t;
}

// clang-format off: it does not come to rest on this
#define EACH_INTEGER(X)                                                                                         \
  X("s8", int8_t) X("u8", uint8_t) X("b8", uint8_t) X("s16", int16_t) X("u16", uint16_t) X("b16", uint16_t)    \
  X("s32", int32_t) X("u32", uint32_t) X("b32", uint32_t) X("s64", int64_t) X("u64", uint64_t) X("b64", uint64_t)
// clang-format on

/** cvt between integers: any width to any, from and to registers that may be wider than the type. */
bool lower_integer_conversion(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  const Operand &d = s.operands[0], &a = s.operands[1];
  const unsigned to = l.register_bytes(d), from = a.kind == OperandKind::Register ? l.register_bytes(a) : 8;
  ReadIntegers read = nullptr;
  WriteIntegers write = nullptr;
#define READ(NAME, TYPE) \
  if (s.mods[1] == NAME) read = reader<TYPE>(from);
#define WRITE(NAME, TYPE) \
  if (s.mods[0] == NAME) write = writer<TYPE>(to);
  EACH_INTEGER(READ)
  EACH_INTEGER(WRITE)
#undef READ
#undef WRITE
  if (!read || !write) return false;
  ins.d = l.slot(d, to);
  ins.a = l.slot(a, from);
  ins.fn = convert_integer;
  l.extra(ins).readers[0] = reinterpret_cast<void (*)()>(read);
  l.extra(ins).readers[1] = reinterpret_cast<void (*)()>(write);
  return true;
}

/** mov.b64 {a, b}, mov.b32 {h, h} and back. */
template <class Part, int PARTS>
const Ins* unpack(Warp& w, const Ins* i) {
  alignas(64) Part t[PARTS][LANES];
  const Part* a = w.reg<Part>(i->a);
  for (int p = 0; p < PARTS; ++p)
    for (int k = 0; k < LANES; ++k) t[p][k] = a[k * PARTS + p];
  const uint32_t m = w.active(i);
  for (int p = 0; p < PARTS; ++p)
    if (i->extra->d[p] != NO_SLOT) write_lanes<Part>(w, i->extra->d[p], m, [&](int k) { return t[p][k]; });
  return i + 1;
}
/** The common one: two halves of 32 bits. */
const Ins* unpack_halves(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  alignas(64) uint16_t high[LANES];
  const uint32_t* a = w.reg<uint32_t>(i->a);
  for (int k = 0; k < LANES; ++k) high[k] = static_cast<uint16_t>(a[k] >> 16);
  const uint32_t low_slot = i->extra->d[0], high_slot = i->extra->d[1];
  if (low_slot != NO_SLOT) write_lanes<uint16_t>(w, low_slot, m, [=](int k) { return static_cast<uint16_t>(a[k]); });
  if (high_slot != NO_SLOT) write_lanes<uint16_t>(w, high_slot, m, [&](int k) { return high[k]; });
  return i + 1;
}
template <class Part, int PARTS>
const Ins* pack(Warp& w, const Ins* i) {
  alignas(64) Part t[PARTS * LANES];
  for (int p = 0; p < PARTS; ++p) {
    const Part* a = w.reg<Part>(i->extra->a[p]);
    for (int k = 0; k < LANES; ++k) t[k * PARTS + p] = a[k];
  }
  const uint32_t m = w.active(i);
  Part* d = w.reg<Part>(i->d);
  if (m == ALL) {
    memcpy(d, t, sizeof t);
  } else {
    for (int k = 0; k < LANES; ++k)
      if (m >> k & 1)
        for (int p = 0; p < PARTS; ++p) d[k * PARTS + p] = t[k * PARTS + p];
  }
  return i + 1;
}

bool lower_move(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  const Operand &d = s.operands[0], &a = s.operands[1];
  const bool unpacks = d.kind == OperandKind::Vector;
  if (!unpacks && a.kind != OperandKind::Vector) return false;
  const unsigned bytes =
      s.mods[0] == "b64" || s.mods[0] == "u64" ? 8 : (s.mods[0] == "b32" || s.mods[0] == "u32" ? 4 : 0);
  const size_t parts = unpacks ? d.items.size() : a.items.size();
  const unsigned part = parts ? bytes / static_cast<unsigned>(parts) : 0;
  Extra& extra = l.extra(ins);
  if (unpacks) {
    for (const Operand& item : d.items)
      extra.d.push_back(item.kind == OperandKind::Sink ? NO_SLOT : l.slot(item, part));
    ins.a = l.slot(a, bytes);
    ins.fn = parts == 2 && part == 4   ? unpack<uint32_t, 2>
             : parts == 2 && part == 2 ? unpack_halves
             : parts == 4 && part == 2 ? unpack<uint16_t, 4>
                                       : nullptr;
  } else {
    for (const Operand& item : a.items) extra.a.push_back(l.slot(item, part));
    ins.d = l.slot(d, bytes);
    ins.fn = parts == 2 && part == 4   ? pack<uint32_t, 2>
             : parts == 2 && part == 2 ? pack<uint16_t, 2>
             : parts == 4 && part == 2 ? pack<uint16_t, 4>
                                       : nullptr;
  }
  return ins.fn != nullptr;
}

/** Chains of multiply-adds, one after the other. */
const Ins* multiply_adds(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  const Link* links = i->extra->links.data();
  const Chain *chain = i->extra->chains.data(), *const end = chain + i->extra->chains.size();
  while (chain != end) {
    if (__builtin_expect(m != ALL, 0)) {
      alignas(64) float t[LANES];
      multiply_add_chain(w.regs, *chain, links, t);
      blend(w.reg<uint32_t>(chain->d), reinterpret_cast<const uint32_t*>(t), m);
    } else if (chain->first_of_four) {
      multiply_add_four(w.regs, chain, links);
      links += 4 * chain->count;
      chain += 4;
      continue;
    } else {
      multiply_add_chain(w.regs, *chain, links, w.reg<float>(chain->d));
    }
    links += chain->count;
    ++chain;
  }
  return i + 1;
}

/** Chains whose results are nothing that one of them still reads may be done at once, if they fit together. */
void find_fours(Extra& extra) {
  std::vector<Chain>& chains = extra.chains;
  const Link* links = extra.links.data();
  for (size_t n = 0; n < chains.size();) {
    const uint32_t count = chains[n].count;
    bool fits = n + 4 <= chains.size();
    for (size_t other = n; fits && other < n + 4; ++other) {
      const Link* own = links + (other - n) * count;
      fits = chains[other].floats && chains[other].count == count;
      for (uint32_t at = 0; fits && at < count; ++at) fits = own[at].a == links[at].a;
    }
    for (size_t one = n; fits && one < n + 4; ++one) {
      for (size_t other = n; fits && other < n + 4; ++other)
        fits = one == other || (chains[one].d != chains[other].d && chains[one].d != chains[other].c);
      for (uint32_t at = 0; fits && at < 4 * count; ++at)
        fits = links[at].a != chains[one].d && links[at].b != chains[one].d;
    }
    chains[n].first_of_four = fits;
    for (size_t last = n + (fits ? 4 : 1); n < last; ++n) links += chains[n].count;
  }
}

/** fma.run (fuse.h). */
bool lower_multiply_adds(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  Extra& extra = l.extra(ins);
  const std::vector<Operand>&results = s.operands[0].items, &lengths = s.operands[2].items;
  const Operand* term = s.operands[1].items.data();
  for (size_t n = 0; n < results.size(); ++n) {
    Chain chain{l.slot(*term++, 4), l.slot(results[n], 4), static_cast<uint32_t>(lengths[n].value), true};
    for (uint32_t link = 0; link < chain.count; ++link, term += 2) {
      const auto half_of = [](const Operand& o) {
        return static_cast<uint8_t>(o.kind == OperandKind::Register ? o.value : 0);
      };
      extra.links.push_back({l.slot(term[0], 4), l.slot(term[1], 4), half_of(term[0]), half_of(term[1])});
      chain.floats &= !extra.links.back().a_half && !extra.links.back().b_half;
    }
    extra.chains.push_back(chain);
  }
  find_fours(extra);
  ins.fn = multiply_adds;
  return true;
}

/** The name under which an operation stands in the table: without what changes nothing here. */
std::string key_of(const Statement& s) {
  std::string key = s.op;
  const bool conversion = s.op == "cvt";
  for (const std::string& mod : s.mods) {
    if (mod == "ftz" || mod == "satfinite") continue;
    if (!conversion && mod == "rn") continue;
    if (mod == "sat" && !conversion) continue;
    if (mod == "noftz") continue;
    key += "." + mod;
  }
  return key;
}

}  // namespace

const std::map<std::string, Operation>& arithmetic_operations() {
  static const Table table = make_table();
  return table;
}

bool lower_arithmetic(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.operands.empty() || s.mods.empty()) return false;
  if (s.op == "mov" && s.operands.size() == 2 && lower_move(l, ins)) return true;
  if (s.op == "fma" && s.mods[0] == "run") return lower_multiply_adds(l, ins);
  if (s.op == "cvt" && s.mods.back() == "pair") {
    ins.fn = pair_to_float32;
    ins.d = l.slot(s.operands[0].items[0], 4);
    ins.b = l.slot(s.operands[0].items[1], 4);
    ins.a = l.slot(s.operands[1], 4);
    return true;
  }
  std::string key = key_of(s);
  const auto& table = arithmetic_operations();
  auto found = table.find(key);
  if (s.op == "setp" && found == table.end() && s.mods.size() >= 3) {
    // setp.lt.and.f32 p|q, a, b, c
    std::string plain = "setp." + s.mods[0] + "." + s.mods.back();
    found = table.find(plain);
    ins.count = s.mods[1] == "and" ? 2 : (s.mods[1] == "or" ? 3 : (s.mods[1] == "xor" ? 4 : 0));
    if (found == table.end() || (ins.count == 0 && s.mods[1] != "ftz")) return false;
  } else if (s.op == "setp") {
    ins.count = 0;
  }
  if (found == table.end() && s.op == "cvt" && s.mods.size() == 2) {
    return lower_integer_conversion(l, ins);
  }
  if (found == table.end()) return false;
  const std::string& type = s.mods.back();
  if (has(s, "ftz") && type.rfind("f16", 0) == 0 && s.op != "ex2") return false;  // seldom.cpp
  const bool to_unit = has(s, "sat") && s.op != "cvt";
  if (to_unit && type[0] != 'f') return false;
  const Operation& op = found->second;
  ins.fn = op.fn;
  const bool pair = s.operands[0].kind == OperandKind::Vector;
  if (pair) {
    if (s.op != "setp" || s.operands[0].items.size() != 2) return false;
    if (ins.count == 0) ins.count = 1;
    l.extra(ins).d.push_back(l.slot(s.operands[0].items[1], 0));
    ins.d = l.slot(s.operands[0].items[0], 0);
  } else {
    ins.d = l.slot(s.operands[0], op.bytes[0]);
  }
  uint32_t* const slots[] = {&ins.d, &ins.a, &ins.b, &ins.c};
  if (s.operands.size() < op.operands) return false;
  for (unsigned n = 1; n < op.operands; ++n) *slots[n] = l.slot(s.operands[n], op.bytes[n]);
  if (s.op == "setp" && s.operands.size() == 4) {
    ins.c = l.slot(s.operands[3], 0);
    ins.imm = s.operands[3].negated;
  }
  if (s.op == "lop3") ins.imm = s.operands[4].value;
  if (s.op == "bfi") l.extra(ins).d.push_back(l.slot(s.operands[4], 4));
  if (to_unit) saturate_result(l, ins, type.rfind("f16", 0) == 0 ? 2 : op.bytes[0], type == "f16x2" ? 2 : 1);
  // Addition and its like flush by the processor's mode; these only choose.
  if (has(s, "ftz") && type == "f32" && (s.op == "min" || s.op == "max" || s.op == "neg" || s.op == "abs"))
    flush_result(l, ins);
  return true;
}

}  // namespace flashcore::emu::ptx
