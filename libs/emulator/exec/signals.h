#pragma once

namespace flashcore::emu {

/**
 * Turns SIGSEGV, SIGBUS, SIGFPE and SIGILL of fibres into faults of their launch. Other code keeps its signal handlers.
 */
void install_fault_signals();
/** The signal that stops an OS thread's running fibre. The fault lists where each thread of its block was. */
int time_limit_signal();
/** Call when a new block begins on the calling thread. */
void expect_time_limit_signal();

/** Gives the calling OS thread the alternate stack for these signals. */
void use_alternate_signal_stack();

}  // namespace flashcore::emu
