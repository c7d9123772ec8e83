// The only assembly of the emulator: leaving one stack and going on where another was left.
// The code that resumes is always the same address, so the branch predictor knows it; every register that the
// compiler has alive across the switch is saved by the compiler itself, because the asm says that it destroys them all.
#pragma once
#include <cstdint>

namespace flashcore::emu {

/** Saves where this fibre stands to *from, goes on at `to` (a saved place, or one of prepare_stack). */
__attribute__((noinline)) inline void switch_context(void** from, void* to) {
#if defined(__x86_64__)
  __asm__ volatile(
      "leaq -128(%%rsp), %%rsp\n"  // the red zone
      "pushq %%rbp\n"
      "leaq 1f(%%rip), %%rax\n"
      "pushq %%rax\n"
      "movq %%rsp, (%%rdi)\n"
      "movq %%rsi, %%rsp\n"
      "popq %%rax\n"
      "jmpq *%%rax\n"
      "1:\n"
      "popq %%rbp\n"
      "leaq 128(%%rsp), %%rsp\n"
      : "+D"(from), "+S"(to)
      :
      : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc", "xmm0",
        "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",
        "xmm14", "xmm15");
#elif defined(__aarch64__)
  register void** from_register __asm__("x0") = from;
  register void* to_register __asm__("x1") = to;
  __asm__ volatile(
      "adr x9, 1f\n"
      "stp x29, x9, [sp, #-16]!\n"
      "mov x10, sp\n"
      "str x10, [x0]\n"
      "mov sp, x1\n"
      "ldp x29, x9, [sp], #16\n"
      "br x9\n"
      "1:\n"
      : "+r"(from_register), "+r"(to_register)
      :
      : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x19",
        "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30", "memory", "cc", "v0", "v1", "v2", "v3",
        "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20",
        "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
#else
#error "flashcore's emulator has a context switch for x86-64 and aarch64 only"
#endif
}

/** A place from which switch_context starts `start` on a fresh stack that ends below `stack_top`. */
inline void* prepare_stack(char* stack_top, void (*start)()) {
  void** sp = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(stack_top) & ~uintptr_t(15));
#if defined(__x86_64__)
  *--sp = nullptr;  // return address (start never returns): as after a call, the stack is 8 below a multiple of 16
  *--sp = reinterpret_cast<void*>(start);
#else
  *--sp = reinterpret_cast<void*>(start);
  *--sp = nullptr;  // frame pointer
#endif
  return sp;
}

}  // namespace flashcore::emu
