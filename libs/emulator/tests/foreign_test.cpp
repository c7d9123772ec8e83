// Code that was not written for the emulator. Results are compared with the same computation on the host.
#include "driver.h"

namespace {

struct Four {
  float x, y, z, w;
};
struct alignas(16) Pairs {
  Four four;
  int pair[2];
  alignas(16) uint64_t wide[2];
  int16_t halves[2];
};

void test_structs_by_value(const Kernels& kernels) {
  const Pairs given = {{1.5f, 2.5f, 3.5f, 4.5f}, {-5, 6}, {7ull << 40, 8}, {-9, 10}};
  const Buffer<Pairs> out(1);
  CHECK_OK(kernels.run("by_value", {{1}, {1}}, given, out.address()));
  const Pairs got = out.read()[0];
  CHECK(got.four.x == 4.5f && got.four.y == 3.5f && got.four.z == 2.5f && got.four.w == 1.5f);
  CHECK(got.pair[0] == 6 && got.pair[1] == -5 && got.wide[0] == 8 && got.wide[1] == 7ull << 40);
  CHECK(got.halves[0] == 10 && got.halves[1] == -9);
}

/** Tests parameters as vectors of every width that ptxas accepts. Each element's value is its index. */
void test_vectors_of_parameters() {
  const std::string text = R"(
.version 8.4
.target sm_89
.address_size 64
.visible .entry vectors(.param .align 16 .b8 given[32], .param .u64 out) {
  .reg .b64 %rd<5>; .reg .b32 %r<9>; .reg .b16 %h<9>; .reg .f32 %f<5>; .reg .f64 %d<3>;
  ld.param.u64 %rd1, [out];
  ld.param.v2.u64 {%rd2, %rd3}, [given+16];
  st.global.v2.u64 [%rd1], {%rd3, %rd2};
  ld.param.v4.f32 {%f1, %f2, %f3, %f4}, [given];
  st.global.v4.f32 [%rd1+16], {%f4, %f3, %f2, %f1};
  ld.param.v2.b32 {%r1, _}, [given+8];
  st.global.u32 [%rd1+32], %r1;
  ld.param.v4.s16 {%r1, %r2, %r3, %r4}, [given+8];
  st.global.v4.s32 [%rd1+48], {%r4, %r3, %r2, %r1};
  ld.param.v2.b16 {%h1, %h2}, [given+2];
  st.global.v2.b16 [%rd1+36], {%h2, %h1};
  ld.param.v4.u8 {%h1, %h2, %h3, %h4}, [given+4];
  st.global.v4.u8 [%rd1+40], {%h4, %h3, %h2, %h1};
  ld.param.v2.f64 {%d1, %d2}, [given];
  st.global.v2.f64 [%rd1+64], {%d2, %d1};
  ret;
})";
  uint8_t given[32], want[80] = {}, got[80];
  for (int n = 0; n < 32; ++n) given[n] = static_cast<uint8_t>(200 - 3 * n);
  const auto copy = [&](int to, int from, int bytes) { memcpy(want + to, given + from, static_cast<size_t>(bytes)); };
  copy(0, 24, 8), copy(8, 16, 8);
  for (int n = 0; n < 4; ++n) copy(16 + 4 * n, 12 - 4 * n, 4);
  copy(32, 8, 4), copy(36, 4, 2), copy(38, 2, 2);
  for (int n = 0; n < 4; ++n) {
    want[40 + n] = given[7 - n];
    int16_t element;
    memcpy(&element, given + 14 - 2 * n, sizeof element);
    const int32_t wide = element;
    memcpy(want + 48 + 4 * n, &wide, sizeof wide);
  }
  copy(64, 8, 8), copy(72, 0, 8);
  CUmodule module;
  CUfunction function;
  CHECK_OK(cuModuleLoadData(&module, text.c_str()));
  CHECK_OK(cuModuleGetFunction(&function, module, "vectors"));
  const Buffer<uint8_t> out(std::vector<uint8_t>(80, 0));
  CUdeviceptr address = out.address();
  void* parameters[] = {given, &address, nullptr};
  CHECK_OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  CHECK_OK(cuCtxSynchronize());
  memcpy(got, out.read().data(), sizeof got);
  CHECK(memcmp(got, want, sizeof got) == 0);
}

using Unsigned = unsigned __int128;
using Signed = __int128;
struct Results {
  Unsigned sum, difference, product, quotient, remainder, left, right;
  Signed signed_quotient, signed_remainder, signed_right;
};

/** A number of random length, often near a power of two, where carries run through all bits. */
Unsigned random_wide(uint32_t& state) {
  Unsigned value = 0;
  for (int n = 0; n < 4; ++n) value = value << 32 | next_random(state);
  value >>= next_random(state) >> 25;
  if (next_random(state) >> 30 == 0) value = (Unsigned(1) << (next_random(state) >> 25)) - (next_random(state) >> 31);
  return next_random(state) >> 31 ? value : ~value;
}

void test_wide_integers(const Kernels& kernels) {
  constexpr unsigned COUNT = 8192;
  std::vector<Unsigned> a, b;
  uint32_t state = 1;
  for (unsigned n = 0; n < COUNT; ++n) {
    a.push_back(random_wide(state));
    const Unsigned divisor = random_wide(state);
    b.push_back(divisor ? divisor : 3);
  }
  a[0] = Unsigned(1) << 100, b[0] = 3;
  const Buffer<Unsigned> from_a(a), from_b(b);
  const Buffer<Results> out(COUNT);
  CHECK_OK(kernels.run("wide_integers", {{COUNT / 128}, {128}}, from_a.address(), from_b.address(), out.address()));
  const std::vector<Results> got = out.read();
  const Signed least = static_cast<Signed>(Unsigned(1) << 127);
  for (unsigned n = 0; n < COUNT; ++n) {
    const Unsigned x = a[n], y = b[n];
    const auto signed_x = static_cast<Signed>(x), signed_y = static_cast<Signed>(y);
    const unsigned by = static_cast<unsigned>(y) & 127;
    CHECK(got[n].sum == x + y && got[n].difference == x - y && got[n].product == x * y);
    CHECK(got[n].quotient == x / y && got[n].remainder == x % y);
    CHECK(got[n].left == x << by && got[n].right == x >> by && got[n].signed_right == signed_x >> by);
    if (signed_x == least && signed_y == -1) continue;
    CHECK(got[n].signed_quotient == signed_x / signed_y && got[n].signed_remainder == signed_x % signed_y);
  }
}

void test_calls_by_address(const Kernels& kernels) {
  std::vector<int> values, results, areas;
  for (int i = 0; i < 32; ++i) {
    const int x = (i * 37 + 11) % 101;
    values.push_back(x);
    results.push_back(x % 3 == 0 ? x + 7 : x % 3 == 1 ? x * 7 : x - 7);
    areas.push_back(i % 3 ? x * x : 2 * x);
  }
  const Buffer<int> in(values), out(32);
  CHECK_OK(kernels.run("by_address", {{1}, {32}}, in.address(), out.address()));
  CHECK(out.read() == results);
  CHECK_OK(kernels.run("by_table", {{1}, {32}}, in.address(), out.address()));
  CHECK(out.read() == areas);
  CHECK_RESULT(kernels.run("at_no_function", {{1}, {1}}, out.address(), uint64_t(16)), CUDA_ERROR_ILLEGAL_INSTRUCTION);
  expect_fault({"UNSUPPORTED_INSTRUCTION", "no function of the module", "foreign.cu:"});
}

/** Reading an uninitialized variable must give a clearly wrong value, or a fault. */
void test_uninitialised_registers(const Kernels& kernels) {
  const Buffer<float> in({3, 1, 2, 5}), out(1);
  for (const char* name : {"uninitialised_sum", "uninitialised_maximum", "uninitialised_rescaled"}) {
    CHECK_OK(kernels.run(name, {{1}, {1}}, in.address(), out.address(), 4));
    CHECK(!(std::abs(out.read()[0]) < 1e30f));
  }
  CHECK_RESULT(kernels.run("uninitialised_index", {{1}, {1}}, in.address(), out.address(), 4),
               CUDA_ERROR_ILLEGAL_ADDRESS);
  expect_fault({"OUT_OF_BOUNDS", "foreign.cu:"});
  CHECK_OK(kernels.run("first_iteration_sets", {{1}, {1}}, in.address(), out.address(), 4));
  CHECK(out.read()[0] == 5);
}

void test_shuffles_from_outside(const Kernels& kernels) {
  std::vector<float> values(32);
  for (int i = 0; i < 32; ++i) values[static_cast<size_t>(i)] = static_cast<float>(i);
  const Buffer<float> in(values), out(1);
  CHECK_OK(kernels.run("sum_of_half", {{1}, {32}}, in.address(), out.address()));
  CHECK(out.read()[0] == 120);
  CHECK_OK(kernels.run("from_outside_the_mask", {{1}, {32}}, in.address(), out.address()));
  CHECK(!(std::abs(out.read()[0]) < 1e30f));
}

void test_barriers_of_libcudacxx(const Kernels& kernels) {
  std::vector<float> values, turned(256);
  for (int i = 0; i < 256; ++i) values.push_back(static_cast<float>(i));
  for (size_t i = 0; i < 256; ++i) turned[i] = values[i / 128 * 128 + 127 - i % 128];
  const Buffer<float> in(values), out(256);
  CHECK_OK(kernels.run("copies_with_barrier", {{1}, {32}}, in.address(), out.address()));
  CHECK(out.read() == turned);
}

/** Unsupported code must give a finding only if a thread reaches it. */
void test_unsupported_code_that_is_not_reached() {
  for (const char* body :
       {"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], %r2, [%r3];",
        "red.async.relaxed.cluster.global.mbarrier::complete_tx::bytes.shared::cluster.inc.u32 [%r1], %r2, [%r3];",
        "multimem.ld_reduce.relaxed.sys.global.add.u32 %r1, [%rd1];",
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}];", "tcgen05.wait::ld.sync.aligned;",
        "ld.global.b128 %q1, [%rd1];", "mov.b128 %q1, {%rd1, %rd2};",
        "prototype: .callprototype (.param .b32 _) _ (.param .b64 _);\n{ .param .b64 p0; .param .b32 r0; "
        "st.param.b64 [p0], %rd1; call (r0), %rd2, (p0), prototype; }",
        "alloca.u64 %rd1, %rd2;", "stacksave.u64 %rd1;"}) {
    const std::string text =
        std::string(".version 8.7\n.target sm_90a\n.address_size 64\n.global .texref picture;\n") +
        ".extern .func (.param .b64 r) malloc(.param .b64 n);\n.global .u64 allocator = malloc;\n" +
        ".visible .entry guarded(.param .u32 way) {\n.reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<9>; " +
        ".reg .f32 %f<9>; .reg .b128 %q<2>;\nld.param.u32 %r1, [way];\nsetp.eq.u32 %p1, %r1, 0;\n" + "@%p1 bra OUT;\n" +
        body + "\nOUT:\nret;\n}\n";
    CUmodule module;
    CUfunction function;
    CHECK_OK(cuModuleLoadData(&module, text.c_str()));
    CHECK_OK(cuModuleGetFunction(&function, module, "guarded"));
    for (uint32_t way : {0u, 1u}) {
      void* parameters[] = {&way, nullptr};
      CHECK_OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
      CHECK_RESULT(cuCtxSynchronize(), way ? CUDA_ERROR_ILLEGAL_INSTRUCTION : CUDA_SUCCESS);
    }
    expect_fault({"UNSUPPORTED_INSTRUCTION"});
    CHECK_OK(cuModuleUnload(module));
  }
}

/**
 * Loads a module without variables and then one with variables, and unloads neither. The process must exit normally.
 */
void load_without_variables() {
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CHECK_OK(cuInit(0));
  CHECK_OK(cuDeviceGet(&device, 0));
  CHECK_OK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK_OK(cuCtxSetCurrent(context));
  CHECK_OK(
      cuModuleLoadData(&module, ".version 8.4\n.target sm_89\n.address_size 64\n.visible .entry empty() { ret; }\n"));
}
}  // namespace

int main() {
  load_without_variables();
  const Kernels kernels("foreign");
  test_structs_by_value(kernels);
  test_vectors_of_parameters();
  test_wide_integers(kernels);
  test_calls_by_address(kernels);
  test_uninitialised_registers(kernels);
  test_shuffles_from_outside(kernels);
  test_barriers_of_libcudacxx(kernels);
  test_unsupported_code_that_is_not_reached();
}
