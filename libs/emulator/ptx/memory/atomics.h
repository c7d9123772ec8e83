// atom and red.
#pragma once
#include <cmath>
#include <map>
#include <string>

#include "../halves.h"
#include "addresses.h"

namespace flashcore::emu::ptx {

namespace {

enum class Atomic : uint8_t { Add, Min, Max, And, Or, Xor, Exchange, CompareExchange, Increment, Decrement };

template <class T>
T smaller_of(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T larger_of(T a, T b) {
  return b > a ? b : a;
}

template <class T>
T combine(Atomic op, T old, T b, T c) {
  switch (op) {
    case Atomic::Add: return static_cast<T>(old + b);
    case Atomic::Min: return smaller_of(old, b);
    case Atomic::Max: return larger_of(old, b);
    case Atomic::Exchange: return b;
    case Atomic::CompareExchange: return old == b ? c : old;
    default: break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (op) {
      case Atomic::And: return old & b;
      case Atomic::Or: return old | b;
      case Atomic::Xor: return old ^ b;
      case Atomic::Increment: return old >= b ? T(0) : static_cast<T>(old + 1);
      case Atomic::Decrement: return old == 0 || old > b ? b : static_cast<T>(old - 1);
      default: break;
    }
  }
  return old;
}

/** One 16-bit float, or a pair of them. */
template <uint16_t (*TO)(float), float (*FROM)(uint16_t), class Bits>
struct Sixteens {
  Bits bits;
  template <class F>
  static Sixteens each(Sixteens a, Sixteens b, const F& of) {
    Bits out = 0;
    for (unsigned shift = 0; shift < 8 * sizeof(Bits); shift += 16) {
      const float x = FROM(static_cast<uint16_t>(a.bits >> shift)), y = FROM(static_cast<uint16_t>(b.bits >> shift));
      out = static_cast<Bits>(out | static_cast<Bits>(TO(of(x, y))) << shift);
    }
    return {out};
  }
  friend Sixteens operator+(Sixteens a, Sixteens b) {
    return each(a, b, [](float x, float y) { return x + y; });
  }
  // If one number is NaN, the result is the other number.
  friend Sixteens smaller_of(Sixteens a, Sixteens b) {
    return each(a, b, [](float x, float y) { return x < y || y != y ? x : (x == y && std::signbit(x) ? x : y); });
  }
  friend Sixteens larger_of(Sixteens a, Sixteens b) {
    return each(a, b, [](float x, float y) { return x > y || y != y ? x : (x == y && std::signbit(y) ? x : y); });
  }
  friend bool operator==(Sixteens a, Sixteens b) { return a.bits == b.bits; }
};
using OneHalf = Sixteens<float_to_half, half_to_float, uint16_t>;
using OneBfloat = Sixteens<float_to_bfloat16, bfloat16_to_float, uint16_t>;
using HalfPair = Sixteens<float_to_half, half_to_float, uint32_t>;
using BfloatPair = Sixteens<float_to_bfloat16, bfloat16_to_float, uint32_t>;
/** Combines the value in memory with b (and c), and returns the old value. */
template <class T, class Bits>
Bits combine_at(Atomic op, char* place, const std::pair<Bits, Bits>& operands, bool& changed) {
  const auto& [b, c] = operands;
  auto* at = reinterpret_cast<Bits*>(place);
  Bits found = __atomic_load_n(at, __ATOMIC_RELAXED), wanted;
  do {
    T was, x, y;
    memcpy(&was, &found, sizeof was);
    memcpy(&x, &b, sizeof x);
    memcpy(&y, &c, sizeof y);
    const T now = combine<T>(op, was, x, y);
    memcpy(&wanted, &now, sizeof now);
  } while (!__atomic_compare_exchange_n(at, &found, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
  changed |= wanted != found;
  return found;
}

/** Operands: options[0] is the operation. */
template <class T, class Bits>
const Ins* atomic(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  if (!m) return i + 1;
  Pointers p;
  resolve({w, i, m, sizeof(T), Access::ReadWrite}, p);
  const auto op = static_cast<Atomic>(i->extra->options[0]);
  const Bits* b = w.reg<Bits>(i->b);
  const Bits* c = i->c == NO_SLOT ? b : w.reg<Bits>(i->c);
  alignas(64) Bits old[LANES] = {};
  bool changed = false;
  for (int k = 0; k < LANES; ++k) {
    if (!(m >> k & 1)) continue;
    old[k] = combine_at<T, Bits>(op, p.at[k], {b[k], c[k]}, changed);
  }
  if (!changed) {
    w.looked = true;
    w.budget -= COST_OF_UNCHANGED;
  }
  if (i->d != NO_SLOT) write_lanes<Bits>(w, i->d, m, [&](int k) { return old[k]; });
  return i + 1;
}

/** A vector atomic of fp32 in device memory treats subnormal inputs and results as 0, as on an H200. */
struct Flushed {
  float value;
  float flushed() const { return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value; }
  friend Flushed operator+(Flushed a, Flushed b) { return {Flushed{a.flushed() + b.flushed()}.flushed()}; }
  friend Flushed smaller_of(Flushed a, Flushed b) { return b.value < a.value ? b : a; }
  friend Flushed larger_of(Flushed a, Flushed b) { return a.value < b.value ? b : a; }
  friend bool operator==(Flushed a, Flushed b) { return a.value == b.value; }
};

/**
 * Applies the operation to each number of a vector separately. Operands: options[0] is the operation; extra has d, if
 * it is wanted, and b.
 */
template <class T, class Bits>
const Ins* atomic_vector(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  if (!m) return i + 1;
  const Extra& x = *i->extra;
  const size_t count = x.b.size();
  const auto op = static_cast<Atomic>(x.options[0]);
  Pointers p;
  resolve({w, i, m, static_cast<unsigned>(count * sizeof(Bits)), Access::ReadWrite}, p);
  bool changed = false;
  for (size_t n = 0; n < count; ++n) {
    const Bits* b = w.reg<Bits>(x.b[n]);
    alignas(64) Bits old[LANES] = {};
    for (int k = 0; k < LANES; ++k)
      if (m >> k & 1) old[k] = combine_at<T, Bits>(op, p.at[k] + n * sizeof(Bits), {b[k], b[k]}, changed);
    if (!x.d.empty()) write_lanes<Bits>(w, x.d[n], m, [&](int k) { return old[k]; });
  }
  if (!changed) {
    w.looked = true;
    w.budget -= COST_OF_UNCHANGED;
  }
  return i + 1;
}

/** A number type that atomics work on, with its handlers for scalars and vectors. */
struct AtomicType {
  unsigned bytes;
  Handler one, several;
};
const std::map<std::string, AtomicType>& atomic_types() {
  static const std::map<std::string, AtomicType> TYPES = {
      {"u32", {4, atomic<uint32_t, uint32_t>, nullptr}},
      {"b32", {4, atomic<uint32_t, uint32_t>, nullptr}},
      {"s32", {4, atomic<int32_t, uint32_t>, nullptr}},
      {"u64", {8, atomic<uint64_t, uint64_t>, nullptr}},
      {"b64", {8, atomic<uint64_t, uint64_t>, nullptr}},
      {"s64", {8, atomic<int64_t, uint64_t>, nullptr}},
      {"b16", {2, atomic<uint16_t, uint16_t>, nullptr}},
      {"f64", {8, atomic<double, uint64_t>, nullptr}},
      {"f32", {4, atomic<float, uint32_t>, atomic_vector<Flushed, uint32_t>}},
      {"f16", {2, atomic<OneHalf, uint16_t>, atomic_vector<OneHalf, uint16_t>}},
      {"bf16", {2, atomic<OneBfloat, uint16_t>, atomic_vector<OneBfloat, uint16_t>}},
      {"f16x2", {4, atomic<HalfPair, uint32_t>, atomic_vector<HalfPair, uint32_t>}},
      {"bf16x2", {4, atomic<BfloatPair, uint32_t>, atomic_vector<BfloatPair, uint32_t>}}};
  return TYPES;
}

bool lower_atomic(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  const bool returns = s.op == "atom";
  static const std::map<std::string, Atomic> OPERATIONS = {{"add", Atomic::Add},       {"min", Atomic::Min},
                                                           {"max", Atomic::Max},       {"and", Atomic::And},
                                                           {"or", Atomic::Or},         {"xor", Atomic::Xor},
                                                           {"exch", Atomic::Exchange}, {"cas", Atomic::CompareExchange},
                                                           {"inc", Atomic::Increment}, {"dec", Atomic::Decrement}};
  Extra& extra = l.extra(ins);
  bool known = false;
  const AtomicType* found_type = nullptr;
  ins.space = GENERIC_SPACE;
  ins.is_checked = l.is_checked();
  for (const std::string& mod : s.mods) {
    if (mod == "global") ins.space = GLOBAL_SPACE;
    if (mod == "shared" || mod == "shared::cta") ins.space = SHARED_SPACE;
    if (mod == "shared::cluster") ins.space = CLUSTER_SPACE;
    if (mod == "async") return false;
    const auto type = atomic_types().find(mod);
    if (type != atomic_types().end()) found_type = &type->second;
    const auto found = OPERATIONS.find(mod);
    if (found == OPERATIONS.end()) continue;
    extra.options[0] = static_cast<int>(found->second);
    known = true;
  }
  if (!known || !found_type) return false;
  const unsigned bytes = found_type->bytes;
  const unsigned count = has(s, "v8") ? 8 : has(s, "v4") ? 4 : has(s, "v2") ? 2 : 1;
  if (count > 1) {
    ins.fn = found_type->several;
    if (!ins.fn || count * bytes > 16) return false;
    if (returns)
      for (const Operand& item : s.operands[0].items) extra.d.push_back(l.slot(item, bytes));
    l.address(s.operands[returns ? 1 : 0], ins);
    for (const Operand& item : s.operands[returns ? 2 : 1].items) extra.b.push_back(l.slot(item, bytes));
    return extra.b.size() == count && (!returns || extra.d.size() == count);
  }
  ins.fn = found_type->one;
  size_t n = 0;
  if (returns) {
    const Operand& d = s.operands[n++];
    if (d.kind != OperandKind::Sink) ins.d = l.slot(d, bytes);
  }
  l.address(s.operands[n++], ins);
  ins.b = l.slot(s.operands[n++], bytes);
  if (n < s.operands.size() && !has(s, "L2::cache_hint")) ins.c = l.slot(s.operands[n], bytes);
  return static_cast<Atomic>(extra.options[0]) != Atomic::CompareExchange || ins.c != NO_SLOT;
}

}  // namespace

}  // namespace flashcore::emu::ptx
