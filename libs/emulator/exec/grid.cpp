#include "grid.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "../ptx/cluster.h"
#include "device_memory.h"

namespace flashcore::emu {

namespace {

using Clock = std::chrono::steady_clock;
constexpr Clock::time_point NEVER = Clock::time_point::max();

unsigned worker_count() {
  if (const char* wanted = getenv("FLASHCORE_EMULATOR_THREADS")) {
    const int count = atoi(wanted);
    if (count > 0) return static_cast<unsigned>(count);
  }
  const unsigned hardware = std::thread::hardware_concurrency();
  return hardware ? hardware : 1;
}

/** `stalled`: the limit is that for the time without another block. */
void tell_limit(Fault& fault, uint64_t milliseconds, bool stalled) {
  char text[32];
  snprintf(text, sizeof text, "%.1f s", static_cast<double>(milliseconds) / 1000);
  const std::string general = "the launch did not end within {limit}";
  const size_t at = fault.message.find(general);
  if (at == std::string::npos) return;
  fault.message.replace(at, general.size(),
                        (stalled ? "no further block of the launch began within " : "the launch did not end within ") +
                            std::string(text));
}

/**
 * Watches fibre launches: past the limit it sends a signal to the threads that run the launch until they stop. One
 * thread watches all launches, because starting a thread per launch took three times as long as an empty launch. It may
 * sleep until the deadline of an earlier launch, so a later launch rarely needs to wake it.
 */
class TimeLimit {
 public:
  void begin(Clock::time_point deadline, std::vector<std::thread>& workers) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!is_watching_) {
      for (std::thread& worker : workers) threads_.push_back(worker.native_handle());
      std::thread([this] { watch(); }).detach();
      is_watching_ = true;
    }
    launcher_ = pthread_self();
    deadline_ = deadline;
    if (deadline < wakes_at_) sooner_.notify_one();
  }
  void end() {
    const std::lock_guard<std::mutex> lock(mutex_);
    deadline_ = NEVER;
  }

 private:
  static constexpr auto AGAIN = std::chrono::milliseconds(20);

  void watch() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      wakes_at_ = deadline_;
      if (wakes_at_ == NEVER) {
        sooner_.wait(lock);
      } else if (Clock::now() < wakes_at_) {
        sooner_.wait_until(lock, wakes_at_);
      } else {
        pthread_kill(launcher_, time_limit_signal());
        for (const pthread_t thread : threads_) pthread_kill(thread, time_limit_signal());
        sooner_.wait_for(lock, AGAIN);
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable sooner_;
  bool is_watching_ = false;
  Clock::time_point deadline_ = NEVER;  // of the running launch
  Clock::time_point wakes_at_ = NEVER;
  pthread_t launcher_{};
  std::vector<pthread_t> threads_;
};

/**
 * Worker 0 is the launching thread. The other workers sleep between launches, and wake for a grid of several blocks.
 */
class WorkerPool {
 public:
  static WorkerPool& instance() {
    static WorkerPool* pool = new WorkerPool();  // never destroyed: its threads may outlive static destructors
    return *pool;
  }

  GridResult run(const LaunchPlan& plan) {
    const auto start = Clock::now();
    grid_ = dim3(plan.grid.x / plan.cluster.x, plan.grid.y / plan.cluster.y, plan.grid.z / plan.cluster.z);
    const uint64_t blocks = uint64_t(grid_.x) * grid_.y * grid_.z;
    const uint64_t limit = limit_ms_.load(std::memory_order_relaxed), stall = stall_ms_.load(std::memory_order_relaxed);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      plan_ = &plan;
      deadline_ = limit ? start + std::chrono::milliseconds(limit) : NEVER;
      stall_ = std::chrono::milliseconds(stall);
      stall_deadline_.store((stall ? std::min(deadline_, start + stall_) : deadline_).time_since_epoch().count());
      total_ = blocks;
      next_.store(0, std::memory_order_relaxed);
      faulted_.store(false, std::memory_order_relaxed);
      result_ = GridResult();
      running_ = blocks > 1 ? static_cast<unsigned>(threads_.size()) : 0;
      if (running_) ++generation_;
    }
    const bool is_watched = limit && !plan.kernel;  // the PTX engine checks the clock itself
    if (is_watched) time_limit_.begin(deadline_, threads_);
    if (blocks > 1) wake_.notify_all();
    work(0);
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [&] { return running_ == 0; });
    if (is_watched) time_limit_.end();
    ++launches_;
    const bool stalled = stall && Clock::now() < deadline_;
    if (result_.fault.kind == "TIMED_OUT") tell_limit(result_.fault, stalled ? stall : limit, stalled);
    seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
    return std::move(result_);
  }

  void set_time_limit(uint64_t milliseconds) { limit_ms_.store(milliseconds, std::memory_order_relaxed); }
  void set_stall_limit(uint64_t milliseconds) { stall_ms_.store(milliseconds, std::memory_order_relaxed); }
  uint64_t begun() const { return begun_.load(std::memory_order_relaxed); }

  GridStatistics statistics() {
    const std::lock_guard<std::mutex> lock(mutex_);
    GridStatistics sum;
    sum.launches = launches_;
    sum.host_seconds = seconds_;
    sum.workers = static_cast<unsigned>(blocks_.size());
    for (const auto& block : blocks_) {
      if (!block) continue;
      sum.counters.thread_switches += block->counters().thread_switches;
      sum.counters.barriers += block->counters().barriers;
      sum.counters.warp_meetings += block->counters().warp_meetings;
      sum.counters.blocks += block->counters().blocks;
    }
    for (const auto& block : ptx_blocks_) {
      if (!block) continue;
      const ptx::RunCounters counters = block->counters();
      sum.counters.barriers += counters.barriers;
      sum.counters.blocks += counters.blocks;
    }
    return sum;
  }

 private:
  WorkerPool() : blocks_(worker_count()), ptx_blocks_(blocks_.size()) {
    for (unsigned i = 1; i < blocks_.size(); ++i) threads_.emplace_back([this, i] { serve(i); });
  }

  void serve(unsigned worker) {
    uint64_t seen = 0;
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [&] { return generation_ != seen; });
      seen = generation_;
      lock.unlock();
      work(worker);
      lock.lock();
      if (--running_ == 0) done_.notify_one();
    }
  }

  void work(unsigned worker) {
    if (plan_->kernel) {
      if (!ptx_blocks_[worker]) ptx_blocks_[worker] = std::make_unique<ptx::ClusterRun>();
      ptx_blocks_[worker]->set_ends(stall_deadline_, faulted_);
      return run_clusters(*ptx_blocks_[worker]);
    }
    if (!blocks_[worker]) {
      use_alternate_signal_stack();
      blocks_[worker] = std::make_unique<Block>();
    }
    run_blocks(*blocks_[worker]);
  }

  /** Takes the next block (or cluster) of the grid. Returns false if none is left or a block has faulted. */
  bool take(uint3& index) {
    const dim3 grid = grid_;
    while (!faulted_.load(std::memory_order_relaxed)) {
      const uint64_t linear = next_.fetch_add(1, std::memory_order_relaxed);
      if (linear >= total_) break;
      begun_.fetch_add(uint64_t(plan_->cluster.x) * plan_->cluster.y * plan_->cluster.z, std::memory_order_relaxed);
      if (stall_ != stall_.zero())
        stall_deadline_.store(std::min(deadline_, Clock::now() + stall_).time_since_epoch().count(),
                              std::memory_order_relaxed);
      if (plan_->trace && !plan_->traced.has(linear)) continue;
      index = {static_cast<unsigned>(linear % grid.x), static_cast<unsigned>(linear / grid.x % grid.y),
               static_cast<unsigned>(linear / grid.x / grid.y)};
      return true;
    }
    return false;
  }

  void run_blocks(Block& block) {
    for (uint3 index; take(index);) {
      expect_time_limit_signal();
      if (!block.run(*plan_, index)) note_fault(block.fault());
    }
  }

  void run_clusters(ptx::ClusterRun& clusters) {
    const auto share = [&](uint64_t all) {
      return static_cast<unsigned>(std::max<uint64_t>(1, (all + blocks_.size() - 1) / blocks_.size()));
    };
    const unsigned of_cluster = plan_->cluster.x * plan_->cluster.y * plan_->cluster.z;
    const unsigned most = share(plan_->resident / of_cluster);
    const bool done = clusters.run(
        *plan_, [this](uint3& index) { return take(index); }, plan_->cooperative ? share(total_) : 1, most);
    if (!done) note_fault(clusters.fault());
  }

  void note_fault(const Fault& fault) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!result_.ok) return;  // keep the first fault
    result_.ok = false;
    result_.fault = fault;
    faulted_.store(true, std::memory_order_relaxed);
  }

  std::atomic<uint64_t> limit_ms_{0}, stall_ms_{0}, begun_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<std::unique_ptr<ptx::ClusterRun>> ptx_blocks_;
  std::vector<std::thread> threads_;
  const LaunchPlan* plan_ = nullptr;
  dim3 grid_;  // of blocks, or of clusters
  TimeLimit time_limit_;
  Clock::time_point deadline_ = NEVER;
  Clock::duration stall_{};  // 0: no limit
  std::atomic<int64_t> stall_deadline_{0};  // in ticks of the clock: the earlier one of both limits
  uint64_t total_ = 0;
  std::atomic<uint64_t> next_{0};
  std::atomic<bool> faulted_{false};
  unsigned running_ = 0;
  uint64_t generation_ = 0;
  GridResult result_;
  uint64_t launches_ = 0;
  double seconds_ = 0;
};

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
}

/** Resolves the fault's source places. A fibre cannot do this, because it may start a program. */
void resolve_places(Fault& fault) {
  if (fault.place.empty() && fault.program_counter)
    fault.place = describe_code_address(static_cast<const char*>(fault.program_counter) - 1);
  const std::string other = fault.other_program_counter
                                ? describe_code_address(static_cast<const char*>(fault.other_program_counter) - 1)
                                : "";
  replace_all(fault.message, "{place}", fault.place);
  replace_all(fault.message, "{other}", other);
  for (WaitingThread& thread : fault.threads) {
    replace_all(thread.waits_at, "{place}", fault.place);
    replace_all(thread.waits_at, "{other}", other);
  }
  if (fault.kind != "RACE" && fault.kind != "DEADLOCK" && fault.kind != "TIMED_OUT" && !fault.place.empty())
    fault.message += ", at " + fault.place;
}

/** Looks for changed bytes between an allocation's end and its guard page, because a write there raises no signal. */
GridResult check_slack(const LaunchPlan& plan) {
  GridResult result;
  const std::string slack = DeviceMemory::instance().overwritten_slack();
  if (slack.empty()) return result;
  result.ok = false;
  result.fault.error = CUDA_ERROR_ILLEGAL_ADDRESS;
  result.fault.kind = "OUT_OF_BOUNDS";
  result.fault.entry = plan.entry->name;
  result.fault.access = "write";
  result.fault.buffer = slack;
  result.fault.message = std::string("a thread of ") + plan.entry->name + " wrote " + slack;
  return result;
}

}  // namespace

GridResult run_grid(const LaunchPlan& plan) {
  install_fault_signals();
  GridResult result = WorkerPool::instance().run(plan);
  if (result.ok)
    result = check_slack(plan);
  else
    resolve_places(result.fault);
  flush_device_printf();
  return result;
}

void set_time_limit(uint64_t milliseconds) { WorkerPool::instance().set_time_limit(milliseconds); }

void set_stall_limit(uint64_t milliseconds) { WorkerPool::instance().set_stall_limit(milliseconds); }

uint64_t blocks_begun() { return WorkerPool::instance().begun(); }

GridStatistics grid_statistics() { return WorkerPool::instance().statistics(); }

}  // namespace flashcore::emu
