// Compares a kernel's output with the fp64 reference, element by element. Compile with -ffp-contract=off, so that sums
// are rounded alike on every host. Plain C ABI; no global state; calls may run in parallel.
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Indices into `figures`. Errors are taken over the finite elements; an element whose error
// is not finite is a mismatch. If `want` is infinite, the same infinity has no error.
enum {
  FLASHCORE_COMPARED_MISMATCHES,
  FLASHCORE_COMPARED_NAN,
  FLASHCORE_COMPARED_INF,
  FLASHCORE_COMPARED_UNWRITTEN,
  FLASHCORE_COMPARED_WORST_INDEX,  // the first that is farthest beyond its limit, or closest to it; -1: none is finite
  FLASHCORE_COMPARED_WORST_OF_LIMIT,  // its error divided by its limit; infinity: the limit is 0, and the error is not
  FLASHCORE_COMPARED_MAX_ABS,
  FLASHCORE_COMPARED_SUM_ABS,
  FLASHCORE_COMPARED_SUM_SQUARE,
  FLASHCORE_COMPARED_MAX_REL,  // over max(|want|, 2^-14), fp16's smallest normal number, for every dtype
  FLASHCORE_COMPARED_P999_ABS,  // of the errors as fp32
  FLASHCORE_COMPARED_GOT_SQUARES,
  FLASHCORE_COMPARED_WANT_SQUARES,
  FLASHCORE_COMPARED_FIGURES,
};

// An output and its right values: [heads, S, D] contiguous.
typedef struct {
  const void* got;
  const double* want;
  const float* rounding;  // standard deviation of the error that rounding causes in each element; null: not modelled
  int64_t heads;
  int32_t S, D;
  int32_t dtype;  // of got: a FLASHCORE_DTYPE_* of attention_reference.h
} flashcore_compared;

// A mismatch has |got - want| > max(absolute + relative * |want|, explained * rounding), or should be finite and is not.
typedef struct {
  double absolute, relative;
  double explained;  // not read where the rounding is not modelled
  // The bits with which the output was filled: an element with this NaN was never written, nor was a mismatch with this
  // number in int8, which has no NaN.
  uint32_t poison;
  int32_t block_rows, block_columns;  // extent of a block of [S, D]; it has ceil(S / rows) * ceil(D / columns) blocks
  int32_t listed;  // the most mismatches whose indices are wanted
} flashcore_comparison_rules;

// Where the results go.
typedef struct {
  double* figures;  // [FLASHCORE_COMPARED_FIGURES]
  double* first;  // [listed] indices of the first mismatches, in order
  double* map;  // [blocks] the largest error of a block over all heads; NaN: an element of it is not finite
  double* map_index;  // [blocks] index of the first such element
  float* head_map;  // [heads, blocks] the same of each head, as fp32; null: not wanted
} flashcore_comparison;

// Compares got with want. Returns a FLASHCORE_REFERENCE_* code of attention_reference.h; nothing is written on
// BAD_ARGUMENT.
int flashcore_compare_output(const flashcore_compared* output, const flashcore_comparison_rules* rules,
                             const flashcore_comparison* results);

// Writes max|got - want| over all elements to out[0], and ignores NaN.
int flashcore_max_abs_error(const flashcore_compared* output, double* out);

// The error of an output relative to the expected rounding: for each block of 16 rows of a
// head, the root of the mean of ((got - want) / rounding)^2 over the block's finite elements; for each row and each
// column of a head, half of that root over its own elements, at least 16 of them: otherwise a kernel could save work in
// one row or column of 16, and be four times as far off there. Writes the largest to out[0], and the index of the first
// element of its block, or of its column, to out[1].
//   least_rows     a block of fewer rows is averaged over this many, as if the missing rows were exact, because a row's
//                  errors may follow from few random numbers, as those of dQ do where keys are alike.
//                  Not 0: rows and columns are not judged by themselves
int flashcore_rounding_ratio(const flashcore_compared* output, int32_t least_rows, double* out);

#ifdef __cplusplus
}
#endif
