#pragma once

namespace flashcore::emu {

/** Turns SIGSEGV, SIGBUS, SIGFPE and SIGILL of fibres into faults of their launch; others keep their handlers. */
void install_fault_signals();

/** Gives the calling OS thread the alternate stack on which those signals are taken. */
void use_alternate_signal_stack();

}  // namespace flashcore::emu
