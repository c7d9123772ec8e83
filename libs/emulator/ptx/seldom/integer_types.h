// Integers of any width up to 64 bits, held in a wider type.
#pragma once
#include <cstdlib>
#include <string>

#include "lanes.h"

namespace flashcore::emu::ptx {

namespace {

struct IntegerType {
  unsigned bits = 0;
  bool is_signed = false;
};
IntegerType integer_type(const std::string& type) {
  if (type.size() < 2 || (type[0] != 's' && type[0] != 'u')) return {};
  const auto bits = static_cast<unsigned>(atoi(type.c_str() + 1));
  if (bits < 2 || bits > 64 || (bits & (bits - 1)) != 0) return {};
  return {bits, type[0] == 's'};
}
using Wide = __int128;
Wide value_of(Word bits, const IntegerType& t) {
  const Word kept = t.bits == 64 ? bits : bits & ((Word(1) << t.bits) - 1);
  if (t.is_signed && (kept >> (t.bits - 1) & 1)) return static_cast<Wide>(kept) - (static_cast<Wide>(1) << t.bits);
  return static_cast<Wide>(kept);
}
Wide clamped(Wide value, const IntegerType& t) {
  const Wide low = t.is_signed ? -(static_cast<Wide>(1) << (t.bits - 1)) : 0;
  const Wide high = low + (static_cast<Wide>(1) << t.bits) - 1;
  return value < low ? low : (value > high ? high : value);
}

}  // namespace

}  // namespace flashcore::emu::ptx
