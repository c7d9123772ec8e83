// ld and st.
#pragma once
#include <algorithm>
#include <string>

#include "../lanes.h"
#include "addresses.h"

namespace flashcore::emu::ptx {

namespace {

/** Fills the four registers of a load with rows of 16 bytes. `read` writes into the registers that it receives. */
template <class Read>
void write_rows(Warp& w, const Ins* i, uint32_t m, const Read& read) {
  const std::vector<uint32_t>& slots = i->extra->d;
  alignas(64) uint32_t t[4][LANES];
  uint32_t* registers[4];
  for (int n = 0; n < 4; ++n) registers[n] = m == ALL && slots[n] != NO_SLOT ? w.reg<uint32_t>(slots[n]) : t[n];
  read(registers);
  for (int n = 0; n < 4 && m != ALL; ++n)
    if (slots[n] != NO_SLOT) blend(w.reg<uint32_t>(slots[n]), t[n], m);
}

template <class T, class R, int COUNT>
const Ins* load(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  if (!m) return i + 1;
  Pointers p;
  resolve({w, i, m, sizeof(T) * COUNT, Access::Read}, p);
  if constexpr (COUNT == 1) {
    const auto value_at = [&](int k) {
      T value;
      memcpy(&value, p.at[k], sizeof value);
      return static_cast<R>(value);
    };
    const Pattern pattern = pattern_of(p.at, sizeof(T));
    if (pattern == Pattern::Uniform) {
      const R r = value_at(0);
      write_lanes<R>(w, i->d, m, [=](int) { return r; });
    } else if (pattern == Pattern::Contiguous) {
      alignas(64) T t[LANES];
      memcpy(t, p.at[0], sizeof t);
      write_lanes<R>(w, i->d, m, [&](int k) { return static_cast<R>(t[k]); });
    } else {
      write_lanes<R>(w, i->d, m, value_at);
    }
  } else if constexpr (COUNT == 4 && sizeof(T) == 4 && sizeof(R) == 4) {
    write_rows(w, i, m, [&](uint32_t* const* to) { rows_to_registers([&](int k) { return p.at[k]; }, to); });
  } else if constexpr (COUNT == 2 && sizeof(T) == 4 && sizeof(R) == 4) {
    alignas(64) uint64_t pairs[LANES];
    for (int k = 0; k < LANES; ++k) memcpy(&pairs[k], p.at[k], sizeof pairs[k]);
    for (int n = 0; n < 2; ++n)
      if (i->extra->d[n] != NO_SLOT)
        write_lanes<uint32_t>(w, i->extra->d[n], m, [&](int k) { return static_cast<uint32_t>(pairs[k] >> (32 * n)); });
  } else {
    alignas(64) T t[COUNT][LANES];
    for (int k = 0; k < LANES; ++k) {
      T values[COUNT];
      memcpy(values, p.at[k], sizeof values);
      for (int n = 0; n < COUNT; ++n) t[n][k] = values[n];
    }
    for (int n = 0; n < COUNT; ++n)
      if (i->extra->d[n] != NO_SLOT)
        write_lanes<R>(w, i->extra->d[n], m, [&](int k) { return static_cast<R>(t[n][k]); });
  }
  return i + 1;
}

/** Loads from shared memory. Common cases: all lanes read one address, or adjacent words. */
template <class T, class R>
const Ins* load_shared(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  if (!m) return i + 1;
  alignas(64) uint32_t offsets[LANES];
  resolve_shared({w, i, m, sizeof(T), Access::Read}, offsets);
  const char* const base = w.block->shared;
  const uint32_t first = offsets[0];
  const Pattern pattern = pattern_of(offsets, sizeof(T));
  if (pattern == Pattern::Uniform) {
    T value;
    memcpy(&value, base + first, sizeof value);
    const R r = static_cast<R>(value);
    write_lanes<R>(w, i->d, m, [=](int) { return r; });
  } else if (pattern == Pattern::Contiguous) {
    alignas(64) T t[LANES];
    memcpy(t, base + first, sizeof t);
    write_lanes<R>(w, i->d, m, [&](int k) { return static_cast<R>(t[k]); });
  } else {
    if constexpr (sizeof(T) == 4 && sizeof(R) == 4)
      if (m == ALL && words_nearby({base, w.block->shared_bytes}, offsets, 0, w.reg<uint32_t>(i->d))) return i + 1;
    write_lanes<R>(w, i->d, m, [=](int k) { return static_cast<R>(*reinterpret_cast<const T*>(base + offsets[k])); });
  }
  return i + 1;
}

/** True if the whole warp accesses shared memory, and neither the race check nor a profile observes the access. */
inline bool plainly_shared(Warp& w, const Ins* i) {
  return w.active(i) == ALL && !i->wide_address && !w.block->shadow && !w.block->observed;
}

/** Records the accesses for the race check, and then runs the plain handler. */
__attribute__((noinline)) const Ins* noted_first(const WarpAccess& by, Handler plain) {
  BlockRun& block = *by.w.block;
  alignas(64) uint32_t offsets[LANES];
  resolve_shared(by, offsets);
  Shadow* const shadow = std::exchange(block.shadow, nullptr);
  const Ins* const next = plain(by.w, by.i);  // it cannot fault: all addresses are checked
  block.shadow = shadow;
  return next;
}
/** True if the run looks for races and the whole warp takes part in the access. */
inline bool is_watched(Warp& w, const Ins* i) {
  return __builtin_expect(w.block->shadow != nullptr, 0) && w.active(i) == ALL && !w.block->observed;
}

/** Copies the words if those of every eight lanes are adjacent. */
__attribute__((noinline)) const Ins* load_shared_eights(Warp& w, const Ins* i) {
  const BlockRun& block = *w.block;
  const uint32_t* at = w.reg<uint32_t>(i->a);
  const auto add = static_cast<uint32_t>(i->imm);
  if (!plainly_shared(w, i) || !eights_of_words(block.shared_bytes, at, add))
    return load_shared<uint32_t, uint32_t>(w, i);
  const uint32_t from[] = {at[0] + add, at[8] + add, at[16] + add, at[24] + add};  // the load may overwrite them
  for (int n = 0; n < 4; ++n) memcpy(w.reg<uint32_t>(i->d) + 8 * n, block.shared + from[n], 32);
  return i + 1;
}

/** Loads words that are close together as one block, and selects them from it. */
const Ins* load_shared_words(Warp& w, const Ins* i) {
  if (is_watched(w, i)) return noted_first({w, i, ALL, 4, Access::Read}, load_shared_words);
  const BlockRun& block = *w.block;
  if (plainly_shared(w, i) && words_nearby({block.shared, block.shared_bytes}, w.reg<uint32_t>(i->a),
                                           static_cast<uint32_t>(i->imm), w.reg<uint32_t>(i->d)))
    return i + 1;
  return load_shared_eights(w, i);
}

/** 16 bytes per lane. */
const Ins* load_shared_words4(Warp& w, const Ins* i) {
  if (is_watched(w, i)) return noted_first({w, i, ALL, 16, Access::Read}, load_shared_words4);
  const uint32_t m = w.active(i);
  if (!m) return i + 1;
  const char* const base = w.block->shared;
  const std::vector<uint32_t>& slots = i->extra->d;
  if (plainly_shared(w, i) && std::find(slots.begin(), slots.end(), NO_SLOT) == slots.end()) {
    uint32_t* const to[] = {w.reg<uint32_t>(slots[0]), w.reg<uint32_t>(slots[1]), w.reg<uint32_t>(slots[2]),
                            w.reg<uint32_t>(slots[3])};
    if (shared_rows_to_registers({base, w.block->shared_bytes}, w.reg<uint32_t>(i->a), static_cast<uint32_t>(i->imm),
                                 to))
      return i + 1;
  }
  alignas(64) uint32_t offsets[LANES];
  resolve_shared({w, i, m, 16, Access::Read}, offsets);
  write_rows(w, i, m, [&](uint32_t* const* to) { rows_to_registers([&](int k) { return base + offsets[k]; }, to); });
  return i + 1;
}

template <class T, class R, int COUNT>
const Ins* store(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  if (!m) return i + 1;
  Pointers p;
  resolve({w, i, m, sizeof(T) * COUNT, Access::Write}, p);
  const R* values[COUNT];
  if constexpr (COUNT == 1)
    values[0] = w.reg<R>(i->d);
  else
    for (int n = 0; n < COUNT; ++n) values[n] = w.reg<R>(i->extra->d[n]);
  const auto store_lane = [&](int k) {
    T t[COUNT];
    for (int n = 0; n < COUNT; ++n) t[n] = static_cast<T>(values[n][k]);
    memcpy(p.at[k], t, sizeof t);
  };
  if (__builtin_expect(m != ALL, 0)) {
    for (int k = 0; k < LANES; ++k)
      if (m >> k & 1) store_lane(k);
  } else if constexpr (COUNT == 4 && sizeof(T) == 4 && sizeof(R) == 4) {
    registers_to_rows(values, [&](int k) { return p.at[k]; });
  } else if (COUNT == 1 && sizeof(T) == sizeof(R) && pattern_of(p.at, sizeof(T)) == Pattern::Contiguous) {
    memcpy(p.at[0], values[0], sizeof(T) * LANES);
  } else {
    for (int k = 0; k < LANES; ++k) store_lane(k);
  }
  return i + 1;
}

/** Copies the words if those of every eight lanes are adjacent. */
const Ins* store_shared_words(Warp& w, const Ins* i) {
  if (is_watched(w, i)) return noted_first({w, i, ALL, 4, Access::Write}, store_shared_words);
  const BlockRun& block = *w.block;
  const uint32_t* at = w.reg<uint32_t>(i->a);
  const auto add = static_cast<uint32_t>(i->imm);
  if (!plainly_shared(w, i) || !eights_of_words(block.shared_bytes, at, add)) return store<uint32_t, uint32_t, 1>(w, i);
  const uint32_t* from = w.reg<uint32_t>(i->d);
  for (int n = 0; n < LANES; n += 8) memcpy(block.shared + (at[n] + add), from + n, 32);
  return i + 1;
}

/**
 * True if a vector of such elements fits the registers. Bytes may be in registers of 16 or 32 bits, and so may halves.
 */
template <class T, class R>
constexpr bool in_vectors = sizeof(T) == sizeof(R) || sizeof(R) <= 4;

/** ld.param of a named parameter, whose value is the same for all lanes. */
template <class T, class R>
const Ins* load_parameter(Warp& w, const Ins* i) {
  T value;
  memcpy(&value, w.block->parameters + i->imm, sizeof value);
  const R r = static_cast<R>(value);
  write_lanes<R>(w, i->d, w.active(i), [=](int) { return r; });
  return i + 1;
}

/** ld.param of a part of a parameter that is read as a vector, whose value is the same for all lanes. */
template <class T, class R, int COUNT>
const Ins* load_parameters(Warp& w, const Ins* i) {
  T values[COUNT];
  memcpy(values, w.block->parameters + i->imm, sizeof values);
  for (int n = 0; n < COUNT; ++n) {
    const R r = static_cast<R>(values[n]);
    if (i->extra->d[n] != NO_SLOT) write_lanes<R>(w, i->extra->d[n], w.active(i), [=](int) { return r; });
  }
  return i + 1;
}

template <class T, class R>
Handler load_of(unsigned count, bool parameter) {
  if (parameter && count == 1) return load_parameter<T, R>;
  if (parameter) {
    if constexpr (in_vectors<T, R>) {
      if (count == 2) return load_parameters<T, R, 2>;
      if (count == 4 && sizeof(T) < 8) return load_parameters<T, R, 4>;
    }
    return nullptr;
  }
  if (count == 1) return load<T, R, 1>;
  if constexpr (in_vectors<T, R>) {
    if (count == 2) return load<T, R, 2>;
    if constexpr (sizeof(T) < 8)
      if (count == 4) return load<T, R, 4>;
    if constexpr (sizeof(T) <= 2)
      if (count == 8) return load<T, R, 8>;
  }
  return nullptr;
}
template <class T, class R>
Handler store_of(unsigned count) {
  if (count == 1) return store<T, R, 1>;
  if constexpr (in_vectors<T, R>) {
    if (count == 2) return store<T, R, 2>;
    if constexpr (sizeof(T) < 8)
      if (count == 4) return store<T, R, 4>;
    if constexpr (sizeof(T) <= 2)
      if (count == 8) return store<T, R, 8>;
  }
  return nullptr;
}

/** Finds the handler by the type in memory and the register's bytes. */
Handler find_load(const std::string& type, unsigned reg, unsigned count, bool parameter) {
  const bool is_signed = type[0] == 's';
  const int bits = atoi(type.c_str() + (type[0] == 'b' && type[1] == 'f' ? 2 : 1));
  if (bits == 64 && reg == 8) return load_of<uint64_t, uint64_t>(count, parameter);
  if (bits == 32 && reg == 4) return load_of<uint32_t, uint32_t>(count, parameter);
  if (bits == 32 && reg == 8)
    return is_signed ? load_of<int32_t, int64_t>(count, parameter) : load_of<uint32_t, uint64_t>(count, parameter);
  if (bits == 16 && reg == 2) return load_of<uint16_t, uint16_t>(count, parameter);
  if (bits == 16 && reg == 4)
    return is_signed ? load_of<int16_t, int32_t>(count, parameter) : load_of<uint16_t, uint32_t>(count, parameter);
  if (bits == 16 && reg == 8)
    return is_signed ? load_of<int16_t, int64_t>(count, parameter) : load_of<uint16_t, uint64_t>(count, parameter);
  if (bits == 8 && reg == 2)
    return is_signed ? load_of<int8_t, int16_t>(count, parameter) : load_of<uint8_t, uint16_t>(count, parameter);
  if (bits == 8 && reg == 4)
    return is_signed ? load_of<int8_t, int32_t>(count, parameter) : load_of<uint8_t, uint32_t>(count, parameter);
  if (bits == 8 && reg == 8)
    return is_signed ? load_of<int8_t, int64_t>(count, parameter) : load_of<uint8_t, uint64_t>(count, parameter);
  return nullptr;
}
Handler find_store(const std::string& type, unsigned reg, unsigned count) {
  const int bits = atoi(type.c_str() + (type[0] == 'b' && type[1] == 'f' ? 2 : 1));
  if (bits == 64) return store_of<uint64_t, uint64_t>(count);
  if (bits == 32) return reg == 8 ? store_of<uint32_t, uint64_t>(count) : store_of<uint32_t, uint32_t>(count);
  if (bits == 16)
    return reg == 8   ? store_of<uint16_t, uint64_t>(count)
           : reg == 4 ? store_of<uint16_t, uint32_t>(count)
                      : store_of<uint16_t, uint16_t>(count);
  if (bits == 8)
    return reg == 8   ? store_of<uint8_t, uint64_t>(count)
           : reg == 4 ? store_of<uint8_t, uint32_t>(count)
                      : store_of<uint8_t, uint16_t>(count);
  return nullptr;
}

/** A load of memory that others may write in the meantime, such as a flag that the kernel polls. */
const Ins* look_again(Warp& w, const Ins* i) {
  w.looked = true;
  w.budget -= COST_OF_LOOK;
  return reinterpret_cast<Handler>(i->extra->readers[0])(w, i);
}

bool lower_load_store(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  const bool loads = s.op != "st";
  ins.space = space_of(s);
  if (has(s, "async")) return false;
  const unsigned count = has(s, "v8") ? 8 : has(s, "v4") ? 4 : has(s, "v2") ? 2 : 1;
  const Operand& at = s.operands[loads ? 1 : 0];
  const Operand& value = s.operands[loads ? 0 : 1];
  const Operand& first = count > 1 ? value.items[0] : value;
  if (count > 1 && value.items.size() != count) return false;
  const std::string& type = s.mods.back();
  const int bits = atoi(type.c_str() + (type[0] == 'b' && type[1] == 'f' ? 2 : 1));
  const unsigned memory_bytes = static_cast<unsigned>(bits) / 8;
  const unsigned bytes = first.kind == OperandKind::Register ? l.register_bytes(first) : std::max(memory_bytes, 2u);
  l.address(at, ins);
  // True if a kernel's parameter is read by its name. The parameter of a call is in local memory.
  const bool parameter = ins.space == PARAMETER_SPACE && at.reg < 0;
  if (parameter && (ins.imm < 0 || memory_bytes * count > l.parameter_bytes() ||
                    ins.imm > l.parameter_bytes() - memory_bytes * count))
    return false;
  ins.fn = loads ? find_load(type, bytes, count, parameter) : find_store(type, bytes, count);
  if (!ins.fn) return false;
  if (loads && ins.space == SHARED_SPACE) {
    if (ins.fn == load<uint32_t, uint32_t, 4>) ins.fn = load_shared_words4;
    if (ins.fn == load<uint32_t, uint32_t, 1>) ins.fn = load_shared_words;
    if (ins.fn == load<uint16_t, uint16_t, 1>) ins.fn = load_shared<uint16_t, uint16_t>;
  }
  if (!loads && ins.space == SHARED_SPACE && ins.fn == store<uint32_t, uint32_t, 1>) ins.fn = store_shared_words;
  ins.count = static_cast<uint8_t>(count);
  ins.bytes = static_cast<uint8_t>(memory_bytes);
  ins.read_only = has(s, "nc");
  ins.is_checked = loads && l.is_checked();
  if (!loads) ins.lane_bytes = static_cast<uint8_t>(bytes);
  if (has(s, "volatile")) ins.sharing = l.waits() ? Sharing::Waiting : Sharing::Volatile;
  if (has(s, "relaxed") || has(s, "acquire") || has(s, "release")) ins.sharing = Sharing::Synchronised;
  if (loads && ins.sharing != Sharing::Plain) {
    l.extra(ins).readers[0] = reinterpret_cast<void (*)()>(ins.fn);
    ins.fn = look_again;
  }
  if (count == 1) {
    ins.d = l.slot(first, bytes);
    return true;
  }
  Extra& extra = l.extra(ins);
  for (const Operand& item : value.items)
    extra.d.push_back(item.kind == OperandKind::Sink ? NO_SLOT : l.slot(item, bytes));
  return true;
}

}  // namespace

}  // namespace flashcore::emu::ptx
