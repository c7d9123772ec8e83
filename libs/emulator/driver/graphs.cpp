// Stream capture and graphs. A graph is a list of captured operations; launching it runs them in order.
#include <thread>

#include "state.h"

using namespace flashcore::emu;

namespace {
Handles<Graph, CUgraph>& graphs() {
  static Handles<Graph, CUgraph> handles;
  return handles;
}
struct ExecutableGraph {
  std::shared_ptr<const Graph> graph;
};
Handles<ExecutableGraph, CUgraphExec>& executables() {
  static Handles<ExecutableGraph, CUgraphExec> handles;
  return handles;
}

CUresult run_all(const Graph& graph) {
  for (const Operation& operation : graph.operations) {
    while (operation.ready && !operation.ready()) std::this_thread::sleep_for(std::chrono::microseconds(50));
    FLASHCORE_REQUIRE(operation.run());
  }
  return CUDA_SUCCESS;
}
}  // namespace

FLASHCORE_DRIVER_API CUresult cuStreamBeginCapture_v2(CUstream handle, int) {
  FLASHCORE_REQUIRE(check_context());
  const auto stream = Queue::instance().stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->is_default) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture) return CUDA_ERROR_INVALID_VALUE;
  stream->capture = std::make_shared<Graph>();
  stream->began_capture = true;
  return CUDA_SUCCESS;
}

FLASHCORE_DRIVER_API CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  FLASHCORE_REQUIRE(check_context());
  const auto stream = Queue::instance().stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  if (!stream->capture || !stream->began_capture) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  stream->began_capture = false;
  *graph = graphs().add(std::move(stream->capture));
  stream->capture = nullptr;
  return CUDA_SUCCESS;
}

FLASHCORE_DRIVER_API CUresult cuStreamIsCapturing(CUstream handle, int* status) {
  FLASHCORE_REQUIRE(check_context());
  const auto stream = Queue::instance().stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  *status = stream->capture ? 1 : 0;
  return CUDA_SUCCESS;
}

/** Returns the number of captured operations; the emulator has no handles for nodes. */
FLASHCORE_DRIVER_API CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  FLASHCORE_REQUIRE(check_context());
  const auto graph = graphs().find(handle);
  if (!graph || !count) return CUDA_ERROR_INVALID_VALUE;
  if (nodes) return CUDA_ERROR_NOT_SUPPORTED;
  *count = graph->operations.size();
  return CUDA_SUCCESS;
}

FLASHCORE_DRIVER_API CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph handle, unsigned long long) {
  FLASHCORE_REQUIRE(check_context());
  const auto graph = graphs().find(handle);
  if (!graph || !executable) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_shared<ExecutableGraph>();
  made->graph = graph;
  *executable = executables().add(std::move(made));
  return CUDA_SUCCESS;
}

FLASHCORE_DRIVER_API CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  FLASHCORE_REQUIRE(check_context());
  const auto executable = executables().find(handle);
  const auto stream = Queue::instance().stream(stream_handle);
  if (!executable) return CUDA_ERROR_INVALID_VALUE;
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  const std::shared_ptr<const Graph> graph = executable->graph;
  Operation operation;
  operation.run = [graph] { return run_all(*graph); };
  return Queue::instance().submit(stream, std::move(operation));
}

FLASHCORE_DRIVER_API CUresult cuGraphExecDestroy(CUgraphExec handle) {
  FLASHCORE_REQUIRE(check_context());
  return executables().remove(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FLASHCORE_DRIVER_API CUresult cuGraphDestroy(CUgraph handle) {
  FLASHCORE_REQUIRE(check_context());
  return graphs().remove(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
