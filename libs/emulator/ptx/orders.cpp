#include "orders.h"

#include <algorithm>

#include "lower.h"

namespace flashcore::emu::ptx {

namespace {
bool comes_before(const Published& a, const Published& b) {
  return a.block != b.block ? a.block < b.block : a.warp < b.warp;
}
void raise(Published& to, const Published& by) {
  to.own = std::max(to.own, by.own);
  to.since = std::max(to.since, by.since);
}
}  // namespace

void Clock::add(const Published& more) {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), more, comes_before);
  if (at != entries_.end() && !comes_before(more, *at))
    raise(*at, more);
  else
    entries_.insert(at, more);
}

void Clock::join(const Clock& other) {
  if (other.empty()) return;
  std::vector<Published> both;
  both.reserve(entries_.size() + other.entries_.size());
  std::merge(entries_.begin(), entries_.end(), other.entries_.begin(), other.entries_.end(), std::back_inserter(both),
             comes_before);
  size_t kept = 0;
  for (size_t n = 1; n < both.size(); ++n) {
    if (comes_before(both[kept], both[n]))
      both[++kept] = both[n];
    else
      raise(both[kept], both[n]);
  }
  both.resize(kept + 1);
  entries_ = std::move(both);
}

bool Clock::covers(uint32_t block, uint32_t warp, uint32_t stamp) const {
  for (auto at = std::lower_bound(entries_.begin(), entries_.end(), Published{block, 0, 0, 0}, comes_before);
       at != entries_.end() && at->block == block; ++at)
    if (stamp <= at->since || (at->warp == warp && stamp <= at->own)) return true;
  return false;
}

Ordering ordering_of(const Statement& s) {
  Ordering order;
  const bool releases = has(s, "release") || has(s, "acq_rel");
  const bool fences = s.op == "membar" || (s.op == "fence" && !has(s, "proxy") && !has(s, "mbarrier_init"));
  order.fences = releases || fences;
  order.of_device = !has(s, "cta");
  order.of_async_proxy = s.op == "fence" && has(s, "proxy") && has(s, "async") && !has(s, "global");
  order.acquires = s.op == "atom" || s.op == "ld" || s.op == "ldu";
  order.acquires_at_fence = has(s, "relaxed");
  return order;
}

bool synchronises_some(const Statement& s) {
  if (s.op == "mbarrier" || s.op == "wgmma" || (s.op == "cp" && (has(s, "mbarrier") || has(s, "bulk")))) return true;
  if ((s.op != "bar" && s.op != "barrier") || has(s, "warp")) return false;
  const size_t of_all = has(s, "red") ? 3 : 1;
  return has(s, "cluster") || has(s, "arrive") || s.operands.size() > of_all;
}

void PublishedOrders::begin(uint64_t launch) {
  if (launch_ == launch) return;
  *this = PublishedOrders();
  launch_ = launch;
}

void PublishedOrders::acquire(uint64_t address, Clock& into) {
  const auto found = clocks_.find(address);
  if (found == clocks_.end() || lost_) return;
  steps_ += found->second.size() + into.size();
  into.join(found->second);
  lost_ = steps_ > MOST_STEPS;
}

void PublishedOrders::publish(uint64_t address, const Clock& own) {
  if (lost_ || own.empty()) return;
  Clock& clock = clocks_[address];
  entries_ -= clock.size();
  steps_ += clock.size() + own.size();
  clock.join(own);
  entries_ += clock.size();
  lost_ = steps_ > MOST_STEPS || entries_ > MOST_ENTRIES;
  if (lost_) clocks_.clear();
}

void WarpOrders::begin(size_t warps) {
  lost_ = any_ = false;
  passed_.assign(warps, ActorClock());
  published_.clear();
}

void WarpOrders::acquire(unsigned warp, uint64_t address) {
  const auto found = published_.find(address);
  if (found != published_.end()) acquire(warp, found->second);
}

void WarpOrders::published_at(uint64_t address, ActorClock& into) const {
  const auto found = published_.find(address);
  if (found != published_.end()) join(into, found->second);
}

void WarpOrders::publish(unsigned warp, uint64_t address, uint32_t own) {
  if (own == 0 && !any_) return;
  publish(warp, published_[address], own);
  if (published_.size() <= MOST_ADDRESSES) return;
  lost_ = true;
  published_.clear();
}

}  // namespace flashcore::emu::ptx
