// Streams and events.
#include "state.h"

using namespace flashcore::emu;

FLASHCORE_DRIVER_API CUresult cuStreamCreate(CUstream* handle, unsigned flags) {
  FLASHCORE_REQUIRE(check_context());
  if (!handle || flags > 1) return CUDA_ERROR_INVALID_VALUE;
  auto stream = std::make_shared<Stream>();
  stream->blocking = flags == 0;
  *handle = Queue::instance().streams.add(std::move(stream));
  return CUDA_SUCCESS;
}

FLASHCORE_DRIVER_API CUresult cuStreamCreateWithPriority(CUstream* handle, unsigned flags, int) {
  return cuStreamCreate(handle, flags);
}

/** Destroys the handle. The stream still runs the work that it already has. */
FLASHCORE_DRIVER_API CUresult cuStreamDestroy_v2(CUstream handle) {
  FLASHCORE_REQUIRE(check_context());
  return Queue::instance().streams.remove(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

FLASHCORE_DRIVER_API CUresult cuStreamSynchronize(CUstream handle) {
  FLASHCORE_REQUIRE(check_context());
  const auto stream = Queue::instance().stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  Queue::instance().wait_until_idle(stream);
  return Queue::instance().sticky_error();
}

FLASHCORE_DRIVER_API CUresult cuStreamQuery(CUstream handle) {
  FLASHCORE_REQUIRE(check_context());
  const auto stream = Queue::instance().stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (!Queue::instance().is_idle(stream)) return CUDA_ERROR_NOT_READY;
  return Queue::instance().sticky_error();
}

FLASHCORE_DRIVER_API CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned) {
  FLASHCORE_REQUIRE(check_context());
  const auto stream = Queue::instance().stream(handle);
  const auto event = Queue::instance().events.find(event_handle);
  if (!stream || !event) return CUDA_ERROR_INVALID_HANDLE;
  return Queue::instance().wait_for_event(stream, event);
}

/** Accepts attributes (L2 access-policy windows and others) without effect, because the emulator has no caches. */
FLASHCORE_DRIVER_API CUresult cuStreamSetAttribute(CUstream handle, int, const void* value) {
  FLASHCORE_REQUIRE(check_context());
  if (!Queue::instance().stream(handle)) return CUDA_ERROR_INVALID_HANDLE;
  return value ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FLASHCORE_DRIVER_API CUresult cuEventCreate(CUevent* handle, unsigned flags) {
  FLASHCORE_REQUIRE(check_context());
  if (!handle || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  auto event = std::make_shared<Event>();
  event->timing = (flags & 2) == 0;  // CU_EVENT_DISABLE_TIMING
  *handle = Queue::instance().events.add(std::move(event));
  return CUDA_SUCCESS;
}

FLASHCORE_DRIVER_API CUresult cuEventDestroy_v2(CUevent handle) {
  FLASHCORE_REQUIRE(check_context());
  return Queue::instance().events.remove(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

FLASHCORE_DRIVER_API CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
  FLASHCORE_REQUIRE(check_context());
  const auto stream = Queue::instance().stream(stream_handle);
  const auto event = Queue::instance().events.find(handle);
  if (!stream || !event) return CUDA_ERROR_INVALID_HANDLE;
  return Queue::instance().record(event, stream);
}

FLASHCORE_DRIVER_API CUresult cuEventQuery(CUevent handle) {
  FLASHCORE_REQUIRE(check_context());
  const auto event = Queue::instance().events.find(handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  return Queue::instance().is_complete(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

FLASHCORE_DRIVER_API CUresult cuEventSynchronize(CUevent handle) {
  FLASHCORE_REQUIRE(check_context());
  const auto event = Queue::instance().events.find(handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  Queue::instance().wait_until_complete(event);
  return Queue::instance().sticky_error();
}

/** The host's time between the two events. It says how fast the emulator is, not how fast a GPU would be. */
FLASHCORE_DRIVER_API CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  FLASHCORE_REQUIRE(check_context());
  const auto start = Queue::instance().events.find(start_handle);
  const auto end = Queue::instance().events.find(end_handle);
  if (!start || !end) return CUDA_ERROR_INVALID_HANDLE;
  if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
  if (!start->timing || !end->timing || start->recorded == 0 || end->recorded == 0) return CUDA_ERROR_INVALID_HANDLE;
  if (!Queue::instance().is_complete(start) || !Queue::instance().is_complete(end)) return CUDA_ERROR_NOT_READY;
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return CUDA_SUCCESS;
}

FLASHCORE_DRIVER_API CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return cuEventElapsedTime_v2(milliseconds, start, end);
}
