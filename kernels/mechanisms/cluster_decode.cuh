// Decoding by clusters (sm_90) over caches of few keys, where latency counts, not bandwidth. A cluster has one stripe of
// one sequence, and its CTAs take tiles of keys in turns. So where a CTA's first keys are does not depend on the length:
// their copies and the length's load run at the same time. The CTAs merge through distributed shared memory, where each
// gets the parts of its own columns: no partial result goes through device memory, and no CTA waits for a counter.
#pragma once
#include "mechanisms/stream_decode.cuh"
#include "primitives/cluster.cuh"

namespace cluster_decode {

using stream_decode::Cache, stream_decode::Quad, stream_decode::Rows, stream_decode::Stripe, stream_decode::WARP;

// The parts of a CTA's columns, in its shared memory: O as [CTAs][rows][columns], then maxima (log2 units)
// and sums as [CTAs][rows]. All CTAs of the cluster write there.
struct Inbox {
  unsigned char* smem;
  int parts, rows, columns_log2;  // of a CTA

  __device__ __forceinline__ float* O(unsigned char* of, int part, int row) const {
    return reinterpret_cast<float*>(of) + ((part * rows + row) << columns_log2);
  }
  __device__ __forceinline__ float2& max_and_sum(unsigned char* of, int part, int row) const {
    return reinterpret_cast<float2*>(reinterpret_cast<float*>(of) + (parts * rows << columns_log2))[part * rows + row];
  }

  // Writes four columns of part `rank` to the CTA that has these columns, and the maximum and sum to all CTAs.
  __device__ __forceinline__ void send(int rank, int row, int quad, const Quad& sum) const {
    const int column = 4 * quad, cta = column >> columns_log2;
    *reinterpret_cast<float4*>(O(cluster_smem(smem, cta), rank, row) + column - (cta << columns_log2)) = sum.O;
    if (quad < parts) max_and_sum(cluster_smem(smem, quad), rank, row) = make_float2(sum.row_max, sum.row_sum);
  }
};

// Sums the parts in a CTA's inbox. Neighbouring lanes share four columns of a row where there are more threads than that.
template <class T>
__device__ __forceinline__ void sum_inbox(const Cache& cache, const Stripe& stripe, const Inbox& inbox, int rank) {
  constexpr int AT_ONCE = 4;
  const int quads_of_row_log2 = inbox.columns_log2 - 2, quads = inbox.rows << quads_of_row_log2;
  // The largest power of two for which all threads have work, and no lane is without a part.
  const int most = min(T::THREADS / quads, min(inbox.parts, WARP)), lanes_log2 = most > 1 ? 31 - __clz(most) : 0;
  const int lanes = 1 << lanes_log2;
  const int lane = threadIdx.x & (lanes - 1);
  for (int i = threadIdx.x >> lanes_log2; i < quads; i += T::THREADS >> lanes_log2) {
    const int row = i >> quads_of_row_log2, quad = i - (row << quads_of_row_log2);
    Quad sum;
    for (int first = lane; first < inbox.parts; first += AT_ONCE * lanes) {
      float4 O[AT_ONCE];
      float2 max_and_sum[AT_ONCE];
#pragma unroll
      for (int c = 0; c < AT_ONCE; ++c) {
        const int part = min(first + c * lanes, inbox.parts - 1);
        O[c] = reinterpret_cast<const float4*>(inbox.O(inbox.smem, part, row))[quad];
        max_and_sum[c] = inbox.max_and_sum(inbox.smem, part, row);
      }
      sum.add(O, max_and_sum, (inbox.parts - first + lanes - 1) >> lanes_log2);
    }
    const unsigned group = (lanes == WARP ? 0xffffffffu : (1u << lanes) - 1) << (threadIdx.x % WARP & ~(lanes - 1));
    for (int step = 1; step < lanes; step *= 2) {
      const float4 O[1] = {{__shfl_xor_sync(group, sum.O.x, step), __shfl_xor_sync(group, sum.O.y, step),
                            __shfl_xor_sync(group, sum.O.z, step), __shfl_xor_sync(group, sum.O.w, step)}};
      const float2 max_and_sum[1] = {
          {__shfl_xor_sync(group, sum.row_max, step), __shfl_xor_sync(group, sum.row_sum, step)}};
      sum.add(O, max_and_sum, 1);
    }
    if (lane == 0) stripe.store<T>(cache, row, (rank << quads_of_row_log2) + quad, sum.O, sum.row_max, sum.row_sum);
  }
}

// Computes a cluster's stripe. A cluster has a power of two CTAs; a launch without clusters has one.
template <class T>
__device__ __forceinline__ void decode(const Cache& cache, int ctas_log2) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const int ctas = 1 << ctas_log2, rank = int(blockIdx.x) & (ctas - 1), cluster = int(blockIdx.x) >> ctas_log2;
  if (ctas > 1) cluster_arrive();
  const Stripe stripe = stream_decode::stripe_of<T>(cache, cluster / cache.stripes, cluster % cache.stripes);

  Rows<T> own;
  const stream_decode::WholeSequence sequence(cache, stripe.sequence);
  stream_decode::attend<T>(
      cache, stripe, sequence.share<T>(rank * T::WARPS_KV + stream_decode::Place<T>().group, ctas * T::WARPS_KV),
      [&] { return sequence.length(); }, rank == 0, smem, own);

  cp_async_wait<
      0>();  // of copies from rows after the sequence's end, which may be on their way to merge_groups' memory
  const Inbox inbox{smem + T::SMEM_BYTES, ctas, stripe.rows, __ffs(T::HEAD_DIM) - 1 - ctas_log2};
  if (ctas > 1) cluster_wait();  // all CTAs run, so they have shared memory
  stream_decode::merge_groups<T>(own, stripe.rows, smem, [&](int row, int quad, const Quad& sum) {
    if (ctas == 1)
      stripe.store<T>(cache, row, quad, sum.O, sum.row_max, sum.row_sum);
    else
      inbox.send(rank, row, quad, sum);
  });
  if (ctas == 1) return;
  cluster_arrive();
  cluster_wait();
  sum_inbox<T>(cache, stripe, inbox, rank);
}

}  // namespace cluster_decode
