// setp, set and selp, and logic on predicates.
#pragma once
#include <string>
#include <type_traits>

#include "operations.h"
#include "shapes.h"

namespace flashcore::emu::ptx {

namespace {

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

/** Combines a comparison with the predicate c by .and, .or or .xor (`count` selects which). */
uint32_t combined(Warp& w, const Ins* i, uint32_t bits) {
  const uint32_t c = i->c == NO_SLOT ? 0 : w.pred(i->c) ^ (i->imm ? ALL : 0);
  switch (i->count) {
    case 2: return bits & c;
    case 3: return bits | c;
    case 4: return bits ^ c;
  }
  return bits;
}

/** setp, also with .and, .or or .xor and a predicate c. The second destination gets the opposite of the first. */
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

/** set: the result is all ones or 1.0 if the comparison is true, else 0. */
template <Test TEST, class D, class T>
const Ins* set_where(Warp& w, const Ins* i) {
  const uint32_t bits = test_lanes<TEST>(w.reg<T>(i->a), w.reg<T>(i->b));
  write_lanes<D>(w, i->d, w.active(i), [=](int k) {
    return (bits >> k & 1) ? (std::is_floating_point_v<D> ? D(1) : static_cast<D>(-1)) : D(0);
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

template <class Op>
const Ins* logic_of_predicates(Warp& w, const Ins* i) {
  const uint32_t a = w.pred(i->a), b = i->b == NO_SLOT ? 0 : w.pred(i->b);
  write_pred(w, i->d, w.active(i), Op::of(a, b));
  return i + 1;
}
BINARY(First, (void(b), a))
BINARY(NotFirst, (void(b), ~a))

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

/** Logic on predicates. */
void add_predicates(Table& t) {
  for (const char* op : {"and", "or", "xor", "not", "mov"}) {
    const std::string name = op;
    const Handler fn = name == "and"   ? logic_of_predicates<And>
                       : name == "or"  ? logic_of_predicates<Or>
                       : name == "xor" ? logic_of_predicates<Xor>
                       : name == "not" ? logic_of_predicates<NotFirst>
                                       : logic_of_predicates<First>;
    t[name + ".pred"] = {fn, static_cast<uint8_t>(name == "not" || name == "mov" ? 2 : 3), {0, 0, 0, 0}};
  }
}

}  // namespace

}  // namespace flashcore::emu::ptx
