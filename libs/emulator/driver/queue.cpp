#include "queue.h"

#include <algorithm>
#include <thread>

namespace flashcore::emu {

Queue& Queue::instance() {
  static Queue* queue = new Queue();  // never destroyed: its thread may outlive static destructors
  return *queue;
}

Queue::Queue() : default_stream_(std::make_shared<Stream>()) {
  default_stream_->is_default = true;
  std::thread([this] { serve(); }).detach();
}

std::shared_ptr<Stream> Queue::stream(CUstream handle) {
  const auto value = reinterpret_cast<uintptr_t>(handle);
  if (value <= 1) return default_stream_;
  return streams.find(handle);
}

CUresult Queue::append_locked(const std::shared_ptr<Stream>& stream, Operation operation) {
  entries_.push_back({stream, std::move(operation)});
  ++stream->pending;
  ++pending_;
  if (stream->blocking) ++pending_blocking_;
  submitted_.notify_one();
  return CUDA_SUCCESS;
}

CUresult Queue::submit(const std::shared_ptr<Stream>& stream, Operation operation) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stream->capture) {
    stream->capture->operations.push_back(std::move(operation));
    return CUDA_SUCCESS;
  }
  return append_locked(stream, std::move(operation));
}

CUresult Queue::submit_and_wait(const std::shared_ptr<Stream>& stream, Operation operation) {
  if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const CUresult submitted = submit(stream, std::move(operation));
  if (submitted != CUDA_SUCCESS) return submitted;
  std::unique_lock<std::mutex> lock(mutex_);
  progress_.wait(lock, [&] { return stream->pending == 0; });
  return sticky_;
}

CUresult Queue::record(const std::shared_ptr<Event>& event, const std::shared_ptr<Stream>& stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool capturing = stream->capture != nullptr;
  const uint64_t number = capturing ? 0 : ++event->recorded;
  event->captured_in = stream->capture;
  Operation operation;
  operation.run = [this, event, number] {
    const auto now = std::chrono::steady_clock::now();
    const std::lock_guard<std::mutex> inner(mutex_);
    event->time = now;
    event->completed = std::max(event->completed, number);
    if (number == 0) event->recorded = event->completed = event->completed + 1;
    return CUDA_SUCCESS;
  };
  if (!capturing) return append_locked(stream, std::move(operation));
  stream->capture->operations.push_back(std::move(operation));
  return CUDA_SUCCESS;
}

CUresult Queue::wait_for_event(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Event>& event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (event->captured_in) {
    // Within a capture, waiting for an event of the same capture adds no dependency, because a graph runs in capture
    // order.
    if (stream->capture && stream->capture != event->captured_in) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    stream->capture = event->captured_in;
    return CUDA_SUCCESS;
  }
  const uint64_t number = event->recorded;
  Operation operation;
  operation.ready = [event, number] { return event->completed >= number; };
  operation.run = [] { return CUDA_SUCCESS; };
  if (!stream->capture) return append_locked(stream, std::move(operation));
  stream->capture->operations.push_back(std::move(operation));
  return CUDA_SUCCESS;
}

bool Queue::idle_locked(const Stream& stream) const {
  return stream.is_default ? pending_blocking_ == 0 : stream.pending == 0;
}

bool Queue::is_idle(const std::shared_ptr<Stream>& stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return idle_locked(*stream);
}

void Queue::wait_until_idle(const std::shared_ptr<Stream>& stream) {
  std::unique_lock<std::mutex> lock(mutex_);
  progress_.wait(lock, [&] { return idle_locked(*stream); });
}

void Queue::wait_until_all_idle() {
  std::unique_lock<std::mutex> lock(mutex_);
  progress_.wait(lock, [&] { return pending_ == 0; });
}

bool Queue::is_complete(const std::shared_ptr<Event>& event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return event->completed >= event->recorded;
}

void Queue::wait_until_complete(const std::shared_ptr<Event>& event) {
  std::unique_lock<std::mutex> lock(mutex_);
  const uint64_t number = event->recorded;
  progress_.wait(lock, [&] { return event->completed >= number || sticky_ != CUDA_SUCCESS; });
}

CUresult Queue::sticky_error() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return sticky_;
}

void Queue::clear_sticky_error() {
  const std::lock_guard<std::mutex> lock(mutex_);
  sticky_ = CUDA_SUCCESS;
}

/** Moves the first operation that can run now to `entry`. */
bool Queue::take_runnable(std::unique_lock<std::mutex>&, Entry& entry) {
  std::vector<const Stream*> held;
  bool default_held = false;
  bool blocking_held = false;
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    const Stream& stream = *it->stream;
    const bool behind = std::find(held.begin(), held.end(), &stream) != held.end() ||
                        (stream.is_default && blocking_held) || (stream.blocking && default_held);
    const bool dead = sticky_ != CUDA_SUCCESS;  // in a dead context no operation waits
    if (dead || (!behind && (!it->operation.ready || it->operation.ready()))) {
      entry = std::move(*it);
      entries_.erase(it);
      return true;
    }
    held.push_back(&stream);
    if (stream.is_default) default_held = true;
    if (stream.blocking) blocking_held = true;
  }
  return false;
}

void Queue::serve() {
  constexpr std::chrono::microseconds POLL{50};  // a host thread may write the awaited value at any time
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    Entry entry;
    if (!take_runnable(lock, entry)) {
      if (entries_.empty())
        submitted_.wait(lock, [&] { return !entries_.empty(); });
      else
        submitted_.wait_for(lock, POLL);
      continue;
    }
    CUresult result = CUDA_SUCCESS;
    if (sticky_ == CUDA_SUCCESS) {
      lock.unlock();
      result = entry.operation.run();
      entry.operation = Operation();  // outside the lock, because this destroys what the operation holds
      lock.lock();
    }
    if (result != CUDA_SUCCESS) sticky_ = result;
    --entry.stream->pending;
    --pending_;
    if (entry.stream->blocking) --pending_blocking_;
    progress_.notify_all();
  }
}

}  // namespace flashcore::emu
