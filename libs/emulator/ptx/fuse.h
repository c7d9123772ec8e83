// Turns sums of products into one instruction, so that the interpreter handles many multiply-adds at once.
#pragma once
#include "program.h"

namespace flashcore::emu::ptx {

/**
 * Turns the fma.f32 of a basic block into fma.run: several chains, in each of which a result is the next link's
 * summand. An operand that is half of a pair and used only once is widened on the way. A run replaces the last of its
 * fma; none of its inputs is written in between. The results have the same bits.
 *
 * fma.run {results}, {summand, a, b, a, b …, summand, a, b …}, {lengths}; an operand's `value` selects the part of
 * its register: 0 all of it, 1 the lower half, 2 the upper half.
 */
void fuse_multiply_adds(Function& f);

}  // namespace flashcore::emu::ptx
