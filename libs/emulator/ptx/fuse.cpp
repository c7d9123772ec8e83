#include "passes.h"

#include <algorithm>
#include <vector>

#include "lower.h"
#include "mentions.h"

namespace flashcore::emu::ptx {

namespace {

constexpr size_t MOST_LINKS = 256;  // limit of a run, because each link keeps registers in use for longer
constexpr size_t NONE = ~size_t(0);
constexpr int NO_REGISTER = -1;

bool is_multiply_add(const Statement& s) {
  return s.op == "fma" && s.guard < 0 && s.operands.size() == 4 && s.operands[0].kind == OperandKind::Register &&
         std::all_of(
             s.mods.begin(), s.mods.end(),
             [](const std::string& mod) { return mod == "rn" || mod == "ftz" || mod == "f32"; }) &&
         s.mods.back() == "f32";
}

/** A multiply-add, followed by those that each use the previous result as their summand. */
struct Sum {
  std::vector<size_t> links;
};

class Fusion {
 public:
  explicit Fusion(Function& f) : f_(f) {}

  void run() {
    for (size_t begin = 0; begin < f_.statements.size();) {
      size_t end = begin + 1;
      while (end < f_.statements.size() && !f_.statements[end].is_label && !ends_block(f_.statements[end - 1])) ++end;
      blocks_.push_back({begin, end});
      begin = end;
    }
    {
      const Mentions mentions(f_);
      note_writes();
      for (const Block& block : blocks_)
        for (size_t n = block.begin; n < block.end; ++n) take_halves(mentions, n, block.end);
    }
    const Mentions mentions(f_);
    note_writes();
    for (const Block& block : blocks_) fuse(mentions, block);
  }

 private:
  struct Block {
    size_t begin, end;
  };

  /** Records the first operand of every statement as written. */
  void note_writes() {
    writes_.assign(f_.registers.size(), {});
    for (size_t n = 0; n < f_.statements.size(); ++n)
      if (!f_.statements[n].operands.empty()) note(f_.statements[n].operands[0], n);
  }
  void note(const Operand& o, size_t n) {
    if (o.reg >= 0) writes_[static_cast<size_t>(o.reg)].push_back(n);
    for (const Operand& item : o.items) note(item, n);
  }
  bool written_between(int reg, size_t after, size_t before) const {
    const std::vector<size_t>& at = writes_[static_cast<size_t>(reg)];
    const auto next = std::upper_bound(at.begin(), at.end(), after);
    return next != at.end() && *next < before;
  }
  static bool mentioned_between(const Mentions& mentions, int reg, size_t after, size_t before) {
    const std::vector<size_t>& at = mentions.of(reg);
    const auto next = std::upper_bound(at.begin(), at.end(), after);
    return next != at.end() && *next < before;
  }
  /** True if no statement between `n` and `until` writes an input of `n`. Writes to the register `own` do not count. */
  bool inputs_keep(size_t n, size_t until, int own = NO_REGISTER) const {
    const Statement& s = f_.statements[n];
    for (size_t o = 1; o < 4; ++o) {
      const int reg = s.operands[o].reg;
      if (reg >= 0 && reg != own && written_between(reg, n, until)) return false;
    }
    return true;
  }

  // --- halves ---------------------------------------------------------------------------------------------------------

  /** A register with half of a pair, widened to fp32. */
  struct Widened {
    int reg, pair;
  };
  /**
   * Finds the multiply-add that has the value widened by `n` as a factor. NONE unless it is the value's only use and in
   * the same basic block.
   */
  size_t only_use(const Mentions& mentions, const Widened& value, size_t n, size_t end) const {
    const auto& [reg, pair] = value;
    const std::vector<size_t>& at = mentions.of(reg);
    if (at.size() != 2 || at[0] != n || at[1] >= end) return NONE;
    const Statement& s = f_.statements[at[1]];
    const bool factor = is_multiply_add(s) && (s.operands[1].reg == reg) != (s.operands[2].reg == reg);
    return factor && !written_between(pair, n, at[1]) ? at[1] : NONE;
  }

  void take_halves(const Mentions& mentions, size_t n, size_t end) {
    Statement& s = f_.statements[n];
    if (s.op != "cvt" || s.guard >= 0 || s.mods.size() != 2) return;
    const std::string& which = s.mods[1];
    if (which != "low" && which != "high" && which != "pair") return;
    const Operand pair = s.operands[1];
    std::vector<Operand> results = which == "pair" ? s.operands[0].items : std::vector<Operand>{s.operands[0]};
    std::vector<size_t> uses;
    for (const Operand& result : results) {
      if (result.kind != OperandKind::Register || result.reg == pair.reg) return;
      uses.push_back(only_use(mentions, {result.reg, pair.reg}, n, end));
      if (uses.back() == NONE) return;
    }
    for (size_t r = 0; r < results.size(); ++r)
      for (Operand& o : f_.statements[uses[r]].operands)
        if (o.reg == results[r].reg) {
          o = pair;
          o.value = which == "high" || r == 1 ? 2 : 1;
        }
    remove(s);
  }

  // --- chains and runs ------------------------------------------------------------------------------------------------

  /** Finds the multiply-add that has the result of `n` as its summand. NONE if anything else uses that result. */
  size_t next_link(const Mentions& mentions, size_t n, size_t end) const {
    const int result = f_.statements[n].operands[0].reg;
    const std::vector<size_t>& at = mentions.of(result);
    if (at.size() != 2 || at[0] != n || at[1] >= end) return NONE;
    const Statement& s = f_.statements[at[1]];
    return is_multiply_add(s) && s.operands[3].reg == result ? at[1] : NONE;
  }

  std::vector<Sum> chains_of(const Mentions& mentions, const Block& block) const {
    std::vector<Sum> chains;
    std::vector<bool> taken(block.end - block.begin);
    for (size_t n = block.begin; n < block.end; ++n) {
      if (taken[n - block.begin] || !is_multiply_add(f_.statements[n])) continue;
      Sum chain{{n}};
      for (size_t next; (next = next_link(mentions, chain.links.back(), block.end)) != NONE;) {
        const bool keeps =
            std::all_of(chain.links.begin(), chain.links.end(), [&](size_t link) { return inputs_keep(link, next); });
        if (!keeps || chain.links.size() == MOST_LINKS) break;
        taken[next - block.begin] = true;
        chain.links.push_back(next);
      }
      chains.push_back(std::move(chain));
    }
    std::sort(chains.begin(), chains.end(), [](const Sum& a, const Sum& b) { return a.links.back() < b.links.back(); });
    return chains;
  }

  bool reads(const Sum& chain, int reg) const {
    return std::any_of(chain.links.begin(), chain.links.end(), [&](size_t n) {
      const Statement& s = f_.statements[n];
      return s.operands[1].reg == reg || s.operands[2].reg == reg || (n == chain.links[0] && s.operands[3].reg == reg);
    });
  }
  int result_of(const Sum& chain) const { return f_.statements[chain.links.back()].operands[0].reg; }

  /** True if a chain may move down to `at`, before the chains in `there`. */
  bool may_go(const Mentions& mentions, const Sum& chain, size_t at, const std::vector<const Sum*>& there) const {
    const size_t from = chain.links.back();
    const int result = result_of(chain);
    // The statements of the chains in `there` lie between, except the one at `at` itself. The last check below covers
    // its inputs.
    if (mentioned_between(mentions, result, from, at)) return false;
    // If a loop carries the sum, the last link writes the register that the chain starts from.
    for (const size_t link : chain.links)
      if (!inputs_keep(link, at, result)) return false;
    return std::none_of(there.begin(), there.end(),
                        [&](const Sum* other) { return reads(*other, result) || result_of(*other) == result; });
  }

  void fuse(const Mentions& mentions, const Block& block) {
    const std::vector<Sum> chains = chains_of(mentions, block);
    std::vector<const Sum*> run;
    size_t links = 0;
    for (size_t n = chains.size(); n-- > 0;) {
      const Sum& chain = chains[n];
      const bool joins = !run.empty() && links + chain.links.size() <= MOST_LINKS &&
                         may_go(mentions, chain, run[0]->links.back(), run);
      if (!joins) {
        write(run);
        run.clear();
        links = 0;
      }
      run.push_back(&chain);  // the last chain of the block comes first
      links += chain.links.size();
    }
    write(run);
  }

  void write(const std::vector<const Sum*>& run) {
    if (run.empty()) return;
    const bool has_halves = std::any_of(run.begin(), run.end(), [&](const Sum* chain) {
      return std::any_of(chain->links.begin(), chain->links.end(), [&](size_t n) {
        const Statement& s = f_.statements[n];
        return is_half(s.operands[1]) || is_half(s.operands[2]);
      });
    });
    if (run.size() == 1 && run[0]->links.size() == 1 && !has_halves) return;
    const size_t at = run[0]->links.back();
    Operand results, terms, lengths;
    results.kind = terms.kind = lengths.kind = OperandKind::Vector;
    bool flushes = false;
    for (size_t n = run.size(); n-- > 0;) {
      const std::vector<size_t>& links = run[n]->links;
      results.items.push_back(f_.statements[links.back()].operands[0]);
      terms.items.push_back(f_.statements[links[0]].operands[3]);
      Operand length;
      length.kind = OperandKind::Immediate;
      length.value = static_cast<int64_t>(links.size());
      lengths.items.push_back(length);
      for (const size_t link : links) {
        flushes |= has(f_.statements[link], "ftz");
        terms.items.push_back(f_.statements[link].operands[1]);
        terms.items.push_back(f_.statements[link].operands[2]);
      }
    }
    for (const Sum* chain : run)
      for (const size_t link : chain->links) remove(f_.statements[link]);
    Statement& s = f_.statements[at];
    s.op = "fma";
    s.mods = {"run", "f32"};
    if (flushes) s.mods.insert(s.mods.begin() + 1, "ftz");
    s.operands = {std::move(results), std::move(terms), std::move(lengths)};
  }
  static bool is_half(const Operand& o) { return o.kind == OperandKind::Register && o.value != 0; }

  Function& f_;
  std::vector<Block> blocks_;
  std::vector<std::vector<size_t>> writes_;  // for each register, the statements that write it, in order
};

}  // namespace

void fuse_multiply_adds(Function& f) { Fusion(f).run(); }

}  // namespace flashcore::emu::ptx
