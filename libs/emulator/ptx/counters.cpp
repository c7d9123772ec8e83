#include "counters.h"

#include <algorithm>
#include <map>
#include <string>

namespace flashcore::emu::ptx {

Handler label_handler();

void Counters::begin(const Kernel& kernel) {
  kernel_ = &kernel;
  lines_.assign(kernel.code.size(), Line());
}

void Counters::executed(Warp& w, const Ins* i) {
  if (trace && i->fn != label_handler()) trace->executed(w.index, i->statement);
  Line& line = line_of(i);
  ++line.executed;
  line.threads += static_cast<uint64_t>(__builtin_popcount(w.active(i)));
  line.idle_requests += kernel_->counted[i->statement].idle_requests;
}

namespace {

/** Passes through the data stage for an access of up to 4 bytes. Each pass serves one distinct word per bank. */
unsigned passes(const uint32_t* words, unsigned count) {
  unsigned per_bank[32] = {};
  unsigned most = 0;
  for (unsigned n = 0; n < count; ++n) {
    bool seen = false;
    for (unsigned before = 0; before < n && !seen; ++before) seen = words[before] == words[n];
    if (seen) continue;
    const unsigned here = ++per_bank[words[n] & 31];
    most = here > most ? here : most;
  }
  return most;
}

/** True if lanes k and k ^ distance have the same address wherever both are active. */
bool pairs(uint32_t m, const uint32_t* offsets, unsigned distance) {
  for (unsigned k = 0; k < LANES; ++k)
    if ((m >> k & 1) && (m >> (k ^ distance) & 1) && offsets[k] != offsets[k ^ distance]) return false;
  return true;
}

struct Passes {
  unsigned all = 0, ideal = 0;
};

/**
 * Passes of one access with `width` bytes per lane, and how many it would take without conflicts. An access of 4 bytes
 * has one part, one of 8 bytes has two (halves of the warp), one of 16 bytes has four (quarters). Two parts are
 * combined if every active lane has the address of its neighbor, or of the lane two further. Checked against ncu's
 * counters on an H200 (docs/emulator.md).
 */
Passes shared_passes(uint32_t m, unsigned width, const uint32_t* offsets) {
  const unsigned words_each = width <= 4 ? 1 : width / 4, lanes = LANES / words_each;
  const unsigned at_once = words_each > 1 && (pairs(m, offsets, 1) || pairs(m, offsets, 2)) ? 2 : 1;
  Passes sum;
  for (unsigned part = 0; part < words_each; part += at_once) {
    uint32_t words[2 * LANES];
    unsigned count = 0;
    for (unsigned k = part * lanes; k < (part + at_once) * lanes; ++k)
      for (unsigned word = 0; word < words_each && (m >> k & 1); ++word) words[count++] = offsets[k] / 4 + word;
    sum.all += passes(words, count);
    sum.ideal += count > 0;
  }
  return sum;
}

}  // namespace

void Counters::shared(const Ins* i, uint32_t m, unsigned bytes, const uint32_t* offsets) {
  const CountedAccess& counted = kernel_->counted[i->statement];
  if (counted.joined) return;
  Line& line = line_of(i);
  ++line.requests;
  if (counted.bytes) bytes = counted.bytes;
  uint32_t from[LANES];
  for (int k = 0; k < LANES; ++k) from[k] = offsets[k] + static_cast<uint32_t>(counted.shift);
  const Passes both = shared_passes(m, bytes, from);
  line.wavefronts += both.all;
  if (trace) trace->passes(both.all);
  line.ideal += both.ideal;
  line.bytes += static_cast<uint64_t>(__builtin_popcount(m)) * bytes;
}

void Counters::rows(const Ins* i, const uint32_t* offsets, unsigned rows) {
  Line& line = line_of(i);
  for (unsigned from = 0; from < rows; from += 8) {
    uint32_t words[32];
    for (unsigned n = 0; n < 32; ++n) words[n] = offsets[from + n / 4] / 4 + n % 4;
    const unsigned all = passes(words, 32);
    line.wavefronts += all;
    if (trace) trace->passes(all);
    line.ideal += 1;
  }
  line.bytes += rows * 16;
}

void Counters::global(const Ins* i, uint32_t m, unsigned bytes, const uint64_t* addresses) {
  Line& line = line_of(i);
  ++line.requests;
  uint64_t sectors[LANES * 2];
  unsigned count = 0;
  for (unsigned k = 0; k < LANES; ++k) {
    if (!(m >> k & 1)) continue;
    sectors[count++] = addresses[k] / 32;
    if ((addresses[k] + bytes - 1) / 32 != addresses[k] / 32) sectors[count++] = (addresses[k] + bytes - 1) / 32;
  }
  std::sort(sectors, sectors + count);
  const auto distinct = static_cast<uint64_t>(std::unique(sectors, sectors + count) - sectors);
  line.sectors += distinct;
  if (trace) trace->passes(distinct);
  line.bytes += static_cast<uint64_t>(__builtin_popcount(m)) * bytes;
}

void Counters::Line::add(const Line& more) {
  executed += more.executed;
  threads += more.threads;
  requests += more.requests;
  idle_requests += more.idle_requests;
  wavefronts += more.wavefronts;
  ideal += more.ideal;
  sectors += more.sectors;
  bytes += more.bytes;
}

// --- profiles ---------------------------------------------------------------------------------------------------------

void Profile::add(const Counters& block) {
  const std::lock_guard<std::mutex> lock(mutex_);
  kernel_ = block.kernel();
  lines_.resize(block.lines().size());
  ++blocks_;
  for (size_t n = 0; n < lines_.size(); ++n) lines_[n].add(block.lines()[n]);
}

namespace {

bool is_one_of(const std::string& op, std::initializer_list<const char*> ops) {
  return std::any_of(ops.begin(), ops.end(), [&](const char* each) { return op == each; });
}

bool is_wgmma(const Statement& s) { return s.op == "wgmma" && has(s, "mma_async"); }

bool is_tensor(const Statement& s) { return s.op == "mma" || (s.op == "wmma" && s.mods[0] == "mma") || is_wgmma(s); }

bool is_float(const Statement& s) {
  const std::string& type = s.mods.empty() ? s.op : s.mods.back();
  return is_one_of(type, {"f32", "f64", "f16", "f16x2", "bf16", "bf16x2"});
}

/** The family under which an instruction is counted. */
const char* family_of(const Statement& s) {
  if (is_tensor(s)) return "tensor";
  if (is_one_of(s.op, {"ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh"})) return "special_function";
  if (s.op == "cvt") return "conversion";
  if (is_one_of(s.op, {"bra", "brx", "ret", "exit", "call", "wgmma", "fence", "membar"})) return "control";
  if (s.op == "barrier" || (s.op == "bar" && !has(s, "warp"))) return "barrier";
  if (is_one_of(s.op, {"shfl", "vote", "match", "redux", "bar", "elect", "activemask"})) return "warp";
  if (is_one_of(s.op, {"ld", "st", "cp", "atom", "red", "ldmatrix", "stmatrix", "wmma"})) return "memory";
  if (is_float(s) && is_one_of(s.op, {"fma", "mad"})) return "fma";
  if (is_float(s) && is_one_of(s.op, {"add", "sub", "mul", "div", "min", "max", "neg", "abs"})) return "float";
  return "integer";
}

/** FLOPs of a warp's mma, for m16n8k16 2 x 16 x 8 x 16. Four warps execute a wgmma together. */
uint64_t tensor_flops(const Statement& s) {
  const unsigned warps = is_wgmma(s) ? 4 : 1;
  for (const std::string& mod : s.mods) {
    unsigned m, n, k;
    if (sscanf(mod.c_str(), "m%un%uk%u", &m, &n, &k) == 3) return uint64_t(2) * m * n * k / warps;
  }
  return 0;
}

/** FLOPs of one lane. A special function counts as one FLOP. */
unsigned lane_flops(const Statement& s, const std::string& family) {
  if (family == "special_function") return 1;
  if (family != "fma" && family != "float") return 0;
  if (is_one_of(s.op, {"min", "max", "neg", "abs"})) return 0;
  const std::string& type = s.mods.back();
  const unsigned numbers = type == "f16x2" || type == "bf16x2" ? 2 : 1;
  return numbers * (family == "fma" ? 2 : 1);
}

using Sums = std::map<std::string, uint64_t>;

void add_to(Sums& sums, const Counters::Line& line, const Ins& i, const Statement& s) {
  const std::string family = family_of(s);
  sums["instructions"] += line.executed;
  sums["lanes"] += line.threads;
  sums[family] += line.executed;
  sums["flops"] += is_tensor(s) ? line.executed * tensor_flops(s) : line.threads * lane_flops(s, family);
  if (is_tensor(s)) sums["tensor_flops"] += line.executed * tensor_flops(s);
  if (family != "memory") return;
  const bool loads = is_one_of(s.op, {"ld", "ldu", "ldmatrix"}) || (s.op == "wmma" && s.mods[0] == "load");
  if (s.op == "cp") {
    sums["async_copy_requests"] += line.requests;
    sums["async_copy_sectors"] += line.sectors;
    sums["async_copy_bytes"] += line.bytes;
    sums["shared_load_requests"] += line.idle_requests;
  } else if (i.space == SHARED_SPACE) {
    const std::string kind = loads ? "shared_load" : "shared_store";
    sums[kind + "_requests"] += line.requests;
    sums[kind + "_wavefronts"] += line.wavefronts;
    sums[kind + "_conflicts"] += line.wavefronts - line.ideal;
    sums["shared_bytes"] += line.bytes;
  } else if (i.space == LOCAL_SPACE) {
    sums[loads ? "local_load_instructions" : "local_store_instructions"] += line.executed;
  } else if (i.space == GLOBAL_SPACE) {
    const std::string kind = loads ? "global_load" : "global_store";
    sums[kind + "_requests"] += line.requests;
    sums[kind + "_sectors"] += line.sectors;
    sums[kind + "_bytes"] += line.bytes;
  }
}

std::string object_of(const Sums& sums) {
  std::string json = "{";
  for (const auto& [name, value] : sums)
    if (value) json += (json.size() > 1 ? ",\"" : "\"") + name + "\":" + std::to_string(value);
  return json + "}";
}

}  // namespace

std::string Profile::to_json() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!kernel_) return "";
  Sums totals;
  std::map<std::string, Sums> places;
  std::vector<int> code;
  for (const Ins& i : kernel_->code) code.push_back(static_cast<int>(i.place));
  const std::vector<std::string> lines_in_kernel = kernel_->program->lines_in_kernel(code);
  for (size_t n = 0; n < lines_.size(); ++n) {
    const Counters::Line& line = lines_[n];
    const Ins& i = kernel_->code[n];
    const Statement& s = kernel_->function->statements[i.statement];
    const bool is_label =
        s.op.empty() || (s.is_label && n + 1 < lines_.size() && kernel_->code[n + 1].statement == i.statement);
    if (!line.executed || is_label) continue;
    add_to(totals, line, i, s);
    const std::string& place = lines_in_kernel[n];
    if (!place.empty()) add_to(places[place], line, i, s);
  }
  std::string json = "{\"entry\":\"" + kernel_->function->name + "\",\"blocks\":" + std::to_string(blocks_) +
                     ",\"counts\":" + object_of(totals) + ",\"lines\":{";
  const char* comma = "";
  for (const auto& [place, sums] : places) {
    json += comma + ("\"" + place + "\":") + object_of(sums);
    comma = ",";
  }
  return json + "}}";
}

}  // namespace flashcore::emu::ptx
