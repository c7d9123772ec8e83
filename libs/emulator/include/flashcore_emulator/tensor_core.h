// mma.sync, ldmatrix, stmatrix and movmatrix, for the emulated versions of kernels/primitives. Register layouts are
// those of the PTX manual ("Matrix Fragments for mma.m16n8k16" and following). With group = lane / 4 and member = lane
// % 4:
//   A (16 x k): a[0] row group, a[1] row group + 8, columns 2 member and 2 member + 1; a[2], a[3]: 8 columns further
//   B (k x 8):  b[0] rows 2 member and 2 member + 1 of column group; b[1]: 8 rows further
//   C (16 x 8): c[0], c[1] row group, columns 2 member and 2 member + 1; c[2], c[3]: row group + 8
#pragma once
#include "matrix.h"
#include "memory.h"
#include "warp.h"

namespace flashcore::emu {

enum class Element { Half, BFloat16 };

struct MmaDeposit {
  const uint32_t* a;
  const uint32_t* b;
  const void* c;
  void* d;
};

/** Splits a register into the two 16-bit values that it holds. */
__forceinline__ void unpack(uint32_t packed, uint16_t* low, uint16_t* high) {
  *low = static_cast<uint16_t>(packed);
  *high = static_cast<uint16_t>(packed >> 16);
}

template <Element ELEMENT>
__forceinline__ void elements_to_floats(const uint16_t* values, float* floats, int count) {
  if constexpr (ELEMENT == Element::Half)
    halves_to_floats(values, floats, count);
  else
    bfloat16s_to_floats(values, floats, count);
}

template <Element ELEMENT, int DEPTH>
inline void gather_operands(MmaDeposit* const* lanes, float (&A)[16][DEPTH], Floats8 (&B)[DEPTH]) {
  uint16_t a[16][DEPTH];
  uint16_t b[DEPTH][8];
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane / 4, member = lane % 4;
    const MmaDeposit& from = *lanes[lane];
    for (int half = 0; half < DEPTH / 8; ++half) {
      memcpy(&a[group][8 * half + 2 * member], &from.a[2 * half], 4);
      memcpy(&a[group + 8][8 * half + 2 * member], &from.a[2 * half + 1], 4);
      unpack(from.b[half], &b[8 * half + 2 * member][group], &b[8 * half + 2 * member + 1][group]);
    }
  }
  elements_to_floats<ELEMENT>(&a[0][0], &A[0][0], 16 * DEPTH);
  elements_to_floats<ELEMENT>(&b[0][0], reinterpret_cast<float*>(&B[0]), DEPTH * 8);
}

template <Element ELEMENT, int DEPTH>
__attribute__((noinline)) inline void mma_compute_f32(MmaDeposit* const* lanes) {
  float A[16][DEPTH];
  Floats8 B[DEPTH], C[16];
  gather_operands<ELEMENT, DEPTH>(lanes, A, B);
  float* c = reinterpret_cast<float*>(&C[0]);
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane / 4, member = lane % 4;
    const char* from = static_cast<const char*>(lanes[lane]->c);
    memcpy(c + 8 * group + 2 * member, from, 8);
    memcpy(c + 8 * (group + 8) + 2 * member, from + 8, 8);
  }
  multiply_add(A, B, C);
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane / 4, member = lane % 4;
    char* to = static_cast<char*>(lanes[lane]->d);
    memcpy(to, c + 8 * group + 2 * member, 8);
    memcpy(to + 8, c + 8 * (group + 8) + 2 * member, 8);
  }
}

/** Half accumulators are summed in fp32 and rounded once per instruction. */
template <int DEPTH>
__attribute__((noinline)) inline void mma_compute_f16(MmaDeposit* const* lanes) {
  float A[16][DEPTH];
  Floats8 B[DEPTH], C[16];
  uint16_t c[16][8];
  gather_operands<Element::Half, DEPTH>(lanes, A, B);
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane / 4, member = lane % 4;
    const char* from = static_cast<const char*>(lanes[lane]->c);
    memcpy(&c[group][2 * member], from, 4);
    memcpy(&c[group + 8][2 * member], from + 4, 4);
  }
  halves_to_floats(&c[0][0], reinterpret_cast<float*>(&C[0]), 128);
  multiply_add(A, B, C);
  for (int i = 0; i < 128; ++i) (&c[0][0])[i] = float_to_half(reinterpret_cast<float*>(&C[0])[i]);
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane / 4, member = lane % 4;
    char* to = static_cast<char*>(lanes[lane]->d);
    memcpy(to, &c[group][2 * member], 4);
    memcpy(to + 4, &c[group + 8][2 * member], 4);
  }
}

/** A matrix instruction needs the whole warp, as .aligned in its name says. */
inline void require_whole_warp(void* const* lanes, const char* what) {
  for (int lane = 0; lane < 32; ++lane)
    if (!lanes[lane]) flashcore_emu_fault("TRAP", what);
}

template <class Compute>
inline void mma_meeting(MmaDeposit& mine, Compute compute, WaitingCall call) {
  warp_meeting({WARP_MMA, FULL_WARP}, call, mine, [compute](MmaDeposit* const* lanes) {
    require_whole_warp(reinterpret_cast<void* const*>(lanes), "mma.sync needs all 32 lanes of the warp");
    compute(lanes);
  });
}

/** mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32: d = a * b + c. d and c may be the same. */
inline void mma_m16n8k16_f32_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const float (&c)[4],
                                 FLASHCORE_PLACE_PARAMETERS) {
  MmaDeposit mine{a, b, c, d};
  mma_meeting(mine, mma_compute_f32<Element::Half, 16>, {"mma.sync m16n8k16", {file, line}});
}
/** … .f32.bf16.bf16.f32 */
inline void mma_m16n8k16_f32_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const float (&c)[4],
                                  FLASHCORE_PLACE_PARAMETERS) {
  MmaDeposit mine{a, b, c, d};
  mma_meeting(mine, mma_compute_f32<Element::BFloat16, 16>, {"mma.sync m16n8k16", {file, line}});
}
/** … .f16.f16.f16.f16 */
inline void mma_m16n8k16_f16_f16(uint32_t (&d)[2], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                 const uint32_t (&c)[2], FLASHCORE_PLACE_PARAMETERS) {
  MmaDeposit mine{a, b, c, d};
  mma_meeting(mine, mma_compute_f16<16>, {"mma.sync m16n8k16", {file, line}});
}
/** mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 */
inline void mma_m16n8k8_f32_f16(float (&d)[4], const uint32_t (&a)[2], const uint32_t (&b)[1], const float (&c)[4],
                                FLASHCORE_PLACE_PARAMETERS) {
  MmaDeposit mine{a, b, c, d};
  mma_meeting(mine, mma_compute_f32<Element::Half, 8>, {"mma.sync m16n8k8", {file, line}});
}

// --- 8 x 8 matrices between shared memory and registers -------------------------------------------------------------

struct MatrixMoveDeposit {
  uint16_t* row;  // ldmatrix, stmatrix: the row whose address this lane gives
  uint32_t* registers;  // one register per matrix
};

__forceinline__ void check_row_aligned(const void* row, bool is_write) { check_aligned<16>(row, is_write); }

/** A lane's two elements of matrix `m`: from row lane / 4, or from that column if transposed. */
template <bool TRANSPOSED>
__forceinline__ uint32_t two_elements(MatrixMoveDeposit* const* lanes, int m, int lane) {
  const int group = lane / 4, member = lane % 4;
  uint16_t low, high;
  if (TRANSPOSED) {
    low = lanes[8 * m + 2 * member]->row[group];
    high = lanes[8 * m + 2 * member + 1]->row[group];
  } else {
    low = lanes[8 * m + group]->row[2 * member];
    high = lanes[8 * m + group]->row[2 * member + 1];
  }
  return low | static_cast<uint32_t>(high) << 16;
}

/** ldmatrix.sync.aligned.m8n8.x{1,2,4}{.trans}.shared.b16; lanes 8 m .. 8 m + 7 give the rows of matrix m. */
template <int MATRICES, bool TRANSPOSED>
inline void ldmatrix(uint32_t (&registers)[MATRICES], const void* row, FLASHCORE_PLACE_PARAMETERS) {
  MatrixMoveDeposit mine{static_cast<uint16_t*>(const_cast<void*>(row)), registers};
  warp_meeting({WARP_LDMATRIX, FULL_WARP}, {"ldmatrix", {file, line}}, mine, [](MatrixMoveDeposit* const* lanes) {
    require_whole_warp(reinterpret_cast<void* const*>(lanes), "ldmatrix needs all 32 lanes of the warp");
    for (int lane = 0; lane < 8 * MATRICES; ++lane) check_row_aligned(lanes[lane]->row, false);
    for (int m = 0; m < MATRICES; ++m)
      for (int lane = 0; lane < 32; ++lane) lanes[lane]->registers[m] = two_elements<TRANSPOSED>(lanes, m, lane);
  });
}

/** stmatrix.sync.aligned.m8n8.x{1,2,4}{.trans}.shared.b16 */
template <int MATRICES, bool TRANSPOSED>
inline void stmatrix(void* row, const uint32_t (&registers)[MATRICES], FLASHCORE_PLACE_PARAMETERS) {
  MatrixMoveDeposit mine{static_cast<uint16_t*>(row), const_cast<uint32_t*>(registers)};
  warp_meeting({WARP_STMATRIX, FULL_WARP}, {"stmatrix", {file, line}}, mine, [](MatrixMoveDeposit* const* lanes) {
    require_whole_warp(reinterpret_cast<void* const*>(lanes), "stmatrix needs all 32 lanes of the warp");
    for (int lane = 0; lane < 8 * MATRICES; ++lane) check_row_aligned(lanes[lane]->row, true);
    for (int m = 0; m < MATRICES; ++m)
      for (int lane = 0; lane < 32; ++lane) {
        const int group = lane / 4, member = lane % 4;
        uint16_t low, high;
        unpack(lanes[lane]->registers[m], &low, &high);
        (TRANSPOSED ? lanes[8 * m + 2 * member]->row[group] : lanes[8 * m + group]->row[2 * member]) = low;
        (TRANSPOSED ? lanes[8 * m + 2 * member + 1]->row[group] : lanes[8 * m + group]->row[2 * member + 1]) = high;
      }
  });
}

/** movmatrix.sync.aligned.m8n8.trans.b16 */
inline uint32_t movmatrix_trans(uint32_t value, FLASHCORE_PLACE_PARAMETERS) {
  uint32_t registers[1] = {value};
  MatrixMoveDeposit mine{nullptr, registers};
  warp_meeting({WARP_MOVMATRIX, FULL_WARP}, {"movmatrix", {file, line}}, mine, [](MatrixMoveDeposit* const* lanes) {
    require_whole_warp(reinterpret_cast<void* const*>(lanes), "movmatrix needs all 32 lanes of the warp");
    uint16_t matrix[8][8];
    for (int lane = 0; lane < 32; ++lane)
      unpack(*lanes[lane]->registers, &matrix[lane / 4][2 * (lane % 4)], &matrix[lane / 4][2 * (lane % 4) + 1]);
    for (int lane = 0; lane < 32; ++lane)
      *lanes[lane]->registers =
          matrix[2 * (lane % 4)][lane / 4] | static_cast<uint32_t>(matrix[2 * (lane % 4) + 1][lane / 4]) << 16;
  });
  return registers[0];
}

}  // namespace flashcore::emu
