// Tests with PTX programs what the PTX engine does that compiled C++ does not: divergence, a GPU's results, bounds, and
// unsupported opcodes.
#include <climits>

#include "driver.h"

namespace {
void test_divergence(const Kernels& kernels) {
  const Buffer<int> out(64);
  CHECK_OK(kernels.run("counts_who_is_in", {{1}, {32}}, out.address()));
  const std::vector<int> counts = out.read();
  for (int lane = 0, sum = 0; lane < 32; ++lane) CHECK(counts[lane] == (sum += 32 - lane));
  CHECK_OK(kernels.run("waits_for_a_flag", {{1}, {64}}, out.address()));
  CHECK(out.read() == std::vector<int>(64, 7));
}

void test_answers(const Kernels& kernels) {
  const Buffer<int> out(6);
  CHECK_OK(kernels.run("answers_as_a_gpu", {{1}, {1}}, out.address(), 32));
  CHECK(out.read() == (std::vector<int>{0, -1, 2147483647, 0, 0, -1}));
}

void test_wide_registers(const Kernels& kernels) {
  const Buffer<int> out(8);
  CHECK_OK(kernels.run("converts_wide_registers", {{1}, {1}}, out.address()));
  const int low = INT_MIN + 1;
  CHECK(out.read() == (std::vector<int>{low, -1, low, 0, low, 0, -123, 0xff85}));
}

void test_sums_of_products(const Kernels& kernels) {
  const Buffer<float> out(std::vector<float>(32, -1.0f));
  CHECK_OK(kernels.run("sums_products", {{1}, {32}}, out.address()));
  const std::vector<float> sums = out.read();
  for (int lane = 0; lane < 32; ++lane) {
    const int factor = lane + 100, sum = 10 + lane + 2 * factor + factor * factor;
    CHECK(sums[lane] == static_cast<float>(lane % 2 ? -1 : 2 * sum + factor));
  }
}

void test_special_registers(const Kernels& kernels) {
  const Buffer<int> out(std::vector<int>(2, 7));
  CHECK_OK(kernels.run("special_registers", {{1}, {32}}, out.address()));
  CHECK(out.read() == (std::vector<int>{0, 0}));
}

void test_bounds(const Kernels& kernels) {
  const Buffer<int> out(8);
  CHECK_RESULT(kernels.run("reads_before", {{1}, {1}}, out.address()), CUDA_ERROR_ILLEGAL_ADDRESS);
  expect_fault({"OUT_OF_BOUNDS", "read 16 bytes before the start of device allocation", "of 32 bytes",
                "divergence.cu:70", "\"access\":\"read\""});
  CHECK_OK(kernels.run("writes_past_static", {{1}, {32}}, out.address()));
  CHECK_RESULT(kernels.run("writes_past_static", {{1}, {33}}, out.address()), CUDA_ERROR_ILLEGAL_ADDRESS);
  expect_fault({"OUT_OF_BOUNDS", "thread (32,0,0)", "wrote 0 bytes past the end", "128 bytes of shared memory",
                "divergence.cu:80"});
  CHECK_OK(kernels.run("writes_past_local", {{1}, {32}}, 3));
  CHECK_RESULT(kernels.run("writes_past_local", {{1}, {32}}, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
  expect_fault(
      {"OUT_OF_BOUNDS", "wrote 0 bytes past the end of the thread's 16 bytes of local memory", "divergence.cu:90"});
}

void test_what_triton_writes(const Kernels& kernels) {
  const Buffer<int> out(4);
  CHECK_RESULT(kernels.run("from_triton", {{1}, {1}}, out.address()), CUDA_ERROR_ILLEGAL_ADDRESS);
  expect_fault({"OUT_OF_BOUNDS", "read 4 bytes before the start", "divergence.cu:110"});
  CHECK(out.read()[0] == 42);
}

void test_caller_named_by_its_line_alone(const Kernels& kernels) {
  const Buffer<int> out(4);
  CHECK_RESULT(kernels.run("inlined_in_two_lines", {{1}, {1}}, out.address()), CUDA_ERROR_ILLEGAL_ADDRESS);
  expect_fault({"OUT_OF_BOUNDS", "read 4 bytes before the start", "divergence.cu:131"});
}

void test_what_is_not_carried(const Kernels& kernels) {
  CHECK_OK(kernels.run("unknown_opcode", {{1}, {32}}, 0));
  CHECK_RESULT(kernels.run("unknown_opcode", {{1}, {32}}, 1), CUDA_ERROR_ILLEGAL_INSTRUCTION);
  expect_fault({"UNSUPPORTED_INSTRUCTION", "reached frobnicate.sync.b32, which the emulator does not carry",
                "divergence.cu:100"});
  CUmodule module;
  CHECK_RESULT(cuModuleLoadData(&module, ".version 8.0\n.target sm_80\n.frobnicate 3;"), CUDA_ERROR_INVALID_PTX);
  expect_fault({"LOAD_FAILED", "PTX line 3"});
  CHECK_RESULT(cuModuleLoadData(&module, ".version 8.0\n.target sm_80\n.file 1 \"a\" .frobnicate 3; .file 2 \"b\"\n"),
               CUDA_ERROR_INVALID_PTX);
  expect_fault({"LOAD_FAILED", "PTX line 3"});
  CUfunction function;
  const std::string text =
      "// flashcore: races\n// flashcore: complete\n.version 8.0\n.target sm_80\n.file 1 \"my \"own\" "
      "folder/kernel.py\", 3, 4\n"
      ".visible .entry guarded() {\n.reg .pred %p<2>;\n.loc 1 7 3\n@%p1 frobnicate.sync.b32;\nret;\n}\n"
      ".visible .entry carried() {\nret;\n}\n";
  CHECK_OK(cuModuleLoadData(&module, text.c_str()));
  CHECK_OK(cuModuleGetFunction(&function, module, "carried"));
  CHECK_RESULT(cuModuleGetFunction(&function, module, "guarded"), CUDA_ERROR_INVALID_PTX);
  expect_fault({"LOAD_FAILED", "it uses frobnicate.sync.b32, which the emulator does not carry", "kernel.py:7"});
  CHECK_OK(cuModuleUnload(module));
  CHECK_RESULT(cuModuleGetFunction(&function, kernels.module(), "too_much_local"), CUDA_ERROR_INVALID_PTX);
  expect_fault({"LOAD_FAILED", "600000 of local memory"});
}

/** Texts that ptxas refuses but that could run here by luck. A correct variant of each is tested too. */
void test_what_ptxas_refuses() {
  const auto loads = [](const std::string& body) {
    const std::string text =
        ".version 8.4\n.target sm_89\n.const .align 4 .b32 c[4];\n.visible .entry k(.param .u64 p) {\n"
        ".reg .b32 %r<6>; .reg .b64 %rd<4>; .reg .b16 %h<4>; .reg .f32 %f<4>; .reg .pred %p<4>;\n" +
        body + "\ndone:\nret;\n}\n";
    CUmodule module;
    const CUresult loaded = cuModuleLoadData(&module, text.c_str());
    if (loaded == CUDA_SUCCESS) CHECK_OK(cuModuleUnload(module));
    return loaded;
  };
  const struct {
    const char *right, *wrong;
  } PAIRS[] = {
      {"mov.b32 %r1, 5;", "mov.b32 5, %r1;"},
      {"mov.u32 %r1, %tid.x;", "mov.u32 %tid.x, %r1;"},
      {"mov.u32 %r1, %laneid;", "mov.u32 %r1, %lane_id;"},
      {"mov.u32 %r5, 1;", "mov.u32 %r6, 1;"},
      {"mov.b32 %r1, %f1;", "mov.u32 %r1, %f1;"},
      {"mov.b32 %r1, {%h1, %h2};", "mov.b32 %r1, {%h1 %h2};"},
      {"mov.b32 {%h1, _}, %r1;", "mov.b32 _, %r1;"},
      {"add.s32 %r1, %r2, %r3;", "add.s32 %r1, %r2 %r3;"},
      {"add.s32 %r1, %r2, -1;", "add.s32 %r1, , -1;"},
      {"add.f32 %f1, %f2, 0f3F800000;", "add.f32 %f1, %f2, 1;"},
      {"add.s32 %r1, %r2, 1;", "add.s32 %r1, %r2, 1.5;"},
      {"add.s32 %r1, %r2, %r3;", "add.s32 %r1, %f2, %r3;"},
      {"and.b32 %r1, %r2, 0f3F800000;", "and.b32 %r1, %r2;"},
      {"fma.rn.f32 %f1, %f2, %f3, %f1;", "fma.f32 %f1, %f2, %f3, %f1;"},
      {"cvt.rzi.s32.f32 %r1, %f1;", "cvt.s32.f32 %r1, %f1;"},
      {"cvt.f32.f16 %f1, %h1;", "cvt.f16.f32 %h1, %f1;"},
      {"ex2.approx.f32 %f1, %f2;", "ex2.f32 %f1, %f2;"},
      {"@%p1 bra done;", "@%r1 bra done;"},
      {"{ .reg .b32 %r1; mov.b32 %r1, 2; }", ".reg .b32 %r1;"},
      {"one: mov.b32 %r1, 2;", "done: mov.b32 %r1, 2;"},
      {"ld.relaxed.gpu.global.u32 %r1, [%rd1];", "ld.relaxed.global.u32 %r1, [%rd1];"},
      {"ld.global.u32 %r1, [%rd1];", "ld.globl.u32 %r1, [%rd1];"},
      {"ld.const.u32 %r1, [c];", "st.const.u32 [c], %r1;"},
      {"bar.arrive 0, 128;", "bar.arrive 0;"},
      {"cp.async.ca.shared.global [%r1], [%rd1], 8;", "cp.async.cg.shared.global [%r1], [%rd1], 8;"},
      {"cp.async.wait_group 1;", "cp.async.wait_group %r1;"},
      {"shfl.sync.down.b32 %r1, %r2, 1, 31, -1;", "shfl.sync.away.b32 %r1, %r2, 1, 31, -1;"},
      {"setp.lt.and.s32 %p1, %r1, %r2, %p2;", "setp.lt.s32 %p1, %r1, %r2, %p2;"},
  };
  for (const auto& [right, wrong] : PAIRS) {
    CHECK_OK(loads(right));
    CHECK_RESULT(loads(wrong), CUDA_ERROR_INVALID_PTX);
    expect_fault({"LOAD_FAILED", "PTX line"});
  }
}

/** Texts that the fuzzer has found (fuzz.sh). Each must give a result, and nothing outside the text may be read. */
void test_hostile_texts() {
  const std::string head = ".version 8.4\n.target sm_90a\n.shared .align 8 .b64 barrier;\n";
  const auto entry = [&](const std::string& body) {
    return head + ".visible .entry hostile(.param .u64 p) {\n.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .b16 %h<9>; " +
           ".reg .f32 %f<9>; .reg .pred %p<9>;\n" + body + "\nret;\n}\n";
  };
  const std::string many(100'000, '{');
  // These texts must fail to load.
  for (const std::string& text :
       {entry("mov.b32 %r1, " + many), entry(many), entry("bra;"), entry("fma.run.f32 {%f1}, {%f2}, {3};"),
        head + ".visible .entry hostile(.param .align 0 .b8 p[4]) { ret; }", head + ".global .b8 far[-1];",
        head + ".global .align 3 .b8 odd[4];", head + ".global .b8 wide[4611686018427387904][16];",
        entry("lop3.b32 %r1, %r2, %r3;"), entry("add.cc.u32 %r1;"), entry("st.global.u32;")}) {
    CUmodule module;
    CHECK_RESULT(cuModuleLoadData(&module, text.c_str()), CUDA_ERROR_INVALID_PTX);
    CHECK_OK(cuCtxSynchronize());
  }
  // These texts load. The fault is reported when a thread reaches the instruction.
  for (const char* body :
       {"ld.global.v4.u32 {%r1, %r2}, [%rd1];", "ld.param.u64 %rd1, [p+8];",
        "ld.param.u64 %rd1, [p+9223372036854775807];", "ld.param.u64 %rd1, [p+-1];",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f1};",
        "mbarrier.init.shared.b64 [barrier];", "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [barrier];",
        "cvt.u99.u32 %r1, %r2;", "cvt.u32;", "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1}, %rd1, %rd2;",
        "atom.global.add.v4.f32 {%f1}, [%rd1], {%f1};", "cp.async.ca.shared.global [%r1];"}) {
    CUmodule module;
    CUfunction function;
    CHECK_OK(cuModuleLoadData(&module, entry(body).c_str()));
    const CUresult found = cuModuleGetFunction(&function, module, "hostile");
    if (found == CUDA_ERROR_INVALID_PTX) continue;  // a check of the whole kernel has refused it
    CHECK_OK(found);
    uint64_t parameter = 0;
    void* parameters[] = {&parameter, nullptr};
    CHECK_OK(cuLaunchKernel(function, 1, 1, 1, 128, 1, 1, 0, nullptr, parameters, nullptr));
    CHECK_RESULT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_INSTRUCTION);
    expect_fault({"UNSUPPORTED_INSTRUCTION"});
  }
  // These texts have numbers that a C++ compiler would not write.
  for (const char* body :
       {"mov.b32 %r1, -2147483648; neg.s32 %r1, %r1; abs.s32 %r2, %r1;", "mov.b64 %rd1, -9223372036854775808;",
        "mov.b16 %h1, 65535; mul.lo.u16 %h2, %h1, %h1; mad.lo.u16 %h2, %h1, %h1, %h1;"}) {
    CUmodule module;
    CUfunction function;
    CHECK_OK(cuModuleLoadData(&module, entry(body).c_str()));
    CHECK_OK(cuModuleGetFunction(&function, module, "hostile"));
    uint64_t parameter = 0;
    void* parameters[] = {&parameter, nullptr};
    CHECK_OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
    CHECK_OK(cuCtxSynchronize());
  }
}

void test_barriers_in_two_lines(const Kernels& kernels) {
  const Buffer<int> out(64);
  CHECK_OK(kernels.run("two_ways", {{1}, {64}}, out.address(), 0));
  const std::vector<int> got = out.read();
  for (int thread = 0; thread < 64; ++thread) CHECK(got[thread] == (thread ^ 32));
  CHECK_RESULT(kernels.run("two_ways", {{1}, {64}}, out.address(), 1), CUDA_ERROR_LAUNCH_TIMEOUT);
  expect_fault({"DEADLOCK", "divergent barrier", "divergence.cu:120", "divergence.cu:122"});
}

void test_lock(const Kernels& kernels) {
  const Buffer<int> words(std::vector<int>{0, 0});
  CHECK_OK(kernels.run("lock_behind_loop", {{2}, {96}}, words.address()));
  CHECK(words.read() == (std::vector<int>{0, 192}));
}

void test_deadlock(const Kernels& kernels) {
  const Buffer<int> out(64);
  CHECK_RESULT(kernels.run("half_arrives", {{1}, {64}}, out.address()), CUDA_ERROR_LAUNCH_TIMEOUT);
  expect_fault({"DEADLOCK", "8 threads in __syncwarp() at divergence.cu:110",
                "56 threads in __syncthreads() at divergence.cu:112"});
}
}  // namespace

int main() {
  const Kernels kernels("divergence");
  test_divergence(kernels);
  test_answers(kernels);
  test_wide_registers(kernels);
  test_sums_of_products(kernels);
  test_special_registers(kernels);
  test_bounds(kernels);
  test_what_triton_writes(kernels);
  test_caller_named_by_its_line_alone(kernels);
  test_what_is_not_carried(kernels);
  test_what_ptxas_refuses();
  test_hostile_texts();
  test_lock(kernels);
  test_deadlock(kernels);
  test_barriers_in_two_lines(kernels);
}
