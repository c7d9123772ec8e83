// A warp as vectors: a register is a slot with 32 lanes, and an instruction is a function on all lanes.
#pragma once
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../exec/fault.h"
#include "flow.h"
#include "program.h"

namespace flashcore::emu::ptx {

constexpr int LANES = 32;
constexpr uint32_t ALL = ~0u;
constexpr uint32_t NO_GUARD = ~0u;
constexpr uint32_t NO_SLOT = ~0u;
/**
 * The contents of an unwritten register of unknown type. As fp16 they are infinities. As fp32, bf16, integer or address
 * they are far outside the usual range.
 */
constexpr uint64_t REGISTER_POISON = 0x7c007c007c007c00;

// The windows of generic addresses. A block's memory spaces are where no host address can be.
constexpr uint64_t SHARED_WINDOW = 1ull << 56, LOCAL_WINDOW = 2ull << 56, PARAMETER_WINDOW = 3ull << 56,
                   FUNCTION_WINDOW = 4ull << 56;
constexpr uint64_t WINDOW_MASK = 0xffull << 56;

class Warp;
class BlockRun;
struct Ins;
using Handler = const Ins* (*)(Warp&, const Ins*);

/** acc = a * b + acc. For a factor that is a half of a register: 1 is the lower half, 2 the upper. */
struct Link {
  uint32_t a, b;
  uint8_t a_half, b_half;
};
/** d = c, followed by `count` links, of floats or also of halves. */
struct Chain {
  uint32_t c, d;
  uint32_t count;
  bool floats;
  bool first_of_four = false;  // the first of four chains of floats that have equal lengths and the same `a`
};

/** Fields that only some instructions need, such as vectors of operands and data of the opcode. */
struct Extra {
  std::vector<uint32_t> d, a, b, c;  // slots
  int options[6] = {};
  void (*readers[2])() = {};  // a conversion's functions to read and write its types; else a wrapped handler
  const char* what = "";  // the name in deadlock reports
  std::vector<const Ins*> targets;  // targets of brx
  /**
   * For instructions that run lane by lane: computes the results from the operands' bits. a_bytes and d_bytes are the
   * widths of operands and results.
   */
  std::function<void(Warp&, unsigned, const uint64_t*, uint64_t*)> each_lane;
  std::vector<uint8_t> d_bytes, a_bytes;
  std::vector<Chain> chains;
  std::vector<Link> links;  // links of the chains, one chain after another
  std::vector<Ins> addresses;  // for an instruction with several addresses: base, offset, width and space of each
};

/** How an access relates to unordered accesses of the same bytes. */
enum class Sharing : uint8_t {
  Plain,
  /** An access of its own that orders nothing. */
  Volatile,
  /** A volatile load that a loop waits on. */
  Waiting,
  /** An access with .relaxed, .acquire or .release. */
  Synchronised
};

/** A decoded instruction. d, a, b and c are byte offsets of slots in the warp's register file. */
struct Ins {
  Handler fn = nullptr;
  uint32_t d = NO_SLOT, a = NO_SLOT, b = NO_SLOT, c = NO_SLOT;
  uint32_t guard = NO_GUARD, guard_flip = 0;
  int64_t imm = 0;
  const Ins* target = nullptr;
  const Extra* extra = nullptr;
  uint32_t place = 0;
  uint32_t cache = 0;  // index of the allocation that this instruction touched last
  uint8_t space = 0, bytes = 0, count = 1, wide_address = 0;
  Sharing sharing = Sharing::Plain;
  bool read_only = false;  // ld.global.nc
  bool is_checked = false;  // ld: an atomic at the same address follows; atom: its result is used (passes.h)
  uint8_t lane_bytes = 0;  // for st: a lane's bytes in the register of an element; 0: unknown
  uint32_t statement = 0;  // index into Function::statements
};

enum class SplitState : uint8_t { Runnable, AtBarrier, AtSync, AtMbarrier, AtCluster, AtProducts };

/** Lanes of a warp that are at the same instruction. */
struct Split {
  const Ins* pc;
  uint32_t mask;
  SplitState state = SplitState::Runnable;
  unsigned barrier = 0;  // AtBarrier: the barrier's number; AtMbarrier: its offset in shared memory
  uint32_t wanted = 0;  // AtSync: the member mask; AtProducts: the number of groups that all warps must have committed
};

class Warp {
 public:
  char* regs = nullptr;
  uint32_t mask = 0;  // the lanes of the running split
  uint32_t live = 0;  // the lanes that have not exited
  uint32_t carry = 0;  // the flag of add.cc and similar instructions
  int budget = 0;  // backward jumps left until other splits get their turn
  bool looked = false, yielded = false;  // latest turn: polled memory that others write; used up its budget
  bool ahead = false;  // rotation chose the running split; splits at lower instructions wait
  BlockRun* block = nullptr;
  unsigned index = 0;
  uint32_t faulty = 0;  // the lanes of an access that is about to fault, if there are several
  std::vector<Split> others;
  uint32_t epoch = 1;  // number of times that all lanes ordered their accesses, for the race check

  template <class T>
  T* reg(uint32_t slot) {
    return static_cast<T*>(__builtin_assume_aligned(regs + slot, 64));
  }
  uint32_t& pred(uint32_t slot) { return *reinterpret_cast<uint32_t*>(regs + slot); }
  uint32_t active(const Ins* i) { return i->guard == NO_GUARD ? mask : mask & (pred(i->guard) ^ i->guard_flip); }

  /**
   * The running split goes to `pc` while others exist. It merges with a split that is there. Then the lowest split
   * runs.
   */
  const Ins* go_on_at(const Ins* pc);
  /** The lanes in `taken` go to `to`, the other lanes to `next`. */
  const Ins* diverge(const Ins* to, uint32_t taken, const Ins* next);
  const Ins* pick();
  /** Parks the running split until it is released. */
  const Ins* park(const Ins* pc, SplitState state, unsigned barrier, uint32_t wanted);
  const Ins* yield(const Ins* pc);
  /** Ends these lanes. The other lanes of the split continue at `next`. */
  const Ins* exit_lanes(uint32_t lanes, const Ins* next);
  bool has_runnable() const;
  /** True if the running split may continue without a look at where the other splits are. */
  bool goes_on() const { return ahead || others.empty(); }

  [[noreturn]] void fail(const Ins* i, unsigned lane, Fault fault);
  [[noreturn]] void fail_unsupported(const Ins* i, const std::string& what);
  uint3 thread(unsigned lane) const;
  unsigned linear(unsigned lane) const { return index * LANES + lane; }

 private:
  bool rotate_ = false;
  const Ins* last_ = nullptr;
};

struct Copy;  // a cp.async

/**
 * A statement's role for the accumulators of asynchronous products, and the numbers of those that it reads and writes.
 */
struct ProductStep {
  enum Kind : uint8_t { None, Move, Other, Product, Fence } kind = None;
  std::vector<unsigned> reads, writes;
};

/** The range of an array in shared memory. A `to` of 0 means none, and ~0 the end of dynamic memory. */
struct Home {
  uint32_t from = 0, to = 0;
  std::string name;
};

/** How a statement's access to shared memory is counted. */
struct CountedAccess {
  bool joined = false;  // part of another statement's request, and therefore not counted
  unsigned bytes = 0;  // bytes per lane, including the accesses that joined it; 0: unchanged
  int shift = 0;  // from the statement's own address to the first byte
  unsigned idle_requests = 0;  // the loads without active lanes that ptxas puts before it
};

/** An entry of a program, ready to run. */
struct Kernel {
  const Program* program = nullptr;
  const Function* function = nullptr;
  std::unique_ptr<Function> simplified;  // owns the function that `function` points to
  std::vector<Ins> code;
  std::vector<std::unique_ptr<Extra>> extras;
  unsigned frame_bytes = 0;  // size of a warp's register file
  struct Constant {
    uint32_t slot;
    uint64_t bits;
    unsigned bytes;
  };
  std::vector<Constant> constants;
  struct Special {
    uint32_t slot;
    std::string name;
    bool of_block;  // the value differs from block to block
  };
  std::vector<Special> specials;
  std::vector<Constant> read_before_written;  // registers that start as poison
  unsigned caches = 0;
  unsigned static_shared = 0, dynamic_offset = 0, local_bytes = 0;
  bool flush_subnormals = false;
  std::vector<ProductStep> product_steps;  // indexed by statement, if the run looks for races and there is a wgmma
  size_t accumulators = 0;  // number of registers that hold accumulators
  std::vector<CountedAccess> counted;  // indexed by statement, for profiles
  std::vector<Flow> flows;  // indexed by statement, if the run looks for races
  std::vector<Home> homes;  // indexed by statement (passes.h); empty if there is only one array
  std::vector<Home> arrays;  // static shared memory by variable, if the run looks for races
  std::map<size_t, std::string> reasons;  // why a statement is not supported, if more is known than its opcode
  uint64_t serial = 0;  // never 0; needed because a later kernel may get the address of an unloaded one
  // Needed by counted_form().
  const Function* source = nullptr;
  const std::map<std::string, uint64_t>* globals = nullptr;
  mutable std::once_flag counted_once;
  mutable std::unique_ptr<Kernel> counted_form;
};

/**
 * Copies the lanes in the mask from t to d. The overloads differ by width rather than by type, so that the program has
 * only one copy of each.
 */
void blend(uint16_t* d, const uint16_t* t, uint32_t m);
void blend(uint32_t* d, const uint32_t* t, uint32_t m);
void blend(uint64_t* d, const uint64_t* t, uint32_t m);
template <size_t BYTES>
struct BitsOf;
template <>
struct BitsOf<2> {
  using type = uint16_t;
};
template <>
struct BitsOf<4> {
  using type = uint32_t;
};
template <>
struct BitsOf<8> {
  using type = uint64_t;
};

template <class T, class F>
inline __attribute__((always_inline)) void write_lanes(Warp& w, uint32_t slot, uint32_t m, F value) {
  T* const d = w.reg<T>(slot);
  alignas(64) T t[LANES];
  T* const out = static_cast<T*>(__builtin_assume_aligned(__builtin_expect(m == ALL, 1) ? d : t, 64));
#pragma GCC ivdep
  for (int k = 0; k < LANES; ++k) out[k] = value(k);
  using Bits = typename BitsOf<sizeof(T)>::type;
  if (__builtin_expect(m != ALL, 0)) blend(reinterpret_cast<Bits*>(d), reinterpret_cast<const Bits*>(t), m);
}

inline void write_pred(Warp& w, uint32_t slot, uint32_t m, uint32_t bits) {
  uint32_t& p = w.pred(slot);
  p = (p & ~m) | (bits & m);
}

// The memory that an instruction's lanes access, checked and as host pointers.

enum AddressSpace : uint8_t {
  GLOBAL_SPACE,
  SHARED_SPACE,
  LOCAL_SPACE,
  PARAMETER_SPACE,
  GENERIC_SPACE,
  /** Shared memory of any block of the cluster. */
  CLUSTER_SPACE
};

enum class Access : uint8_t { Read, Write, ReadWrite };

/** The address that a lane's operand has, relative to its space. */
inline uint64_t address_of(Warp& w, const Ins* i, unsigned lane) {
  if (i->wide_address) return w.reg<uint64_t>(i->a)[lane] + static_cast<uint64_t>(i->imm);
  return w.reg<uint32_t>(i->a)[lane] + static_cast<uint32_t>(i->imm);
}

struct Pointers {
  alignas(64) char* at[LANES];  // a lane that takes no part gets the first lane's pointer
};

/** What the lanes in `m` (not empty) do to memory: `bytes` bytes each. */
struct WarpAccess {
  Warp& w;
  const Ins* i;
  uint32_t m;
  unsigned bytes;
  Access access;
};

/** A lane at an instruction. */
struct LaneAt {
  Warp& w;
  const Ins* i;
  unsigned lane;
};

/** What one lane does to memory. */
struct LaneAccess : LaneAt {
  uint64_t bytes;
  Access access;
};

/** Sets the host pointers of the lanes. Faults if a lane is outside its memory. */
void resolve(const WarpAccess& by, Pointers& p);

/** Sets the checked shared-memory offsets of the lanes. Lanes outside `m` get the first lane's offset. */
void resolve_shared(const WarpAccess& by, uint32_t* offsets);

/** Resolves a range of shared or global memory that one lane names (a row of ldmatrix, a matrix of wmma.load). */
char* resolve_one(const LaneAccess& by, uint64_t address, unsigned alignment);

}  // namespace flashcore::emu::ptx
