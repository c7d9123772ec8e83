#include "block.h"

#include <algorithm>
#include <cstring>

#include "race.h"

__thread flashcore::emu::ThreadState* flashcore_emu_thread
#if !defined(__APPLE__)
    __attribute__((tls_model("initial-exec")))
#endif
    = nullptr;

#define FLASHCORE_HOT inline __attribute__((always_inline))

namespace flashcore::emu {

// --- the ready queue -------------------------------------------------------------------------------------------

FLASHCORE_HOT void Block::push_ready_back(Fibre* fibre) {
  fibre->state = FibreState::Ready;
  fibre->next = nullptr;
  if (ready_tail_)
    ready_tail_->next = fibre;
  else
    ready_head_ = fibre;
  ready_tail_ = fibre;
}

FLASHCORE_HOT void Block::push_ready_front(Fibre* fibre) {
  fibre->state = FibreState::Ready;
  fibre->next = ready_head_;
  ready_head_ = fibre;
  if (!ready_tail_) ready_tail_ = fibre;
}

FLASHCORE_HOT Fibre* Block::pop_ready() {
  Fibre* fibre = ready_head_;
  if (fibre) {
    ready_head_ = fibre->next;
    if (!ready_head_) ready_tail_ = nullptr;
  }
  return fibre;
}

/**
 * Switches to `fibre`. Returns when the current fibre runs again, with the answer for it. Must be the caller's last
 * statement.
 */
FLASHCORE_HOT void* Block::switch_to(Fibre* fibre) {
  Fibre* from = current_fibre();
  fibre->waits_for = nullptr;
  if (from == fibre) return fibre->answer;
  ++counters_.thread_switches;
  flashcore_emu_thread = fibre;
  return switch_context(&from->context, fibre->context, fibre->answer);
}

FLASHCORE_HOT void* Block::switch_to_next() {
  if (Fibre* fibre = pop_ready()) return switch_to(fibre);
  if (live_ != 0) report_deadlock("all threads of the block wait and none can go on");
  leave();
}

FLASHCORE_HOT void Block::wait_in(Fibre* fibre, FibreState state, const char* what, Place place) {
  fibre->state = state;
  fibre->waits_for = what;
  fibre->place = place;
  fibre->answer = nullptr;
}

void Block::leave() {
  void* abandoned;
  switch_context(&abandoned, main_context_, nullptr);
  __builtin_unreachable();
}

void Block::yield() {
  if (!ready_head_) return;
  push_ready_back(current_fibre());
  switch_to(pop_ready());
}

Block::Block() = default;
Block::~Block() = default;

bool Block::run(const LaunchPlan& plan, uint3 index) {
  plan_ = &plan;
  faulted_ = false;
  shared_.begin_block(plan);
  if (plan.module->instrumented) {
    if (!races_) races_ = std::make_unique<RaceDetector>();
    races_->begin_block(shared_);
  }
  prepare_fibres(index);
  ++counters_.blocks;
  Fibre* first = pop_ready();
  flashcore_emu_thread = first;
  switch_context(&main_context_, first->context, nullptr);
  flashcore_emu_thread = nullptr;
  if (!faulted_)
    if (const char* slack = shared_.overwritten_slack()) {
      fault_ = Fault();
      fault_.error = CUDA_ERROR_ILLEGAL_ADDRESS;
      fault_.kind = "OUT_OF_BOUNDS";
      fault_.entry = plan.entry->name;
      fault_.block = index;
      fault_.access = "write";
      fault_.buffer = "dynamic shared memory";
      fault_.message = "a thread of block " + describe(index) + " wrote " +
                       std::to_string(slack - (shared_.dynamic_part().base + shared_.dynamic_part().bytes) + 1) +
                       " bytes past the end of the " + std::to_string(plan.dynamic_shared_bytes) +
                       " bytes of dynamic shared memory";
      faulted_ = true;
    }
  return !faulted_;
}

void Block::prepare_fibres(uint3 index) {
  const dim3 size = plan_->block;
  thread_count_ = size.x * size.y * size.z;
  live_ = thread_count_;
  barrier_epoch_ = 1;
  for (Barrier& barrier : barriers_) barrier.reset();
  for (size_t known = fibres_.size(); known < thread_count_; ++known) {
    if (known == fibres_.size()) fibres_.resize(thread_count_);
    fibres_[known].stack_top = stacks_.top(known);
  }
  warps_.resize((thread_count_ + 31) / 32);
  for (unsigned w = 0; w < warps_.size(); ++w) {
    const unsigned lanes = std::min(32u, thread_count_ - w * 32);
    warps_[w].block = this;
    warps_[w].lanes = &fibres_[w * 32];
    warps_[w].existing = warps_[w].live = lanes == 32 ? ~0u : (1u << lanes) - 1;
    warps_[w].epoch = 1;
    warps_[w].meetings_in_use = 0;
    for (Meeting& meeting : warps_[w].meetings) meeting.arrived = 0;
  }
  ready_head_ = ready_tail_ = nullptr;
  unsigned linear = 0;
  for (unsigned z = 0; z < size.z; ++z)
    for (unsigned y = 0; y < size.y; ++y)
      for (unsigned x = 0; x < size.x; ++x, ++linear) {
        Fibre& fibre = fibres_[linear];
        fibre.thread_index = {x, y, z};
        fibre.block_index = index;
        fibre.block_dim = size;
        fibre.grid_dim = plan_->grid;
        fibre.linear_index = linear;
        fibre.lane = linear % 32;
        fibre.warp = &warps_[linear / 32];
        fibre.dynamic_shared = shared_.dynamic_part().base;
        fibre.dynamic_shared_bytes = plan_->dynamic_shared_bytes;
        fibre.context = prepare_stack(fibre.stack_top, &Block::fibre_start);
        fibre.atomic_calls = 0;
        fibre.answer = nullptr;
        fibre.waits_for = nullptr;
        fibre.copies.clear();
        fibre.open_group = 0;
        push_ready_back(&fibre);
      }
}

uint3 Block::thread_index(unsigned linear) const {
  const dim3 size = plan_->block;
  return {linear % size.x, linear / size.x % size.y, linear / (size.x * size.y)};
}

void Block::fibre_start() {
  Block& block = current_block();
  const Entry& entry = *block.plan_->entry;
  entry.invoke(entry.function, block.plan_->packed_arguments);
  block.exit_current();
}

void Block::exit_current() {
  Fibre* fibre = current_fibre();
  fibre->state = FibreState::Exited;
  --live_;
  Warp& warp = *fibre->warp;
  warp.live &= ~(1u << fibre->lane);
  complete_meetings_after_exit(warp);
  complete_barriers_after_exit();
  switch_to_next();
  __builtin_unreachable();
}

// --- barriers --------------------------------------------------------------------------------------------------

FLASHCORE_HOT int Block::arrive_at_barrier(unsigned id, unsigned count, int reduction, int predicate, const char* what,
                                           Place place) {
  Barrier& barrier = count_arrival(id, count, place);
  barrier.accumulate(reduction, predicate);
  Fibre* fibre = current_fibre();
  wait_in(fibre, FibreState::AtBarrier, what, place);
  fibre->next = nullptr;
  if (barrier.waiting_tail)
    barrier.waiting_tail->next = fibre;
  else
    barrier.waiting_head = fibre;
  barrier.waiting_tail = fibre;
  if (is_complete(barrier)) complete_barrier(barrier);
  return static_cast<int>(reinterpret_cast<intptr_t>(switch_to_next()));
}

void Block::count_at_barrier(unsigned id, unsigned count, Place place) {
  Barrier& barrier = count_arrival(id, count, place);
  if (is_complete(barrier)) complete_barrier(barrier);
}

FLASHCORE_HOT Barrier& Block::count_arrival(unsigned id, unsigned count, Place place) {
  if (__builtin_expect(id >= barriers_.size(), 0)) fail_without_barrier(id);
  Barrier& barrier = barriers_[id];
  if (!barrier.in_use()) {
    barrier.first_place = place;
    barrier.expected = count;
  } else if (barrier.expected == 0 && !(barrier.first_place == place)) {
    barrier.divergent = true;
  }
  ++barrier.arrived;
  return barrier;
}

FLASHCORE_HOT bool Block::is_complete(const Barrier& barrier) const {
  return barrier.in_use() && barrier.arrived >= (barrier.expected ? barrier.expected : live_);
}

void Block::complete_barrier(Barrier& barrier) {
  if (barrier.divergent) report_deadlock("divergent barrier: threads of one block came to different __syncthreads()");
  ++counters_.barriers;
  ++barrier_epoch_;
  void* const result = reinterpret_cast<void*>(static_cast<intptr_t>(barrier.accumulated));
  Fibre* fibre = barrier.waiting_head;
  barrier.reset();
  while (fibre) {
    Fibre* next = fibre->next;
    fibre->answer = result;
    push_ready_back(fibre);
    fibre = next;
  }
}

void Block::complete_barriers_after_exit() {
  for (Barrier& barrier : barriers_)
    if (live_ != 0 && barrier.expected == 0 && is_complete(barrier)) complete_barrier(barrier);
}

// --- meetings of a warp ----------------------------------------------------------------------------------------

FLASHCORE_HOT void** Block::arrive_at_meeting(int operation, unsigned mask, void* deposit, const char* what,
                                              Place place) {
  Fibre* fibre = current_fibre();
  Warp& warp = *fibre->warp;
  const unsigned my_bit = 1u << fibre->lane;
  if (__builtin_expect((mask & my_bit) == 0, 0)) fail_outside_mask(what, place);
  mask &= warp.existing;
  const unsigned slot = warp.find_or_open(operation, mask);
  Meeting& meeting = warp.meetings[slot];
  meeting.arrived |= my_bit;
  meeting.deposits[fibre->lane] = deposit;
  fibre->meeting = static_cast<unsigned char>(slot);
  if (((meeting.arrived ^ mask) & warp.live) == 0) return meeting.complete();
  wait_in(fibre, FibreState::AtWarpMeeting, what, place);
  return static_cast<void**>(switch_to_next());
}

FLASHCORE_HOT void Block::release_meeting() {
  Fibre* fibre = current_fibre();
  Warp& warp = *fibre->warp;
  Meeting& meeting = warp.meetings[fibre->meeting];
  ++counters_.warp_meetings;
  ++warp.epoch;
  unsigned waiting = meeting.arrived & ~(1u << fibre->lane);
  meeting.arrived = 0;
  --warp.meetings_in_use;
    // Put the warp's lanes at the front of the queue, lowest lane first, so that it continues while its stacks are
    // still in the cache.
  while (waiting) {
    const unsigned lane = 31 - __builtin_clz(waiting);
    waiting &= ~(1u << lane);
    push_ready_front(&warp.lanes[lane]);
  }
}

void Block::complete_meetings_after_exit(Warp& warp) {
  if (warp.meetings_in_use == 0) return;
  for (Meeting& meeting : warp.meetings)
    if (meeting.arrived != 0 && (meeting.arrived & warp.live) == (meeting.mask & warp.live)) {
      const unsigned leader = 31 - __builtin_clz(meeting.arrived);
      Fibre* fibre = &warp.lanes[leader];
      if (fibre->state == FibreState::Ready) continue;  // already released by a lane that exited
      fibre->answer = meeting.complete();
      push_ready_front(fibre);
    }
}

// --- faults ----------------------------------------------------------------------------------------------------

void Block::fail(Fault fault) {
  Fibre* fibre = current_fibre();
  fault.entry = plan_->entry->name;
  fault.block = fibre->block_index;
  if (!fault.has_thread && fault.kind != "DEADLOCK") {
    fault.has_thread = true;
    fault.thread = fibre->thread_index;
  }
  fault_ = std::move(fault);
  faulted_ = true;
  leave();
}

namespace {
std::string waiting_place(const Fibre& fibre, const Fibre* running) {
  if (fibre.state == FibreState::Exited) return "exited";
  if (&fibre == running) return "runs at {place}";
  if (!fibre.waits_for) return "running";
  const bool has_passed = fibre.state == FibreState::Ready;
  std::string text = has_passed ? std::string("past ") + fibre.waits_for : fibre.waits_for;
  if (fibre.place.file) text += std::string(" at ") + fibre.place.file + ":" + std::to_string(fibre.place.line);
  return text;
}
}  // namespace

void Block::describe_waiting_threads(Fault& fault, const Fibre* running) const {
  constexpr size_t MAX_LISTED = 128;
  struct Group {
    std::string place;
    unsigned count;
    unsigned first;
  };
  std::vector<Group> groups;
  fault.threads_total = thread_count_;
  for (unsigned i = 0; i < thread_count_; ++i) {
    const std::string place = waiting_place(fibres_[i], running);
    if (fault.threads.size() < MAX_LISTED) fault.threads.push_back({fibres_[i].thread_index, place});
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.place == place; });
    if (group == groups.end())
      groups.push_back({place, 1, i});
    else
      ++group->count;
  }
  const char* separator = ": ";
  for (const Group& group : groups) {
    fault.message +=
        separator + std::to_string(group.count) + (group.count == 1 ? " thread " : " threads ") +
        (group.place == "exited"                                                              ? "have exited"
         : group.place == "running"                                                           ? "still run"
         : group.place.compare(0, 5, "runs ") == 0 || group.place.compare(0, 5, "past ") == 0 ? group.place
                                                                                              : "in " + group.place) +
        " (first: thread " + describe(thread_index(group.first)) + ")";
    separator = "; ";
  }
}

void Block::fail_at_time_limit(Fault fault) {
  const Fibre* running = current_fibre();
  fault.kind = "TIMED_OUT";
  fault.error = CUDA_ERROR_LAUNCH_TIMEOUT;
  fault.message = "the launch did not end within {limit}";
  fault.has_thread = true;
  fault.thread = running->thread_index;
  describe_waiting_threads(fault, running);
  fail(std::move(fault));
}

void Block::fail_outside_mask(const char* what, Place place) {
  Fault fault;
  fault.kind = "INVALID_WARP_MASK";
  fault.place = std::string(place.file) + ":" + std::to_string(place.line);
  fault.message = std::string(what) + " was called by lane " + std::to_string(current_fibre()->lane) +
                  ", which its mask does not name";
  fail(std::move(fault));
}

void Block::fail_without_barrier(unsigned id) {
  Fault fault;
  fault.kind = "TRAP";
  fault.message = "barrier " + std::to_string(id) + " does not exist: a block has 16";
  fail(std::move(fault));
}

void Block::report_deadlock(const char* headline) {
  Fault fault;
  fault.kind = "DEADLOCK";
  fault.error = CUDA_ERROR_LAUNCH_TIMEOUT;
  fault.message = headline;
  describe_waiting_threads(fault);
  fail(std::move(fault));
}

}  // namespace flashcore::emu

// --- calls from kernels that switch fibres; in this file so that the compiler can inline what they call ------------

#define FLASHCORE_EXPORT extern "C" __attribute__((visibility("default")))
using namespace flashcore::emu;

FLASHCORE_EXPORT int flashcore_emu_barrier(unsigned id, unsigned count, int reduction, int predicate, const char* what,
                                           const char* file, int line) {
  return current_block().arrive_at_barrier(id, count, reduction, predicate, what, Place{file, line});
}

FLASHCORE_EXPORT void flashcore_emu_barrier_arrive(unsigned id, unsigned count, const char* file, int line) {
  current_block().count_at_barrier(id, count, Place{file, line});
}

FLASHCORE_EXPORT void** flashcore_emu_warp_arrive(int operation, unsigned mask, void* deposit, const char* what,
                                                  const char* file, int line) {
  return current_block().arrive_at_meeting(operation, mask, deposit, what, Place{file, line});
}

FLASHCORE_EXPORT void flashcore_emu_warp_release(void) { current_block().release_meeting(); }
