// The second launch of a kernel that decodes by stream_decode's line of rounds: sums the parts of sequences whose keys
// several CTAs have divided. The last CTA of a sequence would take longer for that, alone, than many CTAs and a launch.
// It has CTAs only for as many sequences as can be divided.
#pragma once
#include <type_traits>

#include "mechanisms/stream_decode.cuh"

namespace divided_sequences {

using stream_decode::Cache, stream_decode::Line, stream_decode::Quad, stream_decode::Stripe;

template <int COUNT>
using Count = std::integral_constant<int, COUNT>;

// A sequence that several teams have divided.
struct Divided {
  int sequence, first_team, parts;  // fewer than two parts: not divided
};

// Number `i` of the sequences that may be divided. With fewer sequences than teams, that is sequence i. Else it is the
// one in which team i + 1 begins, unless an earlier team begins in it, too: each team divides one sequence at most.
template <int ROUND>
__device__ __forceinline__ Divided divided_sequence(const Line<ROUND>& line, int i, int most_teams) {
  constexpr Divided NONE{0, 0, 0};
  const bool of_team = line.cache.sequences >= most_teams;
  if (line.whole || (of_team && i + 1 >= line.teams)) return NONE;
  int sequence = i, first;
  if (of_team)
    sequence = line.sequence_of(line.first_round(i + 1), first);
  else
    first = line.first_round_of(sequence);
  const int first_team = line.team_of(first);
  if (of_team && first_team != i) return NONE;
  return {sequence, first_team, line.team_of(first + line.rounds_of(sequence) - 1) - first_team + 1};
}

// Sums the parts of divided sequences, after a launch of `ctas` CTAs that took ROUND keys a round. A CTA has `run` query
// rows of one stripe, and its threads four columns each. Groups of threads take the rows in turns, or divide the parts
// of a single row.
template <class T, int ROUND, int THREADS>
__device__ __forceinline__ void merge(const Cache& cache, int run, int ctas) {
  constexpr int QUADS = T::HEAD_DIM / 4, GROUPS = THREADS / QUADS;
  const int runs = T::BLOCK_Q / run, first_row = int(blockIdx.x) % runs * run;
  const int index = int(blockIdx.x) / runs % cache.stripes;
  const int quad = threadIdx.x % QUADS, group = threadIdx.x / QUADS;
  const Divided divided =
      divided_sequence(Line<ROUND>(cache, ctas), int(blockIdx.x) / runs / cache.stripes, ctas / cache.stripes);
  if (divided.parts < 2) return;
  const Stripe stripe = stream_decode::stripe_of<T>(cache, divided.sequence, index);
  const int first_cta = divided.first_team * cache.stripes + index;
  const auto sum = [&](auto at_once, int row, int first, int parts) {
    return stream_decode::sum_of_parts<T, at_once>(cache, row, quad, first_cta + first * cache.stripes, parts,
                                                   first == 0, cache.stripes, false);
  };
  const auto store = [&](int row, const Quad& sum) {
    stripe.template store<T>(cache, row, quad, sum.O, sum.row_max, sum.row_sum);
  };
  if (run > 1) {
    for (int row = first_row + group; row < min(first_row + run, stripe.rows); row += GROUPS)
      store(row, divided.parts == 2 ? sum(Count<2>{}, row, 0, 2) : sum(Count<8>{}, row, 0, divided.parts));
    return;
  }
  if (first_row >= stripe.rows) return;
  __shared__ float4 O_smem[GROUPS][QUADS];
  __shared__ float2 max_and_sum_smem[GROUPS];
  const int first = group * divided.parts / GROUPS, end = (group + 1) * divided.parts / GROUPS;
  const Quad own = sum(Count<8>{}, first_row, first, end - first);
  O_smem[group][quad] = own.O;
  if (quad == 0) max_and_sum_smem[group] = make_float2(own.row_max, own.row_sum);
  __syncthreads();
  if (group > 0) return;
  Quad all;
  constexpr int AT_ONCE = GROUPS < 8 ? GROUPS : 8;
#pragma unroll 1
  for (int begin = 0; begin < GROUPS; begin += AT_ONCE) {
    float4 O[AT_ONCE];
    float2 max_and_sum[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) O[i] = O_smem[begin + i][quad], max_and_sum[i] = max_and_sum_smem[begin + i];
    all.add(O, max_and_sum, AT_ONCE);
  }
  store(first_row, all);
}

}  // namespace divided_sequences
