// Tests the driver API: checks of launches, modules, streams, events and graphs.
#include <thread>

#include "driver.h"

namespace {
void test_launch_checks(const Kernels& kernels) {
  const Buffer<int> out(2048);
  CHECK_RESULT(kernels.run("spin_value", {{1}, {1025}}, out.address(), 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_RESULT(kernels.run("spin_value", {{1}, {32, 2, 65}}, out.address(), 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_RESULT(kernels.run("spin_value", {{0}, {32}}, out.address(), 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_RESULT(kernels.run("spin_value", {{1, 65536}, {32}}, out.address(), 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_OK(kernels.run("spin_value", {{1}, {1024}}, out.address(), 1));
  CUfunction function;
  CHECK_RESULT(cuModuleGetFunction(&function, kernels.module(), "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
  CHECK_RESULT(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_HANDLE);
  CHECK_RESULT(cuLaunchKernel(kernels.function("spin_value"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
               CUDA_ERROR_INVALID_VALUE);
}

void test_dynamic_shared_opt_in(const Kernels& kernels) {
  const Buffer<unsigned> out(64);
  const CUfunction function = kernels.function("poisoned");
  CHECK_RESULT(kernels.run("poisoned", {{1}, {32}, 60000}, out.address()), CUDA_ERROR_INVALID_VALUE);
  CHECK_RESULT(cuFuncSetAttribute(function, 8, 200000), CUDA_ERROR_INVALID_VALUE);
  CHECK_OK(cuFuncSetAttribute(function, 8, 60000));
  CHECK_OK(kernels.run("poisoned", {{1}, {32}, 60000}, out.address()));
  int blocks;
  CHECK_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 32, 0));
  CHECK(blocks == 24);
  CHECK_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 1024, 0));
  CHECK(blocks == 1);
  CHECK_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 32, 40000));
  CHECK(blocks == 2);
}

void test_modules() {
  const Kernels full("static_shared_49152");
  const Buffer<int> out(4);
  CHECK_OK(full.run("all_of_it", {{1}, {4}}, out.address()));
  CHECK(out.read() == (std::vector<int>{3, 2, 1, 0}));
  int bytes;
  CHECK_OK(cuFuncGetAttribute(&bytes, 1, full.function("all_of_it")));
  CHECK(bytes == 49152);
  CUmodule module;
  const std::string too_large = Kernels::bytes_of("static_shared_49153");
  CHECK_RESULT(cuModuleLoadData(&module, too_large.data()), CUDA_ERROR_INVALID_IMAGE);
  expect_fault({"STATIC_SHARED_TOO_LARGE", "49152 max"});
  const char text[256] = "neither PTX nor a module\n";
  CHECK_RESULT(cuModuleLoadData(&module, text), CUDA_ERROR_INVALID_IMAGE);
    // Loads and unloads a module many times, even while one of its launches is waiting.
  const std::string image = Kernels::bytes_of("static_shared_49152");
  for (int i = 0; i < 20; ++i) {
    CUfunction function;
    CHECK_OK(cuModuleLoadData(&module, image.data()));
    CHECK_OK(cuModuleGetFunction(&function, module, "all_of_it"));
    CUdeviceptr address = out.address();
    void* arguments[] = {&address};
    CHECK_OK(cuLaunchKernel(function, 1, 1, 1, 4, 1, 1, 0, nullptr, arguments, nullptr));
    CHECK_OK(cuModuleUnload(module));
    CHECK_OK(cuCtxSynchronize());
    CHECK_RESULT(cuLaunchKernel(function, 1, 1, 1, 4, 1, 1, 0, nullptr, arguments, nullptr), CUDA_ERROR_INVALID_HANDLE);
  }
}

CUresult launch_value(const Kernels& kernels, CUstream stream, CUdeviceptr out, int value) {
  void* arguments[] = {&out, &value};
  return cuLaunchKernel(kernels.function("spin_value"), 1, 1, 1, 4, 1, 1, 0, stream, arguments, nullptr);
}

/** A stream waits for a value in host memory, as in the benchmark. Nothing runs before the value is written. */
void test_held_stream_and_events(const Kernels& kernels) {
  const Buffer<int> out(std::vector<int>(4, 0));
  CUstream held, other;
  CHECK_OK(cuStreamCreate(&held, 1));
  CHECK_OK(cuStreamCreate(&other, 1));
  CUevent start, end;
  CHECK_OK(cuEventCreate(&start, 0));
  CHECK_OK(cuEventCreate(&end, 0));
  void* memory;
  CHECK_OK(cuMemHostAlloc(&memory, 4, 0));
  auto* gate = static_cast<volatile uint32_t*>(memory);
  *gate = 0;
  float milliseconds;
  CHECK_RESULT(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);
  CHECK_OK(cuStreamWaitValue32_v2(held, reinterpret_cast<CUdeviceptr>(memory), 1, 0));
  CHECK_OK(cuEventRecord(start, held));
  CHECK_OK(launch_value(kernels, held, out.address(), 5));
  CHECK_OK(cuEventRecord(end, held));
  CHECK_OK(cuStreamWaitEvent(other, end, 0));
  CHECK_OK(launch_value(kernels, other, out.address(), 6));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_RESULT(cuStreamQuery(held), CUDA_ERROR_NOT_READY);
  CHECK_RESULT(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
  CHECK_RESULT(cuEventQuery(end), CUDA_ERROR_NOT_READY);
  *gate = 1;
  CHECK_OK(cuEventSynchronize(end));
  CHECK_OK(cuEventElapsedTime(&milliseconds, start, end));
  CHECK(milliseconds >= 0 && milliseconds < 1000);
  CHECK_OK(cuStreamSynchronize(other));
  CHECK(out.read() == std::vector<int>(4, 6));
  CHECK_OK(cuMemFreeHost(memory));
  CHECK_OK(cuEventDestroy_v2(start));
  CHECK_OK(cuEventDestroy_v2(end));
  CHECK_RESULT(cuEventRecord(end, held), CUDA_ERROR_INVALID_HANDLE);
  CHECK_OK(cuStreamDestroy_v2(held));
  CHECK_OK(cuStreamDestroy_v2(other));
}

/** Captured operations run at each launch of the graph, but not during the capture. */
void test_graph_replay(const Kernels& kernels) {
  const Buffer<int> sum(std::vector<int>{0}), out(std::vector<int>(4, 0));
  const Buffer<float> float_sum(std::vector<float>{0});
  const Buffer<unsigned> highest(std::vector<unsigned>{0});
  const Buffer<uint16_t> half_sum(std::vector<uint16_t>{0});
  CUstream stream;
  CHECK_OK(cuStreamCreate(&stream, 0));
  CHECK_RESULT(cuStreamBeginCapture_v2(nullptr, 0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK_OK(cuStreamBeginCapture_v2(stream, 0));
  CHECK_RESULT(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  for (int i = 0; i < 3; ++i) {
    CUdeviceptr a = sum.address(), b = float_sum.address(), c = highest.address(), d = half_sum.address();
    void* arguments[] = {&a, &b, &c, &d};
    CHECK_OK(cuLaunchKernel(kernels.function("atomics"), 1, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr));
  }
  CHECK_OK(cuMemsetD32Async(out.address(), 9, 4, stream));
  CUgraph graph;
  CUgraphExec executable;
  CHECK_OK(cuStreamEndCapture(stream, &graph));
  CHECK_OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
  CHECK(sum.read()[0] == 0);
  for (int i = 0; i < 5; ++i) CHECK_OK(cuGraphLaunch(executable, stream));
  CHECK_OK(cuStreamSynchronize(stream));
  CHECK(sum.read()[0] == 5 * 3 * 32 && out.read() == std::vector<int>(4, 9));
  CHECK_OK(cuGraphExecDestroy(executable));
  CHECK_OK(cuGraphDestroy(graph));
  CHECK_RESULT(cuGraphLaunch(executable, stream), CUDA_ERROR_INVALID_VALUE);
  CHECK_OK(cuStreamDestroy_v2(stream));
}

void test_memory_checks() {
  CUdeviceptr address;
  CHECK_RESULT(cuMemAlloc_v2(&address, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK_RESULT(cuMemAlloc_v2(&address, size_t(1) << 46), CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_RESULT(cuMemFree_v2(12345), CUDA_ERROR_INVALID_VALUE);
  const Buffer<char> buffer(100);
  char bytes[200] = {};
  CHECK_RESULT(cuMemcpyHtoD_v2(buffer.address(), bytes, 101), CUDA_ERROR_INVALID_VALUE);
  CHECK_RESULT(cuMemsetD8_v2(buffer.address() + 50, 0, 51), CUDA_ERROR_INVALID_VALUE);
    // After a copy has been staged, its source may be freed.
  CUstream stream;
  CHECK_OK(cuStreamCreate(&stream, 0));
  bytes[0] = 42;
  CHECK_OK(cuMemcpyHtoDAsync_v2(buffer.address(), bytes, 100, stream));
  bytes[0] = 0;
  CHECK(buffer.read()[0] == 42);
  CHECK_OK(cuStreamDestroy_v2(stream));
}
}  // namespace

int main() {
  int value;
  CHECK_RESULT(cuDeviceGetAttribute(&value, 16, 0), CUDA_ERROR_NOT_INITIALIZED);
  const Kernels kernels("memory");
  CHECK_OK(cuDeviceGetAttribute(&value, 16, 0));
  CHECK(value == 58);
  test_launch_checks(kernels);
  test_dynamic_shared_opt_in(kernels);
  test_modules();
  test_held_stream_and_events(kernels);
  test_graph_replay(kernels);
  test_memory_checks();
}
