#pragma once

namespace flashcore::emu {

/** Turns SIGSEGV, SIGBUS, SIGFPE and SIGILL of fibres into faults of their launch; others keep their handlers. */
void install_fault_signals();
/** Sent to an OS thread: the fibre that it runs is abandoned, and the fault tells where each thread of its block stood. */
int time_limit_signal();
/** A new block begins on the calling thread. */
void expect_time_limit_signal();

/** Gives the calling OS thread the alternate stack on which those signals are taken. */
void use_alternate_signal_stack();

}  // namespace flashcore::emu
