// A fibre's bad access raises a signal. The handler only records it and moves the fibre to a fresh stack, where code
// that may allocate and print describes the fault and abandons the block.
#include "grid.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdlib>
#include <cstring>
#include <mutex>

#include "device_memory.h"
#include "effective_address.h"

namespace flashcore::emu {

namespace {

struct SignalNote {
  int signal;
  const void* address;
  const void* program_counter;
  bool has_address;
  int write;  // 1 write, 0 read, -1 unknown
};
thread_local SignalNote note;
/**
 * How many words are kept of the stack of a fibre that was stopped at its time limit, from its stack pointer up. They
 * include return addresses.
 */
constexpr size_t KEPT_WORDS = 128;
thread_local const void* kept_stack[KEPT_WORDS];
thread_local size_t kept_words;
/**
 * Each block handles the signal only once, because a second signal would interrupt the code that describes where the
 * threads are.
 */
thread_local bool is_told_of_time_limit;

constexpr int TIME_LIMIT_SIGNAL = SIGUSR2;
/** The exit status that a shell reports for a program that SIGBUS ended. */
constexpr int CUT_SHORT = 128 + SIGBUS;
constexpr int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, TIME_LIMIT_SIGNAL};
struct sigaction previous_actions[64];

const void* program_counter_of(const ucontext_t* context) {
#if defined(__linux__) && defined(__x86_64__)
  return reinterpret_cast<const void*>(context->uc_mcontext.gregs[REG_RIP]);
#elif defined(__linux__) && defined(__aarch64__)
  return reinterpret_cast<const void*>(context->uc_mcontext.pc);
#elif defined(__APPLE__) && defined(__x86_64__)
  return reinterpret_cast<const void*>(context->uc_mcontext->__ss.__rip);
#elif defined(__APPLE__) && defined(__aarch64__)
  return reinterpret_cast<const void*>(__darwin_arm_thread_state64_get_pc(context->uc_mcontext->__ss));
#endif
}

/** Makes the interrupted fibre continue in `function` on an empty stack. */
void redirect(ucontext_t* context, void (*function)(), char* stack_top) {
  const uintptr_t sp = reinterpret_cast<uintptr_t>(stack_top) & ~uintptr_t(15);
#if defined(__linux__) && defined(__x86_64__)
  context->uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(function);
  context->uc_mcontext.gregs[REG_RSP] = static_cast<greg_t>(sp - 8);
#elif defined(__linux__) && defined(__aarch64__)
  context->uc_mcontext.pc = reinterpret_cast<uintptr_t>(function);
  context->uc_mcontext.sp = sp;
#elif defined(__APPLE__) && defined(__x86_64__)
  context->uc_mcontext->__ss.__rip = reinterpret_cast<uintptr_t>(function);
  context->uc_mcontext->__ss.__rsp = sp - 8;
#elif defined(__APPLE__) && defined(__aarch64__)
  __darwin_arm_thread_state64_set_pc_fptr(context->uc_mcontext->__ss, function);
  __darwin_arm_thread_state64_set_sp(context->uc_mcontext->__ss, sp);
#endif
}

#if defined(__aarch64__)
/**
 * For systems that report no exception syndrome (qemu-user): decodes the instruction. Bit 22 marks a load, except for
 * sign-extending loads.
 */
int is_store_instruction(uintptr_t program_counter) {
  uint32_t instruction;
  memcpy(&instruction, reinterpret_cast<const void*>(program_counter), sizeof instruction);
  const auto bit = [instruction](int index) { return instruction >> index & 1; };
  if (!bit(27) || bit(25)) return -1;  // neither load nor store
  const bool sign_extends = bit(29) && bit(28) && !bit(26) && bit(23);
  return !bit(22) && !sign_extends;
}
#endif

int was_write(const ucontext_t* context) {
#if defined(__linux__) && defined(__x86_64__)
  return (context->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#elif defined(__linux__) && defined(__aarch64__)
  // Linux appends records to the signal's context. In the record with the exception syndrome, bit 6 (WnR) is set for
  // a write.
  constexpr uint32_t ESR_MAGIC_NUMBER = 0x45535201;
  const auto* record = reinterpret_cast<const uint32_t*>(context->uc_mcontext.__reserved);
  while (record[0] != 0 && record[1] != 0) {
    if (record[0] == ESR_MAGIC_NUMBER) {
      uint64_t syndrome;
      memcpy(&syndrome, record + 2, sizeof syndrome);
      return (syndrome >> 6) & 1;
    }
    record = reinterpret_cast<const uint32_t*>(reinterpret_cast<const char*>(record) + record[1]);
  }
  return is_store_instruction(context->uc_mcontext.pc);
#else
  (void)context;
  return -1;
#endif
}

uintptr_t stack_pointer_of(const ucontext_t* context) {
#if defined(__linux__) && defined(__x86_64__)
  return static_cast<uintptr_t>(context->uc_mcontext.gregs[REG_RSP]);
#elif defined(__linux__) && defined(__aarch64__)
  return context->uc_mcontext.sp;
#elif defined(__APPLE__) && defined(__x86_64__)
  return context->uc_mcontext->__ss.__rsp;
#elif defined(__APPLE__) && defined(__aarch64__)
  return __darwin_arm_thread_state64_get_sp(context->uc_mcontext->__ss);
#endif
}

/** Copies words of the fibre's stack, because redirect() reuses the stack. */
void keep_stack(const ucontext_t* context, const char* stack_top) {
  kept_words = 0;
  const uintptr_t top = reinterpret_cast<uintptr_t>(stack_top);
  uintptr_t at = (stack_pointer_of(context) + sizeof(void*) - 1) & ~(sizeof(void*) - 1);
  // The stack pointer is not on this fibre's stack: the signal came during a switch between two fibres.
  if (at >= top || top - at > StackPool::STACK_BYTES) return;
  for (; at < top && kept_words < KEPT_WORDS; at += sizeof(void*))
    kept_stack[kept_words++] = *reinterpret_cast<const void* const*>(at);
}

/**
 * An address in the CUDA kernel's own code: the interrupted instruction, else the nearest return address on the stack.
 */
const void* kernel_address(const Block& block) {
  Dl_info kernel, other;
  const void* const function = reinterpret_cast<const void*>(block.plan().entry->function);
  if (!dladdr(function, &kernel)) return note.program_counter;
  const auto is_kernels = [&](const void* address) {
    return dladdr(address, &other) != 0 && other.dli_fbase == kernel.dli_fbase && other.dli_sname != nullptr;
  };
  if (is_kernels(note.program_counter)) return note.program_counter;
  for (size_t i = 0; i < kept_words; ++i)
    if (is_kernels(kept_stack[i])) return kept_stack[i];
  return note.program_counter;
}

void describe_bad_address(Block& block, Fault& fault) {
  const void* address = note.address;
  fault.has_address = true;
  fault.address = reinterpret_cast<uint64_t>(address);
  if (note.write >= 0) fault.access = note.write ? "write" : "read";
  const std::string verb = note.write < 0 ? "accessed " : note.write ? "wrote " : "read ";
  fault.error = CUDA_ERROR_ILLEGAL_ADDRESS;
  fault.kind = "OUT_OF_BOUNDS";
  if (block.stacks().is_guard(address)) {
    fault.kind = "STACK_OVERFLOW";
    fault.error = CUDA_ERROR_LAUNCH_FAILED;
    fault.message = "used more than the emulator's " + std::to_string(StackPool::STACK_BYTES / 1024) +
                    " KB of stack a thread (arrays in registers and local memory live there)";
    return;
  }
  const Region& dynamic = block.shared().dynamic_part();
  if (block.shared().is_guard(address)) {
    const auto past = static_cast<const char*>(address) - (dynamic.base + dynamic.bytes);
    fault.buffer = "dynamic shared memory";
    fault.message =
        verb +
        (past >= 0 ? std::to_string(past) + " bytes past the end"
                   : std::to_string(dynamic.base - static_cast<const char*>(address)) + " bytes before the start") +
        " of the block's " + std::to_string(dynamic.bytes) + " bytes of dynamic shared memory";
    return;
  }
  fault.buffer = DeviceMemory::instance().describe(fault.address);
  if (!fault.buffer.empty())
    fault.message = verb + fault.buffer;
  else if (fault.address < 1 << 20)
    fault.message = verb + "through a null pointer (address " + std::to_string(fault.address) + ")";
  else
    fault.message = verb + "an address that belongs to no allocation";
}

[[noreturn]] void abandon_after_signal() {
  Block& block = current_block();
  Fault fault;
  fault.program_counter = note.program_counter;
  if (note.signal == TIME_LIMIT_SIGNAL) {
    fault.program_counter = kernel_address(block);
    block.fail_at_time_limit(std::move(fault));
  }
  if (note.signal == SIGFPE) {
    fault.kind = "INTEGER_DIVISION_BY_ZERO";
    fault.message = "divided an integer by zero (a GPU gives an undefined result instead)";
  } else if (note.signal == SIGILL) {
    fault.kind = "TRAP";
    fault.message = "reached a trap or code that the compiler took for unreachable";
  } else if (!note.has_address) {
    fault.error = CUDA_ERROR_MISALIGNED_ADDRESS;
    fault.kind = "MISALIGNED_ADDRESS";
    fault.message = "used an address that is not aligned for its access";
  } else {
    describe_bad_address(block, fault);
  }
  const Fibre* fibre = current_fibre();
  fault.message =
      "thread " + describe(fibre->thread_index) + " of block " + describe(fibre->block_index) + " " + fault.message;
  block.fail(std::move(fault));
}

void give_to_previous(int signal, siginfo_t* info, void* context) {
  const struct sigaction& previous = previous_actions[signal];
  if (previous.sa_flags & SA_SIGINFO) return previous.sa_sigaction(signal, info, context);
  if (previous.sa_handler == SIG_IGN) return;
  if (previous.sa_handler != SIG_DFL) return previous.sa_handler(signal);
  // Returning runs the instruction again, now with the signal's default action, so the process ends as it would have
  // without this handler.
  ::signal(signal, SIG_DFL);
}

/**
 * Handles an access past the end of a mapped file, which means that a module was truncated while it ran. Its code,
 * strings and unwind tables may be gone, so the fault cannot be described.
 */
[[noreturn]] void end_without_module() {
  static const char TEXT[] = "the kernel's module was cut short while it ran\n";
  if (write(STDERR_FILENO, TEXT, sizeof TEXT - 1) < 0) _exit(CUT_SHORT);
  _exit(CUT_SHORT);
}

void on_signal(int signal, siginfo_t* info, void* context_pointer) {
  auto* context = static_cast<ucontext_t*>(context_pointer);
  ThreadState* thread = flashcore_emu_thread;
  // Between two fibres there is nothing to stop. The watching thread sends the signal again.
  if (signal == TIME_LIMIT_SIGNAL && (!thread || is_told_of_time_limit)) return;
  if (!thread) return give_to_previous(signal, info, context_pointer);
  if (signal == SIGBUS && info->si_code == BUS_ADRERR) end_without_module();
  is_told_of_time_limit = signal == TIME_LIMIT_SIGNAL;
  note.signal = signal;
  note.address = info->si_addr;
  note.program_counter = program_counter_of(context);
#if defined(__linux__) && defined(__x86_64__)
  note.has_address = info->si_code != SI_KERNEL;  // a general-protection fault reports no address
#else
  note.has_address = true;
#endif
  note.write = was_write(context);
#if defined(__linux__) && defined(__x86_64__)
  if (signal == SIGSEGV && !note.has_address) {
    const uint64_t address = effective_address(context);
    note.has_address = !is_canonical(address);  // a canonical address means that the access was misaligned
    if (note.has_address) note.address = reinterpret_cast<const void*>(address);
    note.write = -1;  // the error code of this fault does not tell reads from writes
  }
#endif
  if (signal == TIME_LIMIT_SIGNAL) keep_stack(context, static_cast<Fibre*>(thread)->stack_top);
  redirect(context, reinterpret_cast<void (*)()>(&abandon_after_signal), static_cast<Fibre*>(thread)->stack_top);
}

}  // namespace

int time_limit_signal() { return TIME_LIMIT_SIGNAL; }
void expect_time_limit_signal() { is_told_of_time_limit = false; }

void install_fault_signals() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const int signal : SIGNALS) {
      struct sigaction action;
      memset(&action, 0, sizeof action);
      action.sa_sigaction = on_signal;
      action.sa_flags = SA_SIGINFO | SA_ONSTACK;
      sigemptyset(&action.sa_mask);
      sigaction(signal, &action, &previous_actions[signal]);
    }
  });
}

void use_alternate_signal_stack() {
  constexpr size_t BYTES = 64 * 1024;
  void* memory = mmap(nullptr, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  stack_t stack;
  memset(&stack, 0, sizeof stack);
  stack.ss_sp = memory;
  stack.ss_size = BYTES;
  sigaltstack(&stack, nullptr);
}

}  // namespace flashcore::emu
