// fma.run: the chains of multiply-adds that fuse.cpp found.
#pragma once
#include <vector>

#include "../lanes.h"
#include "../lower.h"

namespace flashcore::emu::ptx {

namespace {

/** Runs chains of multiply-adds one after another. */
const Ins* multiply_adds(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  const Link* links = i->extra->links.data();
  const Chain *chain = i->extra->chains.data(), *const end = chain + i->extra->chains.size();
  while (chain != end) {
    if (__builtin_expect(m != ALL, 0)) {
      alignas(64) float t[LANES];
      multiply_add_chain(w.regs, *chain, links, t);
      blend(w.reg<uint32_t>(chain->d), reinterpret_cast<const uint32_t*>(t), m);
    } else if (chain->first_of_four) {
      multiply_add_four(w.regs, chain, links);
      links += 4 * chain->count;
      chain += 4;
      continue;
    } else {
      multiply_add_chain(w.regs, *chain, links, w.reg<float>(chain->d));
    }
    links += chain->count;
    ++chain;
  }
  return i + 1;
}

/**
 * Marks groups of four chains that may run at the same time: all have the same shape and factors, and no chain reads or
 * overwrites the result of another.
 */
void find_fours(Extra& extra) {
  std::vector<Chain>& chains = extra.chains;
  const Link* links = extra.links.data();
  for (size_t n = 0; n < chains.size();) {
    const uint32_t count = chains[n].count;
    bool fits = n + 4 <= chains.size();
    for (size_t other = n; fits && other < n + 4; ++other) {
      const Link* own = links + (other - n) * count;
      fits = chains[other].floats && chains[other].count == count;
      for (uint32_t at = 0; fits && at < count; ++at) fits = own[at].a == links[at].a;
    }
    for (size_t one = n; fits && one < n + 4; ++one) {
      for (size_t other = n; fits && other < n + 4; ++other)
        fits = one == other || (chains[one].d != chains[other].d && chains[one].d != chains[other].c);
      for (uint32_t at = 0; fits && at < 4 * count; ++at)
        fits = links[at].a != chains[one].d && links[at].b != chains[one].d;
    }
    chains[n].first_of_four = fits;
    for (size_t last = n + (fits ? 4 : 1); n < last; ++n) links += chains[n].count;
  }
}

/** Lowers fma.run, which passes.h describes. */
bool lower_multiply_adds(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  Extra& extra = l.extra(ins);
  const std::vector<Operand>&results = s.operands[0].items, &lengths = s.operands[2].items;
  const Operand* term = s.operands[1].items.data();
  for (size_t n = 0; n < results.size(); ++n) {
    Chain chain{l.slot(*term++, 4), l.slot(results[n], 4), static_cast<uint32_t>(lengths[n].value), true};
    for (uint32_t link = 0; link < chain.count; ++link, term += 2) {
      const auto half_of = [](const Operand& o) {
        return static_cast<uint8_t>(o.kind == OperandKind::Register ? o.value : 0);
      };
      extra.links.push_back({l.slot(term[0], 4), l.slot(term[1], 4), half_of(term[0]), half_of(term[1])});
      chain.floats &= !extra.links.back().a_half && !extra.links.back().b_half;
    }
    extra.chains.push_back(chain);
  }
  find_fours(extra);
  ins.fn = multiply_adds;
  return true;
}

}  // namespace

}  // namespace flashcore::emu::ptx
