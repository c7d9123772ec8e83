// Runs kernels of kernels/faulty on the PTX engine. Each fault is found with its source line, both with and without
// memory checks.
#include "../driver.h"

namespace {

constexpr int HEADS = 4, LENGTH = 128, WIDTH = 64;
constexpr size_t GUARD = 4096, COUNT = size_t(HEADS) * LENGTH * WIDTH;

/** A tensor with a guard before it, laid out in the runner's way. */
class Tensor {
 public:
  explicit Tensor(uint16_t value) : all_(GUARD / 2 + COUNT) {
    CHECK(flashcore_emulator_mark_memory(all_.address(), GUARD, 1) == 0);
    if (!value) {
      CHECK(flashcore_emulator_mark_memory(address(), COUNT * 2, 2) == 0);
      return;
    }
    const std::vector<uint16_t> values(COUNT, value);
    CHECK_OK(cuMemcpyHtoD_v2(address(), values.data(), COUNT * 2));
  }
  CUdeviceptr address() const { return all_.address() + GUARD; }
  std::vector<uint16_t> read() const {
    const std::vector<uint16_t> all = all_.read();
    return {all.begin() + GUARD / 2, all.end()};
  }

 private:
  Buffer<uint16_t> all_;
};

constexpr uint16_t ONE = 0x3c00, TENTH = 0x2e66;

CUresult run(const Kernels& kernels, const char* entry, std::vector<uint16_t>* output = nullptr) {
  const Tensor Q(TENTH), K(TENTH), V(ONE), O(0);
  const CUresult result = kernels.run(entry, {{LENGTH / 64, HEADS}, {64}}, Q.address(), K.address(), V.address(),
                                      O.address(), LENGTH, 0.125f, 0);
  if (output) *output = O.read();
  return result;
}

void expect(const Kernels& kernels, const char* entry, CUresult result, std::initializer_list<const char*> texts) {
  CHECK_RESULT(run(kernels, entry), result);
  expect_fault(texts);
}

bool is_nan(uint16_t half) { return (half & 0x7fff) > 0x7c00; }

}  // namespace

int main() {
  const Kernels plain("faulty"), watched("faulty_watched");
  expect(plain, "static_shared_overrun", CUDA_ERROR_ILLEGAL_ADDRESS,
         {"OUT_OF_BOUNDS", "static_shared_overrun.cu:9", "warp 1, lanes 0 to 31", "256 bytes of shared memory"});
  expect(plain, "local_overrun", CUDA_ERROR_ILLEGAL_ADDRESS,
         {"OUT_OF_BOUNDS", "local_overrun.cu:7", "past the end of the thread's 32 bytes of local memory"});
  expect(plain, "read_before_buffer", CUDA_ERROR_ILLEGAL_ADDRESS,
         {"OUT_OF_BOUNDS", "read_before_buffer.cu:6", "read 16 bytes before the start", "warp 0, lane 0"});
  expect(plain, "device_array_overrun", CUDA_ERROR_ILLEGAL_ADDRESS,
         {"OUT_OF_BOUNDS", "device_array_overrun.cu:8", "past the end of __device__ row_sums of 1024 bytes"});
  expect(plain, "wrong_membermask", CUDA_ERROR_LAUNCH_FAILED,
         {"INVALID_WARP_MASK", "wrong_membermask.cu:7", "mask 0xffff0000", "lane 0 is missing"});
  expect(plain, "barrier_in_branches", CUDA_ERROR_LAUNCH_TIMEOUT,
         {"DEADLOCK", "divergent barrier", "barrier_in_branches.cu:9", "barrier_in_branches.cu:11"});

  std::vector<uint16_t> output;
  CHECK_OK(run(plain, "nan_to_integer", &output));
  for (size_t n = 0; n < COUNT; ++n) CHECK(is_nan(output[n]) == (n / WIDTH % LENGTH == 0));
  for (const Kernels* kernels : {&plain, &watched}) {
    CHECK_OK(run(*kernels, "shift_by_width", &output));
    CHECK(output == std::vector<uint16_t>(COUNT, ONE));
  }

  for (const char* entry : {"missing_syncwarp", "global_read_modify_write", "uninitialised_shared"}) {
    CHECK_OK(run(plain, entry, &output));
    CHECK(output == std::vector<uint16_t>(COUNT, ONE));
  }
  expect(watched, "missing_syncwarp", CUDA_ERROR_LAUNCH_FAILED,
         {"RACE", "missing_syncwarp.cu:7", "missing_syncwarp.cu:9", "__syncwarp()"});
  expect(watched, "global_read_modify_write", CUDA_ERROR_LAUNCH_FAILED,
         {"RACE", "__device__ total of 4 bytes", "global_read_modify_write.cu:8"});
  expect(watched, "uninitialised_shared", CUDA_ERROR_LAUNCH_FAILED,
         {"UNINITIALISED_READ", "uninitialised_shared.cu:10", "(static shared memory)"});
  expect(watched, "lost_copy_wait", CUDA_ERROR_LAUNCH_FAILED,
         {"RACE", "attend_row.cuh:24 (called at ", "a cp.async of thread", "cp_async.cuh:18", "no wait for it"});
}
