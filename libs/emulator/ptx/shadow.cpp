#include "shadow.h"

#include <algorithm>
#include <map>
#include <string>

namespace flashcore::emu::ptx {

void Shadow::begin(const BlockRun& block) { cells_.assign(block.shared_bytes, Cell()); }

bool Shadow::unordered(const Touch& earlier, const Touch& now) {
  if (earlier.epoch != now.epoch || earlier.thread == now.thread) return false;
  return earlier.thread / LANES != now.thread / LANES || earlier.warp_epoch == now.warp_epoch;
}

void Shadow::note_reader(Cell& cell, const Touch& now) {
  if (cell.reader.epoch != now.epoch || cell.reader.thread == now.thread)
    cell.reader = now;
  else if (cell.reader.thread / LANES != now.thread / LANES)
    cell.other_warp = now;
  else if (!unordered(cell.reader, now))
    cell.reader = now;  // a newer meeting of the same warp says more
  else
    cell.same_warp = now;
}

void Shadow::access(Warp& w, const Ins* i, uint32_t m, unsigned bytes, Access access, const uint32_t* offsets) {
  if (access == Access::ReadWrite || i->volatile_access) return;  // atomics and volatile accesses are meant to meet
  const bool writes = access == Access::Write;
  for (unsigned k = 0; k < LANES; ++k) {
    if (!(m >> k & 1)) continue;
    const Touch now{w.block->epoch, w.epoch, w.linear(k), i};
    for (uint32_t at = offsets[k]; at < offsets[k] + bytes && at < cells_.size(); ++at) {
      Cell& cell = cells_[at];
      if (unordered(cell.writer, now)) report(w, cell.writer, true, now, writes, at, bytes);
      if (!writes) {
        note_reader(cell, now);
        continue;
      }
      for (const Touch* reader : {&cell.reader, &cell.other_warp, &cell.same_warp})
        if (unordered(*reader, now)) report(w, *reader, false, now, writes, at, bytes);
      cell.writer = now;
    }
  }
}

void Shadow::report(Warp& w, const Touch& earlier, bool earlier_wrote, const Touch& now, bool writes, uint32_t byte,
                    unsigned bytes) {
  BlockRun& block = *w.block;
  const unsigned fixed = block.kernel().dynamic_offset;
  const bool dynamic = byte >= fixed;
  Fault fault;
  fault.kind = "RACE";
  fault.has_address = true;
  fault.address = byte;
  fault.access = writes ? "write" : "read";
  fault.bytes = bytes;
  fault.buffer = dynamic ? "dynamic shared memory" : "static shared memory";
  fault.has_thread = true;
  fault.thread = block.thread_index(now.thread);
  fault.place = block.place_of(now.ins);
  const std::string other = block.place_of(earlier.ins);
  const uint3 theirs = block.thread_index(earlier.thread);
  fault.message = "thread " + describe(fault.thread) + (writes ? " writes" : " reads") + " byte " +
                  std::to_string(dynamic ? byte - fixed : byte) + " of " + fault.buffer + " at " + fault.place +
                  ", which thread " + describe(theirs) + (earlier_wrote ? " wrote" : " read") + " at " + other +
                  ", with no __syncthreads()" +
                  (earlier.thread / LANES == now.thread / LANES ? " or __syncwarp()" : "") + " between them";
  fault.threads.push_back({fault.thread, std::string(writes ? "write" : "read") + " at " + fault.place});
  fault.threads.push_back({theirs, std::string(earlier_wrote ? "write" : "read") + " at " + other});
  fault.threads_total = 2;
  throw fault;
}

// --- counters ---------------------------------------------------------------------------------------------------------

void Counters::begin(const Kernel& kernel) {
  kernel_ = &kernel;
  lines_.assign(kernel.code.size(), Line());
}

void Counters::executed(Warp& w, const Ins* i) {
  Line& line = lines_[static_cast<size_t>(i - kernel_->code.data())];
  ++line.executed;
  line.threads += static_cast<uint64_t>(__builtin_popcount(w.active(i)));
}

namespace {

/** Passes of the data stage for accesses of 4 bytes and less: distinct words, one a bank a pass. */
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

/** Whether every active lane has the address of the lane beside it (1) or of the one two further (2). */
bool pairs(uint32_t m, const uint32_t* offsets, unsigned distance) {
  for (unsigned k = 0; k < LANES; ++k)
    if ((m >> k & 1) && (m >> (k ^ distance) & 1) && offsets[k] != offsets[k ^ distance]) return false;
  return true;
}

struct Passes {
  unsigned all = 0, ideal = 0;
};

/**
 * Passes of one access of `width` bytes a lane, and how many there are without conflicts: 4 bytes go at once, 8 in two
 * halves of the warp, 16 in four quarters; two parts go together where every active lane has the address of the lane
 * beside it, or every lane that of the one two further. Held against ncu's counters on an H200 (docs/emulator.md).
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

void Counters::shared(const Ins* i, uint32_t m, unsigned bytes, Access, const uint32_t* offsets) {
  Line& line = lines_[static_cast<size_t>(i - kernel_->code.data())];
  ++line.requests;
  const Passes both = shared_passes(m, bytes, offsets);
  line.wavefronts += both.all;
  line.ideal += both.ideal;
  line.bytes += static_cast<uint64_t>(__builtin_popcount(m)) * bytes;
}

void Counters::rows(const Ins* i, const uint32_t* offsets, unsigned rows, bool is_request) {
  Line& line = lines_[static_cast<size_t>(i - kernel_->code.data())];
  line.requests += is_request;
  for (unsigned from = 0; from < rows; from += 8) {
    uint32_t words[32];
    for (unsigned n = 0; n < 32; ++n) words[n] = offsets[from + n / 4] / 4 + n % 4;
    line.wavefronts += passes(words, 32);
    line.ideal += 1;
  }
  line.bytes += rows * 16;
}

void Counters::global(const Ins* i, uint32_t m, unsigned bytes, const uint64_t* addresses) {
  Line& line = lines_[static_cast<size_t>(i - kernel_->code.data())];
  ++line.requests;
  uint64_t sectors[LANES * 2];
  unsigned count = 0;
  for (unsigned k = 0; k < LANES; ++k) {
    if (!(m >> k & 1)) continue;
    sectors[count++] = addresses[k] / 32;
    if ((addresses[k] + bytes - 1) / 32 != addresses[k] / 32) sectors[count++] = (addresses[k] + bytes - 1) / 32;
  }
  std::sort(sectors, sectors + count);
  line.sectors += static_cast<uint64_t>(std::unique(sectors, sectors + count) - sectors);
  line.bytes += static_cast<uint64_t>(__builtin_popcount(m)) * bytes;
}

// --- profiles ---------------------------------------------------------------------------------------------------------

void Profile::add(const Counters& block) {
  const std::lock_guard<std::mutex> lock(mutex_);
  kernel_ = block.kernel();
  lines_.resize(block.lines().size());
  ++blocks_;
  for (size_t n = 0; n < lines_.size(); ++n) lines_[n].add(block.lines()[n]);
}

void Counters::Line::add(const Line& more) {
  executed += more.executed;
  threads += more.threads;
  requests += more.requests;
  wavefronts += more.wavefronts;
  ideal += more.ideal;
  sectors += more.sectors;
  bytes += more.bytes;
}

namespace {

/** What an instruction is counted as. */
const char* family_of(const Statement& s) {
  if (s.op == "mma" || (s.op == "wmma" && s.mods[0] == "mma")) return "tensor";
  if (s.op == "ex2" || s.op == "lg2" || s.op == "rcp" || s.op == "rsqrt" || s.op == "sqrt" || s.op == "sin" ||
      s.op == "cos" || s.op == "tanh")
    return "special_function";
  if (s.op == "bra" || s.op == "brx" || s.op == "ret" || s.op == "exit" || s.op == "call") return "control";
  if (s.op == "bar" || s.op == "barrier") return "barrier";
  if (s.op == "shfl" || s.op == "vote" || s.op == "match" || s.op == "redux") return "warp";
  if (s.op == "ld" || s.op == "st" || s.op == "cp" || s.op == "atom" || s.op == "red" || s.op == "ldmatrix" ||
      s.op == "stmatrix" || s.op == "wmma")
    return "memory";
  if (!s.mods.empty() && (s.mods.back() == "f32" || s.mods.back() == "f64") && s.op != "mov" && s.op != "cvt")
    return s.op == "fma" ? "fma" : "float";
  return "integer_and_other";
}

const char* space_name(const Ins& i, const Statement& s) {
  const bool loads = s.op == "ld" || s.op == "ldu" || s.op == "ldmatrix" || (s.op == "wmma" && s.mods[0] == "load");
  const bool matrix = s.op == "ldmatrix" || s.op == "stmatrix" || s.op == "wmma";
  if (s.op == "cp") return "async_copy";
  if (i.space == SHARED_SPACE)
    return matrix ? (loads ? "matrix_load" : "matrix_store") : (loads ? "shared_load" : "shared_store");
  return loads ? "global_load" : "global_store";
}

std::string object_of(const Counters::Line& line) {
  const auto field = [](const char* name, uint64_t value) {
    return "\"" + std::string(name) + "\":" + std::to_string(value);
  };
  return "{" + field("instructions", line.executed) + "," + field("lanes", line.threads) + "," +
         field("requests", line.requests) + "," + field("wavefronts", line.wavefronts) + "," +
         field("ideal_wavefronts", line.ideal) + "," + field("sectors", line.sectors) + "," +
         field("bytes", line.bytes) + "}";
}

std::string group_of(const char* name, const std::map<std::string, Counters::Line>& sums) {
  std::string json = "\"" + std::string(name) + "\":{";
  const char* comma = "";
  for (const auto& [key, line] : sums) {
    json += comma + ("\"" + key + "\":") + object_of(line);
    comma = ",";
  }
  return json + "}";
}

}  // namespace

std::string Profile::to_json() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!kernel_) return "";
  std::map<std::string, Counters::Line> families, spaces, places;
  for (size_t n = 0; n < lines_.size(); ++n) {
    const Counters::Line& line = lines_[n];
    if (!line.executed) continue;
    const Ins& i = kernel_->code[n];
    if (i.target == nullptr && i.extra == nullptr && i.d == NO_SLOT && i.a == NO_SLOT && i.guard == NO_GUARD &&
        kernel_->function->statements[i.statement].is_label && n + 1 < lines_.size() &&
        kernel_->code[n + 1].statement == i.statement)
      continue;  // a label is no instruction
    const Statement& s = kernel_->function->statements[i.statement];
    families[family_of(s)].add(line);
    if (line.requests || line.wavefronts) spaces[space_name(i, s)].add(line);
    const std::string place = kernel_->program->describe(static_cast<int>(i.place));
    if (!place.empty()) places[place].add(line);
  }
  return "{\"entry\":\"" + kernel_->function->name + "\",\"blocks\":" + std::to_string(blocks_) + "," +
         group_of("mix", families) + "," + group_of("memory", spaces) + "," + group_of("lines", places) + "}";
}

}  // namespace flashcore::emu::ptx
