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
  FLASHCORE_COMPARED_WORST_INDEX,  // the first with the largest error; -1: no element is finite
  FLASHCORE_COMPARED_MAX_ABS,
  FLASHCORE_COMPARED_SUM_ABS,
  FLASHCORE_COMPARED_SUM_SQUARE,
  FLASHCORE_COMPARED_MAX_REL,  // over max(|want|, 2^-14), fp16's smallest normal number, for every dtype
  FLASHCORE_COMPARED_P999_ABS,  // of the errors as fp32
  FLASHCORE_COMPARED_GOT_SQUARES,
  FLASHCORE_COMPARED_WANT_SQUARES,
  FLASHCORE_COMPARED_FIGURES,
};

// Compares got with want: a mismatch has |got - want| > max(absolute + relative * |want|, explained * rounding), or
// should be finite and is not.
//   dtype          of got: a FLASHCORE_DTYPE_* of attention_reference.h
//   got, want      [heads, S, D] contiguous; double
//   rounding       [heads, S, D] as in flashcore_rounding_ratio(); null: `explained` is not read
//   poison         the bits with which the output was filled: an element with this NaN was never written, nor was a
//                  mismatch with this number in int8, which has no NaN
//   block_rows, block_columns   extent of a block of [S, D]; there are ceil(S / block_rows) * ceil(D / block_columns)
//   figures        [FLASHCORE_COMPARED_FIGURES]
//   first          [listed] indices of the first mismatches, in order
//   map            [blocks] the largest error of a block over all heads; NaN: an element of it is not finite
//   map_index      [blocks] index of the first such element
//   head_map       [heads, blocks] the same of each head, as fp32; null: not wanted
// Returns a FLASHCORE_REFERENCE_* code of attention_reference.h; nothing is written on BAD_ARGUMENT.
int flashcore_compare_output(int32_t dtype, const void* got, const double* want, int32_t heads, int32_t S, int32_t D,
                             uint32_t poison, double absolute, double relative, const float* rounding, double explained,
                             int32_t block_rows, int32_t block_columns, double* figures, double* first, int32_t listed,
                             double* map, double* map_index, float* head_map);

// Writes max|got - want| over [0, count) to out[0], and ignores NaN.
int flashcore_max_abs_error(int32_t dtype, const void* got, const double* want, int64_t count, double* out);

// The error of an output relative to the expected rounding: for each block of 16 rows of a
// head, the root of the mean of ((got - want) / rounding)^2 over the block's finite elements.
// Writes the largest to out[0], and the index of its block's first element to out[1].
//   rounding       [heads, S, D], of flashcore_reference_with_rounding()
//   least_rows     a block of fewer rows is averaged over this many, as if the missing rows were exact, because a row's
//                  errors may follow from few random numbers, as those of dQ do where keys are alike
int flashcore_rounding_ratio(int32_t dtype, const void* got, const double* want, const float* rounding, int32_t heads,
                             int32_t S, int32_t D, int32_t least_rows, double* out);

#ifdef __cplusplus
}
#endif
