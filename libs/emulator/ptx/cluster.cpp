#include "cluster.h"

#include <algorithm>

#include "halves.h"
#include "lower.h"
#include "races.h"

namespace flashcore::emu::ptx {

void Cluster::begin(const LaunchPlan& plan, uint3 index) {
  plan_ = &plan;
  index_ = index;
  blocks_.clear();
  phase_ = 1;
  arrived_ = false;
  const dim3 size = plan.cluster;
  const unsigned threads = plan.block.x * plan.block.y * plan.block.z;
  arrivals_.assign(size.x * size.y * size.z, {});
  for (auto& warps : arrivals_) warps.assign((threads + LANES - 1) / LANES, {});
}

BlockRun& Cluster::owner(Warp& w, const Ins* i, unsigned lane, uint32_t& offset) const {
  const uint32_t rank = (offset >> RANK_SHIFT) - 1;
  if (rank >= size()) return *w.block;
  offset &= SHARED_OFFSET_MASK;
  BlockRun& found = block(rank);
  if (found.alive() || &found == w.block) return found;
  Fault fault;
  fault.error = CUDA_ERROR_ILLEGAL_ADDRESS;
  fault.kind = "OUT_OF_BOUNDS";
  fault.buffer = "shared memory of another block";
  fault.message = "reached into the shared memory of block " + describe(found.index()) +
                  " of its cluster, whose threads have all exited: a block must wait for those that use its memory";
  w.fail(i, lane, std::move(fault));
}

bool Cluster::fill_special(const std::string& name, unsigned rank, uint32_t slot, Warp& w) const {
  const dim3 size = plan_->cluster, grid = plan_->grid;
  const uint3 at{rank % size.x, rank / size.x % size.y, rank / size.x / size.y};
  const struct {
    const char* name;
    uint32_t value;
  } known[] = {
      {"%cluster_ctarank", rank},         {"%cluster_nctarank", this->size()}, {"%cluster_ctaid.x", at.x},
      {"%cluster_ctaid.y", at.y},         {"%cluster_ctaid.z", at.z},          {"%cluster_nctaid.x", size.x},
      {"%cluster_nctaid.y", size.y},      {"%cluster_nctaid.z", size.z},       {"%clusterid.x", index_.x},
      {"%clusterid.y", index_.y},         {"%clusterid.z", index_.z},          {"%nclusterid.x", grid.x / size.x},
      {"%nclusterid.y", grid.y / size.y}, {"%nclusterid.z", grid.z / size.z},
  };
  for (const auto& each : known) {
    if (name != each.name) continue;
    std::fill_n(w.reg<uint32_t>(slot), LANES, each.value);
    return true;
  }
  return false;
}

void Cluster::arrive(Warp& w, uint32_t lanes) {
  for (unsigned k = 0; k < LANES; ++k)
    if (lanes >> k & 1) arrivals_[w.block->rank][w.index][k] = phase_;
  arrived_ = true;
  complete_if_full();
}

uint32_t Cluster::passed(Warp& w, const Ins* i, uint32_t lanes) {
  auto& arrivals = arrivals_[w.block->rank][w.index];
  uint32_t passed = 0;
  for (unsigned k = 0; k < LANES; ++k) {
    if (!(lanes >> k & 1)) continue;
    if (arrivals[k] == 0)
      misused({w, i, k}, "INVALID_BARRIER", "waits at the cluster's barrier without having arrived at it");
    if (arrivals[k] == phase_) continue;
    passed |= 1u << k;
    arrivals[k] = 0;
  }
  return passed;
}

void Cluster::complete_if_full() {
  if (!arrived_) return;
  for (const BlockRun* block : blocks_)
    for (const Warp& w : const_cast<BlockRun*>(block)->warps())
      for (uint32_t left = w.live; left; left &= left - 1)
        if (arrivals_[block->rank][w.index][__builtin_ctz(left)] != phase_) return;
  ++phase_;
  arrived_ = false;
  for (BlockRun* block : blocks_) {
    block->cluster_clocks.end_phase();
    for (Warp& w : block->warps())
      for (Split& split : w.others) {
        if (split.state != SplitState::AtCluster) continue;
        for (unsigned k = 0; k < LANES; ++k)
          if (split.mask >> k & 1) arrivals_[block->rank][w.index][k] = 0;
        if (block->shadow) block->shadow->passes(w, block->cluster_clocks);
        split.state = SplitState::Runnable;
        ++split.pc;
      }
  }
}

void misused(const LaneAt& at, const char* kind, const std::string& message) {
  Fault fault;
  fault.kind = kind;
  fault.message = message;
  at.w.fail(at.i, at.lane, std::move(fault));
}

SharedPlace shared_place(const LaneAt& at, unsigned bytes, unsigned alignment) {
  const auto& [w, i, lane] = at;
  const uint64_t address = address_of(w, i, lane);
  if (i->space == GENERIC_SPACE && (address & WINDOW_MASK) != SHARED_WINDOW) {
    Fault fault;
    fault.error = CUDA_ERROR_ILLEGAL_ADDRESS;
    fault.kind = "OUT_OF_BOUNDS";
    fault.has_address = true;
    fault.address = address;
    fault.message = "named an address outside of shared memory where one of shared memory is wanted";
    w.fail(i, lane, std::move(fault));
  }
  // Checks the address, but records neither a read nor a write for the race check.
  Shadow* const shadow = w.block->shadow;
  w.block->shadow = nullptr;
  resolve_one({at, bytes, Access::ReadWrite}, address, alignment);
  w.block->shadow = shadow;
  auto offset = static_cast<uint32_t>(address & ~WINDOW_MASK);
  if (!(offset >> RANK_SHIFT)) return {w.block, offset};
  BlockRun& owner = w.block->cluster->owner(w, i, lane, offset);
  return {&owner, offset};
}

// --- running ----------------------------------------------------------------------------------------------------------

ClusterRun::ClusterRun() = default;
ClusterRun::~ClusterRun() = default;

bool ClusterRun::run(const LaunchPlan& plan, const NextCluster& next, unsigned at_once, unsigned most) {
  try {
    run_to_the_end(plan, next, at_once, most);
    return true;
  } catch (Fault& fault) {
    fault_ = std::move(fault);
    fault_.entry = plan.entry->name;
    fault_.block = current_->index();
    for (const auto& each : clusters_)
      for (const auto& block : each->blocks) block->abandon();
    running_ = 0;
    return false;
  }
}

void ClusterRun::begin(const LaunchPlan& plan, uint3 index) {
  if (running_ == clusters_.size()) clusters_.push_back(std::make_unique<InFlight>());
  InFlight& each = *clusters_[running_++];
  const dim3 size = plan.cluster;
  const unsigned count = size.x * size.y * size.z;
  while (each.blocks.size() < count) each.blocks.push_back(std::make_unique<BlockRun>());
  each.cluster.begin(plan, index);
  for (unsigned rank = 0; rank < count; ++rank) each.cluster.add(*each.blocks[rank]);
  for (unsigned rank = 0; rank < count; ++rank) {
    current_ = each.blocks[rank].get();
    current_->begin(plan,
                    {index.x * size.x + rank % size.x, index.y * size.y + rank / size.x % size.y,
                     index.z * size.z + rank / size.x / size.y},
                    each.cluster, rank);
  }
}

ClusterRun::Step ClusterRun::step(InFlight& each) {
  Step step;
  for (unsigned rank = 0; rank < each.cluster.size(); ++rank) {
    BlockRun& block = *each.blocks[rank];
    if (!block.alive()) continue;
    step.alive = true;
    current_ = &block;
    if (!block.step()) continue;
    step.went_on = true;
    step.spins = step.spins && block.spins;
  }
  if (!step.alive || step.went_on) return step;
  BlockRun* const waiting = current_;
  for (unsigned rank = 0; rank < each.cluster.size(); ++rank)
    step.went_on |= each.blocks[rank]->mbarriers.land_all(*each.blocks[rank]);
  step.spins = false;
  // Nothing outside a cluster can end a wait at its barriers. Code that waits for blocks outside polls memory instead.
  if (!step.went_on) waiting->deadlock("all threads of the block wait and none can go on");
  return step;
}

void ClusterRun::run_to_the_end(const LaunchPlan& plan, const NextCluster& next, unsigned at_once, unsigned most) {
  // After this many rounds in which every warp only polled memory, other clusters begin, because the warps may be
  // waiting for them.
  constexpr unsigned ROUNDS_TO_OTHERS = 4;
  const FlushSubnormals flush(plan.kernel->flush_subnormals);
  uint3 index;
  unsigned spinning = 0;
  for (;;) {
    const bool stuck = spinning >= ROUNDS_TO_OTHERS;
    const size_t wanted = stuck ? std::min<size_t>(2 * running_, most) : at_once;
    while (running_ < wanted && next(index)) begin(plan, index);
    if (running_ == 0) return;
    if (stuck) spinning = 0;
    bool all_spin = true;
    for (size_t n = 0; n < running_;) {
      InFlight& each = *clusters_[n];
      const Step done = step(each);
      all_spin = all_spin && done.alive && done.spins;
      if (done.alive) {
        ++n;
        continue;
      }
      for (unsigned rank = 0; rank < each.cluster.size(); ++rank) {
        current_ = each.blocks[rank].get();
        current_->finish();
      }
      std::swap(clusters_[n], clusters_[--running_]);
    }
    spinning = all_spin ? spinning + 1 : 0;
    if (running_ == 0) continue;
    // A block that waits for a faulted block would wait forever.
    if (faulted_->load(std::memory_order_relaxed)) throw Fault();
    if (std::chrono::steady_clock::now().time_since_epoch().count() > deadline_->load(std::memory_order_relaxed))
      current_->fail_at_deadline();
  }
}

RunCounters ClusterRun::counters() const {
  RunCounters sum;
  for (const auto& each : clusters_)
    for (const auto& block : each->blocks) {
      sum.blocks += block->counters().blocks;
      sum.barriers += block->counters().barriers;
    }
  return sum;
}

// --- instructions -----------------------------------------------------------------------------------------------------

namespace {

const Ins* cluster_arrive(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  ++w.epoch;
  if (m && w.block->shadow) w.block->shadow->arrives(w, w.block->cluster_clocks, !i->extra->options[0]);
  if (m) w.block->cluster->arrive(w, m);
  return w.others.empty() ? i + 1 : w.go_on_at(i + 1);
}

const Ins* cluster_wait(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  if (!m) return i + 1;
  ++w.epoch;
  const uint32_t waiting = m & ~w.block->cluster->passed(w, i, m);
  if (w.block->shadow && waiting != m) w.block->shadow->passes(w, w.block->cluster_clocks);
  if (!waiting) return i + 1;
  w.others.push_back({i, waiting, SplitState::AtCluster});
  w.mask &= ~waiting;
  return w.mask ? w.go_on_at(i + 1) : w.pick();
}

/** Operands: imm is the window of a generic address, b the rank. */
template <class T>
const Ins* map_address(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  const T* a = w.reg<T>(i->a);
  const uint32_t* rank = w.reg<uint32_t>(i->b);
  const unsigned size = w.block->cluster->size();
  for (unsigned k = 0; k < LANES; ++k) {
    if (!(m >> k & 1) || rank[k] < size) continue;
    Fault fault;
    fault.error = CUDA_ERROR_ILLEGAL_ADDRESS;
    fault.kind = "OUT_OF_BOUNDS";
    fault.message = "mapped an address to block " + std::to_string(rank[k]) + " of a cluster that has " +
                    std::to_string(size) + (size == 1 ? " block" : " blocks, counted from 0");
    w.fail(i, k, std::move(fault));
  }
  write_lanes<T>(w, i->d, m, [=](int k) {
    return static_cast<T>(static_cast<uint64_t>(i->imm) | (rank[k] + 1) << RANK_SHIFT | (a[k] & SHARED_OFFSET_MASK));
  });
  return i + 1;
}

template <class T>
const Ins* rank_of_address(Warp& w, const Ins* i) {
  const T* a = w.reg<T>(i->a);
  const uint32_t own = w.block->rank;
  write_lanes<uint32_t>(w, i->d, w.active(i), [=](int k) {
    const uint32_t rank = static_cast<uint32_t>(a[k]) >> RANK_SHIFT;
    return rank ? rank - 1 : own;
  });
  return i + 1;
}

}  // namespace

bool lower_cluster(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.op == "barrier" && has(s, "cluster")) {
    l.extra(ins).what = "barrier.cluster.wait";
    l.extra(ins).options[0] = has(s, "relaxed");
    ins.fn = has(s, "arrive") ? cluster_arrive : (has(s, "wait") ? cluster_wait : nullptr);
    return ins.fn != nullptr;
  }
  if (s.op == "mapa") {
    const bool wide = s.mods.back() == "u64";
    ins.d = l.slot(s.operands[0], wide ? 8 : 4);
    ins.a = l.slot(s.operands[1], wide ? 8 : 4);
    ins.b = l.slot(s.operands[2], 4);
    ins.imm = has(s, "shared::cluster") ? 0 : static_cast<int64_t>(SHARED_WINDOW);
    ins.fn = wide ? map_address<uint64_t> : map_address<uint32_t>;
    return true;
  }
  if (s.op == "getctarank") {
    const bool wide = s.mods.back() == "u64";
    ins.d = l.slot(s.operands[0], 4);
    ins.a = l.slot(s.operands[1], wide ? 8 : 4);
    ins.fn = wide ? rank_of_address<uint64_t> : rank_of_address<uint32_t>;
    return true;
  }
  return false;
}

}  // namespace flashcore::emu::ptx
