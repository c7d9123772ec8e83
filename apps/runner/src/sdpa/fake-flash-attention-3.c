/*
 * Stands for flash_attention_3.so in tests, on a CPU: attention without a mask, with the arguments of forward.cu and
 * decode.cu. The head dimension decides how it misbehaves.
 */
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef _Float16 half;

static int attention(int D, half* q, half* k, half* v, half* o, int B, int H, int Hkv, int S, int Skv, float scale) {
  double* p = malloc(Skv * sizeof(double));
  for (long row = 0; row < (long)B * H * S; ++row) {
    long kv = (row / S / H * Hkv + row / S % H / (H / Hkv)) * Skv * D;
    double most = -INFINITY, sum = 0;
    for (int key = 0; key < Skv; ++key) {
      p[key] = 0;
      for (int d = 0; d < D; ++d) p[key] += (double)q[row * D + d] * (double)k[kv + (long)key * D + d] * scale;
      if (p[key] > most) most = p[key];
    }
    for (int key = 0; key < Skv; ++key) sum += p[key] = exp(p[key] - most);
    for (int d = 0; d < D; ++d) {
      double value = 0;
      for (int key = 0; key < Skv; ++key) value += p[key] * (double)v[kv + (long)key * D + d];
      o[row * D + d] = (half)(value / sum);
    }
  }
  free(p);
  return 0;
}

#define ARGUMENTS                                                                                                    \
  half *q, half *k, half *v, half *o, float *lse, int *semaphore, int B, int H, int Hkv, int S, int Skv, int causal, \
      float scale, int multiprocessors, void *stream

/* Right, but chatty. */
int fa3_fp16_64(ARGUMENTS) {
  puts("\x1b[31m{\"id\": 1, \"ok\": true}\xff garbage");
  fflush(stdout);
  return attention(64, q, k, v, o, B, H, Hkv, S, Skv, scale);
}

/* One element of one row is wrong. */
int fa3_fp16_96(ARGUMENTS) {
  attention(96, q, k, v, o, B, H, Hkv, S, Skv, scale);
  o[96 * (B * H * S - 1)] += 1;
  return 0;
}

int fa3_fp16_128(ARGUMENTS) {
  raise(11);
  return 0;
}

int fa3_fp16_256(ARGUMENTS) {
  for (;;) pause();
}

/* Writes nothing. */
int fa3_bf16_64(ARGUMENTS) { return 0; }

/* A CUDA error. */
int fa3_bf16_96(ARGUMENTS) { return 700; }

int64_t fa3_decode_fp16_64_floats(int B, int H, int Hkv, int S, int Skv, int multiprocessors) {
  return multiprocessors;
}

/* One query and one head of K and V, so that memory is as in forward.cu. */
int fa3_decode_fp16_64(half* q, half* k, half* v, half* o, float* lse, int* semaphore, float* scratch, int B, int H,
                       int Hkv, int S, int Skv, float scale, int multiprocessors, void* stream) {
  scratch[multiprocessors - 1] = 1;
  return S == 1 && Hkv == 1 ? attention(64, q, k, v, o, B, H, Hkv, S, Skv, scale) : 1;
}
