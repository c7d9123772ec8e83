// Which attention a launch computes: the lengths of its tensors, how many heads share keys, and which keys a row sees.
#pragma once

struct AttentionForm {
  int S, Skv;  // rows of Q and O, and rows of K and V
  unsigned reciprocal;  // 2^32 / `group`, the heads of Q that share a head of K and V, rounded up; 0 where none share
  int causal;  // 1: row i sees only keys up to its diagonal
  int diagonal;  // row i sees keys 0 to i + diagonal; Skv without a mask

  // The head of K and V that a head of Q reads; heads are numbered across batches. Exact while head * group is below 2^32
  // (Granlund and Montgomery, "Division by invariant integers using multiplication", 1994). A division would make the
  // shortest launches up to 2 % longer (H100).
  __device__ __forceinline__ int kv_head(int head) const { return reciprocal == 0 ? head : __umulhi(head, reciprocal); }
  // How many keys the rows before `row_end` see at most.
  __device__ __forceinline__ int keys_before(int row_end) const { return min(Skv, row_end + diagonal); }
};
