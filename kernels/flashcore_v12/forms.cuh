// Windows and sinks, which FORMED entries add to the mask by lengths, and capped logits, of CAPPED entries.
#pragma once
#include "mechanisms/attention_form.cuh"
#include "primitives/exp2.cuh"

struct Forms {
  const float* sinks = nullptr;  // [heads]: one logit per head, for a key without a value; null: no sinks
  int heads = 1;  // heads per batch
  int window = 0;  // row i sees no key before i + diagonal - window; INT_MAX: no window
  float softcap = 0;  // logits x become softcap * tanh(x / softcap); used by CAPPED entries only

  __device__ __forceinline__ int keys_hidden(int row, const AttentionForm& form) const {
    return row + form.diagonal - window;
  }
  // The sink's term in the sum of a row's weights; row_max is the row's maximum in log2 units. If the sink is far above
  // it, the sum is infinite and O is 0, as it should be.
  __device__ __forceinline__ float sink_weight(int head, float log2_e, float row_max) const {
    return sinks == nullptr ? 0.0f : exp2_approx(fmaf(sinks[head % heads], log2_e, -row_max));
  }
};

// tanh for logits. If all arguments of a warp are within 0.75 (logits within 37 for a cap of 50), an odd polynomial on
// units that would wait for the tensor cores anyway. Its relative error is at most 6e-7: a least-squares fit in u^2 to
// tanh(u) / u, reweighted where the error was large. Otherwise an exponential and a reciprocal, which compete with the
// softmax's exponentials (so does tanh.approx, whose error is 5e-4).
class Cap {
 public:
  __device__ __forceinline__ Cap(float factor) : factor(factor), most(0.75f / factor) {
    constexpr float FIT[5] = {0.99999943492f, -0.33328251529f, 0.13258983188f, -0.05005630175f, 0.01292963158f};
    float power = factor;
#pragma unroll
    for (int i = 0; i < 5; ++i, power *= factor * factor) coefficients[i] = FIT[i] * power;
  }
  // Replaces each score by tanh(factor * score).
  template <int COUNT>
  __device__ __forceinline__ void operator()(float (&scores)[COUNT]) const {
    float largest = fabsf(scores[0]);
#pragma unroll
    for (int i = 1; i < COUNT; ++i) largest = fmaxf(largest, fabsf(scores[i]));
    if (__any_sync(0xffffffffu, largest > most)) {
      const float to_log2 = factor * 2.885390081777927f;  // 2 log2(e)
#pragma unroll
      for (int i = 0; i < COUNT; ++i) scores[i] = 1.0f - __fdividef(2.0f, exp2_approx(scores[i] * to_log2) + 1.0f);
    } else {
#pragma unroll
      for (int i = 0; i < COUNT; ++i) {
        const float squared = scores[i] * scores[i];
        float sum = coefficients[4];
#pragma unroll
        for (int power = 3; power >= 0; --power) sum = fmaf(sum, squared, coefficients[power]);
        scores[i] *= sum;
      }
    }
  }

 private:
  float factor, most, coefficients[5];
};
