import type { Metadata } from '@grpc/grpc-js';
import { UsageError } from '@flashcore/shared/contract';
import type { Role } from './roles.ts';

/** The client that makes a call, from its credential. */
export interface Caller {
  name: string;
  role: Role;
  /** False if the runner asks for no credential. Quotas apply only to clients that can be told apart. */
  authenticated: boolean;
}

/** Name of every client of a runner that asks for no credential. */
export const LOCAL = 'local';
export const LOCAL_CALLER: Caller = { name: LOCAL, role: 'admin', authenticated: false };

/** Whether a name is valid in tokens and certificates. */
export const isClientName = (name: unknown): name is string =>
  typeof name === 'string' && name !== LOCAL && /^[\w.@-](?:[\w.@ -]{0,62}[\w.@-])?$/.test(name);

/** Throws UsageError. */
export function requireClientName(name: string): void {
  const valid: boolean = isClientName(name);
  if (!valid)
    throw new UsageError(
      `Client name "${name}": must be 1 to 64 letters, digits, spaces, ".", "_", "@" and "-", and not "local"`,
    );
}

// Keyed by the object that grpc-js itself passes from interceptor to handler, so that nothing that a client sends can
// be mistaken for a key.
const calls = new WeakMap<Metadata, CheckedCall>();

/** A call that was authorized. */
export interface CheckedCall {
  caller: Caller;
  /** Checks a long call again: throws if the caller would now be refused. */
  recheck: () => void;
}

export function setChecked(metadata: Metadata, call: CheckedCall): void {
  calls.set(metadata, call);
}

/** Throws if no interceptor has checked the call. */
export function checkedCall(metadata: Metadata): CheckedCall {
  const call = calls.get(metadata);
  if (!call) throw new Error('a call came past the access check');
  return call;
}

/** Throws like checkedCall(). */
export const callerOf = (metadata: Metadata): Caller => checkedCall(metadata).caller;
