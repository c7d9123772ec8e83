// Passes over a function before lower.cpp decodes its statements: facts about the function, and changes in it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "program.h"
#include "warp.h"

namespace flashcore::emu::ptx {

/** The address of the n-th function of Program::callable. No data is at this address. */
uint64_t function_address(size_t n);

/**
 * Returns the entry with all calls to the program's own functions inlined. A call by address becomes a choice among the
 * matching functions whose address is taken. A recursive call stays a call; a thread that reaches it gets a finding.
 */
Function with_calls_inlined(const Program& program, const Function& entry);

/**
 * Widens halves directly from their pair, as SASS does, and joins neighboring loads of shared memory and sums of
 * products. A removed statement has no opcode but keeps its index. While looking for races, only loads of one source
 * line are joined. `counted`: sums of products stay separate.
 */
Function simplified(const Program& program, const Function& function, bool counted);

/** True if there is a wgmma; its accumulators must not be read before a wait. */
bool has_asynchronous_products(const Function& function);

/** Fills in Kernel's data on the accumulators of asynchronous products, if there are any. */
void watch_products(const Function& function, Kernel& kernel);

/**
 * Turns the fma.f32 of a basic block into fma.run: several chains, in each of which a result is the next link's
 * summand. An operand that is half of a pair and used only once is widened on the way. A run replaces the last of its
 * fma; none of its inputs is written in between. The results have the same bits.
 *
 * fma.run {results}, {summand, a, b, a, b …, summand, a, b …}, {lengths}; an operand's `value` selects the part of
 * its register: 0 all of it, 1 the lower half, 2 the upper half.
 */
void fuse_multiply_adds(Function& f);

/**
 * Indexed by statement: true for a volatile load on which a loop waits. It reads the same address repeatedly, and the
 * value decides whether the loop continues. Compilers load once before such a loop, so another load of the same line is
 * marked too.
 */
std::vector<bool> waiting_loads(const Program& program, const Function& function);

/**
 * Indexed by statement: true for a load if an atomic at the same address follows in the text, as in a loop around
 * atomicCAS() and in `if (x > *most) atomicMax(most, x)`, where a value that is out of date does no harm. True for an
 * atomic whose result is used.
 */
std::vector<bool> checked_accesses(const Function& function);

/**
 * For each statement whose shared-memory address is computed from exactly one array: the range of that array. For all
 * other statements 0 to 0.
 */
std::vector<Home> homes_of(const Function& f, const std::map<std::string, Home>& arrays);

/** Accesses that ptxas joins into one, by offset. */
struct Joined {
  bool loads;
  unsigned bytes;
  int64_t offset;
  std::vector<size_t> statements;
};

/** All joined accesses of a function. */
std::vector<Joined> joined_accesses(const Program& program, const Function& function);

/** The accesses as a profile counts them, indexed by statement. */
std::vector<CountedAccess> counted_accesses(const Program& program, const Function& function);

}  // namespace flashcore::emu::ptx
