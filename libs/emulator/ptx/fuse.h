// Sums of products as one instruction: what an interpreter gains by seeing many of them at once.
#pragma once
#include "program.h"

namespace flashcore::emu::ptx {

/**
 * fma.f32 of a basic block become fma.run: chains, in each of which a result is the next one's summand, one after the
 * other. Operands that are halves of a pair and used once are widened on the way. A run stands where the last of its
 * fma stood; what it reads is not written in between. The results have the same bits.
 *
 * fma.run {results}, {summand, a, b, a, b …, summand, a, b …}, {lengths}; an operand's `value` is the half of its
 * register that is meant: 0 all of it, 1 the lower, 2 the upper one.
 */
void fuse_multiply_adds(Function& f);

}  // namespace flashcore::emu::ptx
