// What a mark of an access holds, and how a report calls it.
#pragma once
#include <algorithm>
#include <string>

#include "../lanes.h"
#include "../lower.h"
#include "../races.h"

namespace flashcore::emu::ptx {

namespace {

constexpr Mark IN_FLIGHT = 1ull << 31, VOLATILE = 1ull << 30;
constexpr Mark THREAD_BITS = 1023, WARP_BITS = 31 << 5;
constexpr uint64_t PLACES = 1 << 20;
constexpr uint32_t LINE_BYTES = 64;
constexpr uint16_t SEVERAL = 0xffff;
constexpr uint32_t NO_NOTE = ~0u;
constexpr uint32_t MOST_LINES = 4;  // taken as if all of them were read
constexpr size_t LOG_LENGTH = 8192;

uint32_t stamp_of(Mark mark) { return static_cast<uint32_t>(mark >> 32); }
unsigned thread_of(Mark mark) { return static_cast<unsigned>(mark & THREAD_BITS); }
std::string place_of(const BlockRun& block, Mark mark) {
  return block.kernel().program->describe(static_cast<int>(mark >> 10 & (PLACES - 1)));
}

bool orders_global_memory(const Function& function) {
  return std::any_of(function.statements.begin(), function.statements.end(), [](const Statement& s) {
    if (s.op == "membar") return !has(s, "cta");
    if (s.op == "fence") return has(s, "gpu") || has(s, "gl") || has(s, "sys");
    return (s.op == "atom" || s.op == "red") && !has(s, "shared") && !has(s, "shared::cta");
  });
}

const char* why_volatile(Mark either) { return either & VOLATILE ? " (volatile orders nothing)" : ""; }
bool are_apart(const uint32_t* offsets, uint32_t m) {
  for (uint32_t left = m; left; left &= left - 1) {
    const uint32_t lane = left & -left;
    if ((lanes_with(offsets, offsets[__builtin_ctz(left)]) & m) != lane) return false;
  }
  return true;
}

const char* verb(bool writes) { return writes ? " writes" : " reads"; }

}  // namespace

}  // namespace flashcore::emu::ptx
