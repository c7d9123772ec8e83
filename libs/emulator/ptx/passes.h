// Passes over a function before lower.cpp decodes its statements. They find facts about the function, or change it.
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
 * matching functions whose address is taken. A recursive call stays a call, and causes a finding if a thread reaches
 * it.
 */
Function with_calls_inlined(const Program& program, const Function& entry);

/**
 * Widens halves directly from their pair, as SASS does, and joins adjacent loads of shared memory and sums of products.
 * A removed statement has no opcode but keeps its index. If the run looks for races, only loads of the same source line
 * are joined. `counted`: sums of products stay separate.
 */
Function simplified(const Program& program, const Function& function, bool counted);

/** True if the function has a wgmma, whose accumulators must not be read before a wait. */
bool has_asynchronous_products(const Function& function);

/** Fills in the data of Kernel about accumulators of asynchronous products, if the function has any. */
void watch_products(const Function& function, Kernel& kernel);

/**
 * Turns the fma.f32 statements of a basic block into fma.run, which has several chains. In a chain, each result is the
 * summand of the next link. An operand that is half of a pair and used only once is widened within the run. A run takes
 * the place of its last fma, and no statement in between writes an input. The results have the same bits.
 *
 * fma.run {results}, {summand, a, b, a, b …, summand, a, b …}, {lengths}; an operand's `value` selects the part of
 * its register: 0 all of it, 1 the lower half, 2 the upper half.
 */
void fuse_multiply_adds(Function& f);

/**
 * Indexed by statement: true for a volatile load that a loop waits on. It reads the same address repeatedly, and the
 * value decides whether the loop continues. Compilers load once before such a loop, so other loads of the same line are
 * marked too.
 */
std::vector<bool> waiting_loads(const Program& program, const Function& function);

/**
 * Indexed by statement: true for a load if an atomic at the same address follows in the text, as in a loop around
 * atomicCAS() and in `if (x > *most) atomicMax(most, x)`, where an outdated value does no harm. Also true for an atomic
 * whose result is used.
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

/** The accesses as a profile counts them, by statement. */
std::vector<CountedAccess> counted_accesses(const Program& program, const Function& function);

}  // namespace flashcore::emu::ptx
