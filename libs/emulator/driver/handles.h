// Handles of live objects. A handle is valid if the emulator returned it and it has not been destroyed since.
#pragma once
#include <memory>
#include <mutex>
#include <unordered_map>

namespace flashcore::emu {

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

}  // namespace flashcore::emu
