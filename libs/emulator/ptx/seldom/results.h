// .sat and .ftz for operations that are computed with vectors.
#pragma once
#include "../halves.h"
#include "../lanes.h"
#include "../lower.h"

namespace flashcore::emu::ptx {

namespace {

/**
 * Runs the wrapped handler, then clamps the result to [0, 1] (a NaN becomes 0). Operands: options[0] is the number of
 * bytes of an element, options[1] of elements per register.
 */
const Ins* to_unit(Warp& w, const Ins* i) {
  const Ins* next = reinterpret_cast<Handler>(i->extra->readers[0])(w, i);
  const uint32_t m = w.active(i);
  const int bytes = i->extra->options[0], parts = i->extra->options[1];
  for (unsigned lane = 0; lane < LANES; ++lane) {
    if (!(m >> lane & 1)) continue;
    if (bytes == 2) {
      uint16_t* halves = w.reg<uint16_t>(i->d) + static_cast<int>(lane) * parts;
      for (int n = 0; n < parts; ++n) {
        const float x = half_to_float(halves[n]);
        halves[n] = float_to_half(x > 0 ? (x < 1 ? x : 1.0f) : 0.0f);
      }
    } else if (bytes == 4) {
      float& x = w.reg<float>(i->d)[lane];
      x = x > 0 ? (x < 1 ? x : 1.0f) : 0.0f;
    } else {
      double& x = w.reg<double>(i->d)[lane];
      x = x > 0 ? (x < 1 ? x : 1.0) : 0.0;
    }
  }
  return next;
}

/** Runs the wrapped handler, then flushes subnormals to 0. */
const Ins* flushed(Warp& w, const Ins* i) {
  const Ins* next = reinterpret_cast<Handler>(i->extra->readers[0])(w, i);
  const uint32_t* d = w.reg<uint32_t>(i->d);
  write_lanes<uint32_t>(w, i->d, w.active(i), [=](int k) { return d[k] & 0x7f800000 ? d[k] : d[k] & 0x80000000; });
  return next;
}

}  // namespace

void saturate_result(Lowering& l, Ins& ins, unsigned bytes, unsigned parts) {
  Extra& extra = l.extra(ins);
  extra.readers[0] = reinterpret_cast<void (*)()>(ins.fn);
  extra.options[0] = static_cast<int>(bytes);
  extra.options[1] = static_cast<int>(parts);
  ins.fn = to_unit;
}

void flush_result(Lowering& l, Ins& ins) {
  l.extra(ins).readers[0] = reinterpret_cast<void (*)()>(ins.fn);
  ins.fn = flushed;
}

}  // namespace flashcore::emu::ptx
