// Tests features of sm_90, each with a separate program: bulk copies, tensor maps, mbarriers, clusters, asynchronous
// products, and reports of their misuse.
#include "driver.h"

extern "C" CUresult cuTensorMapEncodeTiled(void*, int, uint32_t, void*, const uint64_t*, const uint64_t*,
                                           const uint32_t*, const uint32_t*, int, int, int, int);

namespace {

struct TensorMapBytes {
  char bytes[128];
};

/** A tensor of 32-bit words with `width` columns and `height` rows. The box has four rows. */
struct Matrix {
  uint64_t width, height;
  uint32_t box_width = 8;
  int swizzle = 0;
};

CUresult encode(TensorMapBytes& map, CUdeviceptr address, const Matrix& matrix) {
  const auto& [width, height, box_width, swizzle] = matrix;
  const uint64_t dimensions[] = {width, height}, strides[] = {width * 4};
  const uint32_t box[] = {box_width, 4}, steps[] = {1, 1};
  alignas(64) char bytes[sizeof map.bytes];
  const CUresult result = cuTensorMapEncodeTiled(bytes, 2, 2, reinterpret_cast<void*>(address), dimensions, strides,
                                                 box, steps, 0, swizzle, 0, 0);
  memcpy(map.bytes, bytes, sizeof bytes);
  return result;
}

std::vector<int> numbers(int count) {
  std::vector<int> all;
  for (int n = 1; n <= count; ++n) all.push_back(n);
  return all;
}

void test_bulk_copies(const Kernels& kernels) {
  const Buffer<int> in(numbers(64)), out(64), early(1);
  CHECK_OK(kernels.run("copies_in_and_out", {{1}, {64}}, in.address(), out.address(), early.address()));
  std::vector<int> turned = numbers(64);
  for (int n = 0; n < 32; ++n) std::swap(turned[n], turned[63 - n]);
  CHECK(out.read() == turned);
  CHECK(early.read()[0] == -1);  // poison, because the copy has not arrived yet
}

void test_reuse_of_stored_bytes(const Kernels& watched) {
  const Buffer<int> out(64);
  for (const int byte : {0, 124}) CHECK_OK(watched.run("reuses_a_stored_tile", {{1}, {1}}, out.address(), byte));
  for (const int byte : {128, 252}) {
    CHECK_RESULT(watched.run("reuses_a_stored_tile", {{1}, {1}}, out.address(), byte), CUDA_ERROR_LAUNCH_FAILED);
    expect_fault({"RACE", "hopper.cu:67", "a bulk store of thread", "hopper.cu:63", "cp.async.bulk.wait_group.read"});
  }
}

void test_copies_that_arrive(const Kernels& kernels, const Kernels& watched) {
  const Buffer<int> in(numbers(64)), out(128);
  for (const int noinc : {0, 1}) {
    CHECK_OK(kernels.run("copies_arrive", {{1}, {64}}, in.address(), out.address(), noinc, 1));
    const std::vector<int> got = out.read();
    int early = 0;
    for (int thread = 0; thread < 64; ++thread) {
      CHECK(got[thread] == (thread == 4 ? 0 : (thread ^ 1) + 1));  // thread 5 ignores its source
      early += got[64 + thread] == -1;
    }
    CHECK(early == 32);  // for the first warp; the second warp's copies arrive at once, because the first already waits
    CHECK_OK(watched.run("copies_arrive", {{1}, {64}}, in.address(), out.address(), noinc, 0));
    CHECK_RESULT(watched.run("copies_arrive", {{1}, {64}}, in.address(), out.address(), noinc, 1),
                 CUDA_ERROR_LAUNCH_FAILED);
    expect_fault({"RACE", "hopper.cu:62", "which a cp.async of thread"});
  }
}

void test_tensor_maps(const Kernels& kernels) {
  const Buffer<int> in(numbers(12 * 4)), out(32);
  TensorMapBytes map;
  CHECK_OK(encode(map, in.address(), {12, 4}));
  CHECK_OK(kernels.run("tile_at_the_edge", {{1}, {32}}, map, out.address()));
  const std::vector<int> tile = out.read();
  for (int row = 0; row < 4; ++row)
    for (int column = 0; column < 8; ++column)
      CHECK(tile[row * 8 + column] == (row + 2 < 4 && column + 6 < 12 ? (row + 2) * 12 + column + 6 + 1 : 0));
  CHECK_OK(encode(map, in.address(), {12, 400}));  // the map has more rows than the allocation
  CHECK_RESULT(kernels.run("tile_at_the_edge", {{1}, {32}}, map, out.address()), CUDA_ERROR_ILLEGAL_ADDRESS);
  expect_fault({"OUT_OF_BOUNDS", "read 24 bytes past the end of device allocation", "of 192 bytes"});
  CHECK_RESULT(encode(map, in.address() + 4, {12, 4}), CUDA_ERROR_INVALID_VALUE);
  CHECK_RESULT(encode(map, in.address(), {11, 4}), CUDA_ERROR_INVALID_VALUE);  // rows of 44 bytes
  CHECK_RESULT(encode(map, in.address(), {12, 4, 6}), CUDA_ERROR_INVALID_VALUE);
  CHECK_RESULT(encode(map, in.address(), {12, 4, 16, 1}),
               CUDA_ERROR_INVALID_VALUE);  // the box is wider than its swizzle
}

void test_maps_that_a_kernel_makes(const Kernels& kernels, const Kernels& watched) {
  const Buffer<int> in(numbers(12 * 4)), out(32), map(32);
  for (const Kernels* each : {&kernels, &watched}) {
    CHECK_OK(each->run("tile_by_a_made_map", {{1}, {32}}, in.address(), uint64_t(48), map.address(), out.address()));
    const std::vector<int> tile = out.read();
    for (int row = 0; row < 4; ++row)
      for (int column = 0; column < 8; ++column)
        CHECK(tile[row * 8 + column] == (row + 2 < 4 && column + 6 < 12 ? (row + 2) * 12 + column + 6 + 1 : 0));
    CHECK_RESULT(each->run("tile_by_a_made_map", {{1}, {32}}, in.address(), uint64_t(44), map.address(), out.address()),
                 CUDA_ERROR_LAUNCH_FAILED);
    expect_fault({"INVALID_COPY", "put 44 into a field of a tensor map that can't have it", "hopper.cu:71"});
  }
}

void test_barriers(const Kernels& kernels) {
  const Buffer<int> in(numbers(64));
  CHECK_RESULT(kernels.run("waits_for_nothing", {{1}, {1}}), CUDA_ERROR_LAUNCH_FAILED);
  expect_fault({"INVALID_BARRIER", "used the mbarrier at byte 0 of shared memory, which nobody has initialised",
                "hopper.cu:10"});
  CHECK_RESULT(kernels.run("lacks_bytes", {{1}, {32}}, in.address()), CUDA_ERROR_LAUNCH_TIMEOUT);
  expect_fault({"DEADLOCK", "32 threads in mbarrier.try_wait at hopper.cu:24",
                "the mbarrier at byte 0 of shared memory (initialised at hopper.cu:20) lacks 48 bytes that were "
                "announced at hopper.cu:22"});
}

void test_products(const Kernels& kernels, const Kernels& watched) {
  const Buffer<float> out(128);
  for (const Kernels* each : {&kernels, &watched}) {
    CHECK_OK(each->run("reads_early", {{1}, {128}}, out.address(), 1));
    CHECK(out.read() == std::vector<float>(128, 32.0f));
  }
  CHECK_RESULT(watched.run("reads_early", {{1}, {128}}, out.address(), 0), CUDA_ERROR_LAUNCH_FAILED);
  expect_fault({"UNFINISHED_PRODUCT", "read an accumulator of the wgmma at hopper.cu:40", "hopper.cu:44"});
}

void test_clusters(const Kernels& kernels) {
  const Buffer<int> out(2);
  CUlaunchAttribute clusters_of_two{};
  clusters_of_two.id = 4;
  clusters_of_two.value.clusterDim = {2, 1, 1};
  const Launch two_blocks{{2}, {1}, 0, &clusters_of_two}, three_blocks{{3}, {1}, 0, &clusters_of_two};
  CHECK_OK(kernels.run("exchanges", two_blocks, out.address()));
  CHECK(out.read() == (std::vector<int>{6, 3}));
  CHECK_RESULT(kernels.run("exchanges", three_blocks, out.address()), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  CHECK_RESULT(kernels.run("reaches_too_far", two_blocks, 2u), CUDA_ERROR_ILLEGAL_ADDRESS);
  expect_fault({"OUT_OF_BOUNDS", "mapped an address to block 2 of a cluster that has 2 blocks", "hopper.cu:50"});
}

}  // namespace

int main() {
  const Kernels kernels("hopper");
  const Kernels watched("hopper_watched");
  test_bulk_copies(kernels);
  test_reuse_of_stored_bytes(watched);
  test_copies_that_arrive(kernels, watched);
  test_tensor_maps(kernels);
  test_maps_that_a_kernel_makes(kernels, watched);
  test_clusters(kernels);
  test_products(kernels, watched);
  test_barriers(kernels);
}
