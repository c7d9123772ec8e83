// The driver API for the tests: its declarations, and wrappers that fail the test if a call fails.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "../driver/cuda_abi.h"

extern "C" {
CUresult cuInit(unsigned);
CUresult cuGetErrorName(CUresult, const char**);
CUresult cuDeviceGet(CUdevice*, int);
CUresult cuDeviceGetName(char*, int, CUdevice);
CUresult cuDeviceGetAttribute(int*, int, CUdevice);
CUresult cuDevicePrimaryCtxRetain(CUcontext*, CUdevice);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice);
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuCtxSynchronize();
CUresult cuModuleLoadData(CUmodule*, const void*);
CUresult cuModuleUnload(CUmodule);
CUresult cuModuleGetFunction(CUfunction*, CUmodule, const char*);
CUresult cuModuleGetGlobal_v2(CUdeviceptr*, size_t*, CUmodule, const char*);
CUresult cuFuncGetAttribute(int*, int, CUfunction);
CUresult cuFuncSetAttribute(CUfunction, int, int);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int*, CUfunction, int, size_t);
CUresult cuMemAlloc_v2(CUdeviceptr*, size_t);
CUresult cuMemFree_v2(CUdeviceptr);
CUresult cuMemcpyHtoD_v2(CUdeviceptr, const void*, size_t);
CUresult cuMemcpyDtoH_v2(void*, CUdeviceptr, size_t);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr, const void*, size_t, CUstream);
CUresult cuMemsetD8_v2(CUdeviceptr, unsigned char, size_t);
CUresult cuMemsetD32Async(CUdeviceptr, unsigned, size_t, CUstream);
CUresult cuMemHostAlloc(void**, size_t, unsigned);
CUresult cuMemFreeHost(void*);
CUresult cuStreamCreate(CUstream*, unsigned);
CUresult cuStreamDestroy_v2(CUstream);
CUresult cuStreamSynchronize(CUstream);
CUresult cuStreamQuery(CUstream);
CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned);
CUresult cuStreamWaitValue32_v2(CUstream, CUdeviceptr, uint32_t, unsigned);
CUresult cuStreamWriteValue32_v2(CUstream, CUdeviceptr, uint32_t, unsigned);
CUresult cuStreamBeginCapture_v2(CUstream, int);
CUresult cuStreamEndCapture(CUstream, CUgraph*);
CUresult cuGraphInstantiateWithFlags(CUgraphExec*, CUgraph, unsigned long long);
CUresult cuGraphLaunch(CUgraphExec, CUstream);
CUresult cuGraphExecDestroy(CUgraphExec);
CUresult cuGraphDestroy(CUgraph);
CUresult cuEventCreate(CUevent*, unsigned);
CUresult cuEventDestroy_v2(CUevent);
CUresult cuEventRecord(CUevent, CUstream);
CUresult cuEventQuery(CUevent);
CUresult cuEventSynchronize(CUevent);
CUresult cuEventElapsedTime(float*, CUevent, CUevent);
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                        void**, void**);
CUresult cuLaunchKernelEx(const CUlaunchConfig*, CUfunction, void**, void**);
int flashcore_emulator_last_fault(char*, size_t);
void flashcore_emulator_clear_fault();
int flashcore_emulator_time_limit(uint64_t milliseconds);
int flashcore_emulator_statistics(char*, size_t);
int flashcore_emulator_set_profiling(int);
int flashcore_emulator_profile(char*, size_t);
int flashcore_emulator_trace_blocks(uint64_t, uint64_t, uint64_t);
int flashcore_emulator_trace(void*, uint64_t);
int flashcore_emulator_mark_memory(CUdeviceptr, uint64_t, int);
}

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

inline const char* name_of(CUresult result) {
  const char* name = "?";
  cuGetErrorName(result, &name);
  return name;
}

#define CHECK_RESULT(call, wanted)                                                                               \
  do {                                                                                                           \
    const CUresult result_ = (call);                                                                             \
    if (result_ != (wanted)) {                                                                                   \
      char fault_[4096] = "";                                                                                    \
      flashcore_emulator_last_fault(fault_, sizeof fault_);                                                      \
      fprintf(stderr, "%s:%d: wanted %s, is %s: %s %s\n", __FILE__, __LINE__, name_of(wanted), name_of(result_), \
              #call, fault_);                                                                                    \
      exit(1);                                                                                                   \
    }                                                                                                            \
  } while (0)
#define CHECK_OK(call) CHECK_RESULT(call, CUDA_SUCCESS)

struct Size {
  unsigned x = 1, y = 1, z = 1;
};

struct Launch {
  Size grid, block;
  unsigned shared_bytes = 0;
  CUlaunchAttribute* attribute = nullptr;
};

/** A context on the device and the functions of one test module. */
class Kernels {
 public:
    /** `name` is the module's name: $FLASHCORE_TEST_MODULES/<name>.so, compiled from tests/kernels/<name>.cu. */
  explicit Kernels(const std::string& name) {
    CUdevice device;
    CHECK_OK(cuInit(0));
    CHECK_OK(cuDeviceGet(&device, 0));
    CHECK_OK(cuDevicePrimaryCtxRetain(&context_, device));
    CHECK_OK(cuCtxSetCurrent(context_));
    const std::string image = bytes_of(name);
    CHECK_OK(cuModuleLoadData(&module_, image.data()));
  }
  static std::string bytes_of(const std::string& name) {
    const char* folder = getenv("FLASHCORE_TEST_MODULES");
    const std::string path = std::string(folder ? folder : ".") + "/" + name;
    std::ifstream file(path + ".so", std::ios::binary);
    if (!file.good()) file.open(path + ".ptx", std::ios::binary);
    CHECK(file.good());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  CUmodule module() const { return module_; }
  CUfunction function(const char* name) const {
    CUfunction function;
    CHECK_OK(cuModuleGetFunction(&function, module_, name));
    return function;
  }
    /** Launches a kernel, waits for it, and returns the error code that a caller would see. */
  template <class... Arguments>
  CUresult run(const char* name, const Launch& launch, Arguments... arguments) const {
    const auto& [grid, block, shared_bytes, attribute] = launch;
    void* pointers[] = {&arguments..., nullptr};
    const CUlaunchConfig config{grid.x,  grid.y,       grid.z,  block.x,   block.y,
                                block.z, shared_bytes, nullptr, attribute, attribute ? 1u : 0u};
    const CUresult launched = attribute ? cuLaunchKernelEx(&config, function(name), pointers, nullptr)
                                        : cuLaunchKernel(function(name), grid.x, grid.y, grid.z, block.x, block.y,
                                                         block.z, shared_bytes, nullptr, pointers, nullptr);
    return launched == CUDA_SUCCESS ? cuCtxSynchronize() : launched;
  }

 private:
  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
};

/** Device memory with the contents of a vector. */
template <class T>
class Buffer {
 public:
  explicit Buffer(const std::vector<T>& values) : count_(values.size()) {
    CHECK_OK(cuMemAlloc_v2(&address_, count_ * sizeof(T)));
    CHECK_OK(cuMemcpyHtoD_v2(address_, values.data(), count_ * sizeof(T)));
  }
  explicit Buffer(size_t count) : count_(count) { CHECK_OK(cuMemAlloc_v2(&address_, count * sizeof(T))); }
  Buffer(const Buffer&) = delete;
  ~Buffer() { cuMemFree_v2(address_); }
  CUdeviceptr address() const { return address_; }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    CHECK_OK(cuMemcpyDtoH_v2(values.data(), address_, count_ * sizeof(T)));
    return values;
  }

 private:
  size_t count_;
  CUdeviceptr address_ = 0;
};

inline std::string last_fault() {
  char text[65536];
  flashcore_emulator_last_fault(text, sizeof text);
  return text;
}

/** Checks that the latest fault contains every text, then makes the context usable again. */
inline void expect_fault(std::initializer_list<const char*> texts) {
  const std::string fault = last_fault();
  for (const char* text : texts)
    if (fault.find(text) == std::string::npos) {
      fprintf(stderr, "wanted \"%s\" in the fault, is: %s\n", text, fault.c_str());
      exit(1);
    }
  CHECK_OK(cuDevicePrimaryCtxReset_v2(0));
}

inline uint32_t next_random(uint32_t& state) { return state = state * 1664525u + 1013904223u; }
