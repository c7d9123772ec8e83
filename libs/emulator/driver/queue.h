// The device's work, carried out by one thread in order of submission. Operations of a stream run in order. The legacy
// default stream and blocking streams wait for each other. A stream that waits for a value or an event does not hold up
// other streams.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "cuda_abi.h"

namespace flashcore::emu {

/** The handles of live objects. A handle is valid from its creation until its object is destroyed. */
template <class Object, class Handle>
class Handles {
 public:
  Handle add(std::shared_ptr<Object> object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto handle = reinterpret_cast<Handle>(object.get());
    objects_[handle] = std::move(object);
    return handle;
  }
  std::shared_ptr<Object> find(Handle handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  std::shared_ptr<Object> remove(Handle handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<Handle, std::shared_ptr<Object>> objects_;
};

struct Operation {
  std::function<bool()> ready;  // empty: always ready
  std::function<CUresult()> run;  // any result but CUDA_SUCCESS ends the context
};

struct Graph {
  std::vector<Operation> operations;
};

struct Stream {
  bool blocking = true;  // false: CU_STREAM_NON_BLOCKING
  bool is_default = false;
  uint64_t pending = 0;
  std::shared_ptr<Graph> capture;  // not null while capturing
  bool began_capture = false;
};

struct Event {
  bool timing = true;
  uint64_t recorded = 0;  // counts cuEventRecord calls
  uint64_t completed = 0;  // the number of the latest record that has run
  std::chrono::steady_clock::time_point time;
  std::shared_ptr<Graph> captured_in;
};

class Queue {
 public:
  static Queue& instance();

  /** Appends to the stream, or to the graph that it is capturing. */
  CUresult submit(const std::shared_ptr<Stream>& stream, Operation operation);
  /** Submits the operation, and waits until the stream has run it. */
  CUresult submit_and_wait(const std::shared_ptr<Stream>& stream, Operation operation);
  CUresult record(const std::shared_ptr<Event>& event, const std::shared_ptr<Stream>& stream);
  CUresult wait_for_event(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Event>& event);

  bool is_idle(const std::shared_ptr<Stream>& stream);
  void wait_until_idle(const std::shared_ptr<Stream>& stream);
  void wait_until_all_idle();
  bool is_complete(const std::shared_ptr<Event>& event);
  void wait_until_complete(const std::shared_ptr<Event>& event);

  /** The error that ended the context; CUDA_SUCCESS if it is still usable. */
  CUresult sticky_error();
  void clear_sticky_error();

  /** The stream behind a handle; null handles and 1 (CU_STREAM_LEGACY) mean the default stream. */
  std::shared_ptr<Stream> stream(CUstream handle);

  Handles<Stream, CUstream> streams;
  Handles<Event, CUevent> events;

 private:
  struct Entry {
    std::shared_ptr<Stream> stream;
    Operation operation;
  };
  Queue();
  void serve();
  bool take_runnable(std::unique_lock<std::mutex>& lock, Entry& entry);
  bool idle_locked(const Stream& stream) const;
  CUresult append_locked(const std::shared_ptr<Stream>& stream, Operation operation);

  std::mutex mutex_;
  std::condition_variable submitted_;
  std::condition_variable progress_;
  std::deque<Entry> entries_;
  std::shared_ptr<Stream> default_stream_;
  uint64_t pending_ = 0;
  uint64_t pending_blocking_ = 0;
  CUresult sticky_ = CUDA_SUCCESS;
};

}  // namespace flashcore::emu
