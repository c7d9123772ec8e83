#include "fibre.h"

#if defined(__APPLE__)
#define FLASHCORE_SWITCH_SYMBOL ".private_extern flashcore_emu_switch_context\n"
#else
#define FLASHCORE_SWITCH_SYMBOL            \
  ".globl flashcore_emu_switch_context\n"  \
  ".hidden flashcore_emu_switch_context\n" \
  ".type flashcore_emu_switch_context, %function\n"
#endif

__asm__(".text\n.p2align 4\n" FLASHCORE_SWITCH_SYMBOL
        "flashcore_emu_switch_context:\n"
#if defined(__x86_64__)
        "pushq %rbp\n"
        "pushq %rbx\n"
        "pushq %r12\n"
        "pushq %r13\n"
        "pushq %r14\n"
        "pushq %r15\n"
        "movq %rsp, (%rdi)\n"
        "movq %rsi, %rsp\n"
        "movq %rdx, %rax\n"
        "popq %r15\n"
        "popq %r14\n"
        "popq %r13\n"
        "popq %r12\n"
        "popq %rbx\n"
        "popq %rbp\n"
        "popq %rcx\n"
        "jmpq *%rcx\n"
#elif defined(__aarch64__)
        "sub sp, sp, #160\n"
        "stp d8, d9, [sp]\n"
        "stp d10, d11, [sp, #16]\n"
        "stp d12, d13, [sp, #32]\n"
        "stp d14, d15, [sp, #48]\n"
        "stp x19, x20, [sp, #64]\n"
        "stp x21, x22, [sp, #80]\n"
        "stp x23, x24, [sp, #96]\n"
        "stp x25, x26, [sp, #112]\n"
        "stp x27, x28, [sp, #128]\n"
        "stp x29, x30, [sp, #144]\n"
        "mov x9, sp\n"
        "str x9, [x0]\n"
        "mov sp, x1\n"
        "mov x0, x2\n"
        "ldp d8, d9, [sp]\n"
        "ldp d10, d11, [sp, #16]\n"
        "ldp d12, d13, [sp, #32]\n"
        "ldp d14, d15, [sp, #48]\n"
        "ldp x19, x20, [sp, #64]\n"
        "ldp x21, x22, [sp, #80]\n"
        "ldp x23, x24, [sp, #96]\n"
        "ldp x25, x26, [sp, #112]\n"
        "ldp x27, x28, [sp, #128]\n"
        "ldp x29, x9, [sp, #144]\n"
        "mov x30, x9\n"
        "add sp, sp, #160\n"
        "br x9\n"
#else
#error "flashcore's emulator has a context switch for x86-64 and aarch64 only"
#endif
);
