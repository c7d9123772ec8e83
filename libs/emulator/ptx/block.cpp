#include "block.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "cluster.h"
#include "counters.h"
#include "products.h"
#include "races.h"

namespace flashcore::emu::ptx {

namespace {
constexpr size_t SHARED_BYTES = 256 * 1024;
constexpr int POISON = 0xFF;

void fill_slot(char* registers, const Kernel::Constant& constant) {
  char* const slot = registers + constant.slot;
  if (constant.bytes == 0) {
    const uint32_t all = constant.bits ? ALL : 0;
    memcpy(slot, &all, 4);
  }
  // A 128-bit register may be declared, but no instruction has a handler for it.
  const unsigned bytes = std::min<unsigned>(constant.bytes, sizeof constant.bits);
  for (int lane = 0; lane < LANES && bytes; ++lane) memcpy(slot + lane * constant.bytes, &constant.bits, bytes);
}
}  // namespace

BlockRun::BlockRun() : recent(std::make_unique<RecentOperands>()) {
  shared_memory_ = static_cast<char*>(aligned_alloc(1024, SHARED_BYTES));
  if (!shared_memory_) throw std::bad_alloc();
}

BlockRun::~BlockRun() {
  free(shared_memory_);
  free(registers_);
}

uint3 BlockRun::thread_index(unsigned linear) const {
  const dim3 size = plan_->block;
  return {linear % size.x, linear / size.x % size.y, linear / size.x / size.y};
}

void BlockRun::attach() {
  const size_t bytes = static_cast<size_t>(kernel_->frame_bytes) * warps_.size();
  if (bytes > registers_bytes_) {
    free(registers_);
    registers_ = static_cast<char*>(aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
    if (!registers_) throw std::bad_alloc();
    registers_bytes_ = bytes;
  }
  memset(registers_, 0, bytes);
  for (size_t n = 0; n < warps_.size(); ++n) {
    char* regs = registers_ + n * kernel_->frame_bytes;
    for (const Kernel::Constant& constant : kernel_->constants) fill_slot(regs, constant);
  }
}

void BlockRun::fill_specials(Warp& w, bool first_block) {
  const auto fill = [&](uint32_t slot, auto value) {
    uint32_t* d = w.reg<uint32_t>(slot);
    for (unsigned k = 0; k < LANES; ++k) d[k] = value(k);
  };
  const dim3 grid = plan_->grid, size = plan_->block;
  for (const Kernel::Special& special : kernel_->specials) {
    if (!first_block && !special.of_block) continue;
    const uint32_t slot = special.slot;
    const std::string& name = special.name;
    const auto uniform = [&](unsigned value) { fill(slot, [=](unsigned) { return value; }); };
    if (name == "%is_explicit_cluster")
      *w.reg<uint32_t>(slot) = cluster->size() > 1 ? ALL : 0;
    else if (name == "%tid.x")
      fill(slot, [&](unsigned k) { return thread_index(w.linear(k)).x; });
    else if (name == "%tid.y")
      fill(slot, [&](unsigned k) { return thread_index(w.linear(k)).y; });
    else if (name == "%tid.z")
      fill(slot, [&](unsigned k) { return thread_index(w.linear(k)).z; });
    else if (name == "%ntid.x")
      uniform(size.x);
    else if (name == "%ntid.y")
      uniform(size.y);
    else if (name == "%ntid.z")
      uniform(size.z);
    else if (name == "%ctaid.x")
      uniform(index_.x);
    else if (name == "%ctaid.y")
      uniform(index_.y);
    else if (name == "%ctaid.z")
      uniform(index_.z);
    else if (name == "%nctaid.x")
      uniform(grid.x);
    else if (name == "%nctaid.y")
      uniform(grid.y);
    else if (name == "%nctaid.z")
      uniform(grid.z);
    else if (name == "%laneid")
      fill(slot, [](unsigned k) { return k; });
    else if (name == "%warpid")
      uniform(w.index);
    else if (name == "%nwarpid")
      uniform(static_cast<unsigned>(warps_.size()));
    else if (name == "%lanemask_eq")
      fill(slot, [](unsigned k) { return 1u << k; });
    else if (name == "%lanemask_lt")
      fill(slot, [](unsigned k) { return (1u << k) - 1; });
    else if (name == "%lanemask_le")
      fill(slot, [](unsigned k) { return (2u << k) - 1; });
    else if (name == "%lanemask_gt")
      fill(slot, [](unsigned k) { return ~((2u << k) - 1); });
    else if (name == "%lanemask_ge")
      fill(slot, [](unsigned k) { return ~((1u << k) - 1); });
    else if (name == "%dynamic_smem_size")
      uniform(plan_->dynamic_shared_bytes);
    else if (name == "%total_smem_size")
      uniform(shared_bytes);
    else if (name == "%envreg1")  // cooperative_groups.h looks here for the workspace of a cooperative launch
      uniform(static_cast<unsigned>(plan_->grid_workspace >> 32));
    else if (name == "%envreg2")
      uniform(static_cast<unsigned>(plan_->grid_workspace));
    else if (cluster->fill_special(name, rank, slot, w))
      continue;
    else
      uniform(0);  // %smid, %gridid and others are always 0
  }
}

void BlockRun::begin(const LaunchPlan& plan, uint3 index, Cluster& its_cluster, unsigned its_rank) {
  cluster = &its_cluster;
  rank = its_rank;
  plan_ = &plan;
  index_ = index;
  const bool other_launch = kernel_ != plan.kernel || attached_ != plan.launch;
  kernel_ = plan.kernel;
  threads_ = plan.block.x * plan.block.y * plan.block.z;
  const unsigned warps = (threads_ + LANES - 1) / LANES;
  if (other_launch) {
    attached_ = plan.launch;
    warps_.assign(warps, Warp());
    ranges.assign(kernel_->caches, Range());
    attach();
  }
  shared = shared_memory_;
  shared_bytes =
      plan.dynamic_shared_bytes ? kernel_->dynamic_offset + plan.dynamic_shared_bytes : kernel_->static_shared;
  if (shared_bytes) memset(shared, POISON, shared_bytes);
  local_bytes = kernel_->local_bytes;
  local_stride = (local_bytes + 15) / 16 * 16;
  if (local_bytes) {
    local_memory_.assign(local_stride * warps * LANES, static_cast<char>(POISON));
    local = local_memory_.data();
  }
  parameters = plan.packed_arguments;
  parameter_bytes = kernel_->function->parameter_bytes;
  waited_for_launch = false;
  copies.clear();
  mbarriers.clear();
  products.assign(warps, Products());
  open_groups.assign(warps, {});
  barriers.fill(BlockBarrier());
  barrier_clocks.fill(PhaseClocks());
  cluster_clocks = PhaseClocks();
  epoch = 1;
  for (unsigned n = 0; n < warps; ++n) {
    Warp& w = warps_[n];
    w.index = n;
    w.block = this;
    w.regs = registers_ + static_cast<size_t>(n) * kernel_->frame_bytes;
    const unsigned lanes = std::min(threads_ - n * LANES, static_cast<unsigned>(LANES));
    w.live = lanes == LANES ? ALL : (1u << lanes) - 1;
    w.epoch = 1;
    w.others.assign(1, Split{kernel_->code.data(), w.live});
    for (const Kernel::Constant& poison : kernel_->read_before_written) fill_slot(w.regs, poison);
    fill_specials(w, other_launch);
  }
  shadow = nullptr;
  if (kernel_->program->races) {
    if (!shadow_) shadow_ = std::make_unique<Shadow>();
    shadow = shadow_.get();
    shadow->begin(*this);
  }
  observed = nullptr;
  if (plan.profile) {
    if (!observed_) observed_ = std::make_unique<Counters>();
    observed = observed_.get();
    observed->begin(*kernel_);
    if (plan.trace) trace_.begin(warps);
    observed->trace = plan.trace ? &trace_ : nullptr;
  }
}

bool BlockRun::alive() const {
  return std::any_of(warps_.begin(), warps_.end(), [](const Warp& w) { return w.live != 0; });
}

bool BlockRun::step() {
  bool went_on = false;
  spins = true;
  for (Warp& w : warps_) {
    if (!w.live || !w.has_runnable()) continue;
    went_on = true;
    w.budget = 20'000;
    w.looked = w.yielded = false;
    const Ins* i = w.pick();
    if (observed)
      while (i) {
        observed->executed(w, i);
        i = i->fn(w, i);
      }
    else if (shadow)
      while (i) {
        if (!kernel_->product_steps.empty() && kernel_->product_steps[i->statement].kind != ProductStep::None)
          products[w.index].step(w, i, kernel_->product_steps[i->statement]);
        const Ins* const done = i;
        i = shadow->taint.follows(w) ? shadow->taint.step(w, i) : i->fn(w, i);
        if (__builtin_expect(shadow->taint.has_read(), 0)) shadow->taint.after(w, done);
      }
    else
      while (i) i = i->fn(w, i);
    spins = spins && w.looked && w.yielded;
    if (shadow && w.yielded) shadow->end();  // report unwritten memory now, because the loop may be waiting on it
  }
  return went_on;
}

void BlockRun::finish() {
  if (shadow) shadow->end();
  ++counters_.blocks;
  if (observed) plan_->profile->add(*observed);
  if (observed && plan_->trace) plan_->trace->add(*kernel_, trace_);
}

unsigned BlockRun::live_threads() const {
  unsigned live = 0;
  for (const Warp& w : warps_) live += static_cast<unsigned>(__builtin_popcount(w.live));
  return live;
}

// True if other lanes of this warp wait at the barrier in another line. Different warps may reach a barrier from
// different lines, but lanes of one warp may not.
bool BlockRun::waits_elsewhere(const Warp& w, const Ins* i, unsigned id) const {
  return std::any_of(w.others.begin(), w.others.end(), [&](const Split& split) {
    return split.state == SplitState::AtBarrier && split.barrier == id && split.pc != i &&
           place_of(split.pc) != place_of(i);
  });
}

void BlockRun::arrive(Warp& w, const Ins* i, const Arrival& arrival) {
  const auto& [id, expected, lanes, truths, waits] = arrival;
  BlockBarrier& barrier = barriers[id];
  if (barrier.arrived == 0) {
    barrier.expected = expected;
    barrier.truths = 0;
    barrier.voters = 0;
  } else if (barrier.expected != expected || waits_elsewhere(w, i, id)) {
    // Records that these lanes wait here too, so that the report lists them.
    w.others.push_back({i, lanes, SplitState::AtBarrier, id, 0});
    deadlock("divergent barrier: threads of one block came to different __syncthreads()");
  }
  if (shadow && (expected || kernel_->accumulators)) shadow->arrives(w, barrier_clocks[id]);
  barrier.arrived += static_cast<unsigned>(__builtin_popcount(lanes));
  barrier.truths += __builtin_popcount(truths & lanes);
  barrier.voters += static_cast<unsigned>(__builtin_popcount(lanes));
  if (waits) {
    w.others.push_back({i, lanes, SplitState::AtBarrier, id, 0});
    barrier.waiting += static_cast<unsigned>(__builtin_popcount(lanes));
  }
  complete_if_full(id);
}

void BlockRun::complete_if_full(unsigned id) {
  BlockBarrier& barrier = barriers[id];
  if (barrier.arrived == 0) return;
  const unsigned wanted = barrier.expected ? barrier.expected : live_threads();
  if (barrier.arrived < wanted) return;
  ++counters_.barriers;
  const bool of_all = (barrier.expected == 0 || barrier.waiting == threads_) && !(shadow && shadow->reads_operands());
  for (Warp& w : warps_)
    if (shadow && !of_all && barrier.expected == 0 && !w.live) shadow->arrives(w, barrier_clocks[id]);
  if (of_all) ++epoch;
  barrier_clocks[id].end_phase();
  for (Warp& w : warps_)
    for (Split& split : w.others) {
      if (split.state != SplitState::AtBarrier || split.barrier != id) continue;
      const Ins* i = split.pc;
      if (shadow && !of_all) shadow->passes(w, barrier_clocks[id]);
      // bar.red: 1 popc, 2 and, 3 or
      const int kind = i->extra ? i->extra->options[0] : 0;
      if (kind == 1) {
        const auto count = static_cast<uint32_t>(barrier.truths);
        write_lanes<uint32_t>(w, i->d, split.mask, [=](int) { return count; });
      } else if (kind != 0) {
        const bool truth = kind == 2 ? barrier.truths == static_cast<int>(barrier.voters) : barrier.truths > 0;
        write_pred(w, i->d, split.mask, truth ? ALL : 0);
      }
      split.state = SplitState::Runnable;
      split.pc = i + 1;
    }
  barrier = BlockBarrier();
}

void BlockRun::complete_barriers_after_exit() {
  for (unsigned id = 0; id < barriers.size(); ++id)
    if (barriers[id].arrived && barriers[id].expected == 0) complete_if_full(id);
  cluster->complete_if_full();
}

void BlockRun::deadlock(const char* headline) {
  if (shadow) shadow->end();  // report unwritten memory now, because the threads may be waiting on it
  Fault fault;
  fault.kind = "DEADLOCK";
  fault.error = CUDA_ERROR_LAUNCH_TIMEOUT;
  fault.message = headline;
  describe_threads(fault);
  mbarriers.describe_waited(*this, fault.message);
  throw fault;
}

void BlockRun::fail_at_deadline() {
  if (shadow) shadow->end();
  Fault fault;
  fault.kind = "TIMED_OUT";
  fault.error = CUDA_ERROR_LAUNCH_TIMEOUT;
  fault.message = "the launch did not end within {limit}";
  for (const Warp& w : warps_)
    for (const Split& split : w.others) {
      if (fault.has_thread || split.state != SplitState::Runnable) continue;
      fault.has_thread = true;
      fault.thread = w.thread(static_cast<unsigned>(__builtin_ctz(split.mask)));
      fault.place = place_of(split.pc);
    }
  describe_threads(fault);
  throw fault;
}

void BlockRun::describe_threads(Fault& fault) const {
  constexpr size_t MAX_LISTED = 128;
  struct Group {
    std::string place;
    unsigned count, first;
  };
  std::vector<Group> groups;
  fault.threads_total = threads_;
  for (const Warp& w : warps_)
    for (unsigned lane = 0; lane < LANES && w.linear(lane) < threads_; ++lane) {
      std::string place = w.live >> lane & 1 ? "running" : "exited";
      for (const Split& split : w.others) {
        if (!(split.mask >> lane & 1) || place == "exited") continue;
        const std::string where = place_of(split.pc);
        const char* what = split.pc->extra ? split.pc->extra->what : "a barrier";
        place = split.state == SplitState::Runnable ? "running" : what;
        if (!where.empty()) place += " at " + where;
      }
      if (fault.threads.size() < MAX_LISTED) fault.threads.push_back({thread_index(w.linear(lane)), place});
      const auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.place == place; });
      if (group == groups.end())
        groups.push_back({place, 1, w.linear(lane)});
      else
        ++group->count;
    }
  const char* separator = ": ";
  for (const Group& group : groups) {
    const bool runs = group.place.rfind("running", 0) == 0;
    fault.message += separator + std::to_string(group.count) + (group.count == 1 ? " thread " : " threads ") +
                     (group.place == "exited" ? "have exited" : (runs ? "" : "in ") + group.place) +
                     " (first: thread " + describe(thread_index(group.first)) + ")";
    separator = "; ";
  }
}

}  // namespace flashcore::emu::ptx
