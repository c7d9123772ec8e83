import type { Metadata } from '@grpc/grpc-js';
import { UsageError } from '../usage-error.ts';
import type { Role } from './roles.ts';

/** Who makes a call, as the credential says. */
export interface Caller {
  name: string;
  role: Role;
  /** False for whoever reaches a runner that asks for no credential: quotas are for those that can be told apart. */
  authenticated: boolean;
}

/** Name of whoever reaches a runner that asks for no credential. */
export const LOCAL = 'local';
export const LOCAL_CALLER: Caller = { name: LOCAL, role: 'admin', authenticated: false };

/** Of tokens and in certificates. */
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

// Keyed by the very object that grpc-js hands from interceptor to handler: nothing that a client sends can be mistaken
// for it.
const calls = new WeakMap<Metadata, CheckedCall>();

/** A call that was let in. */
export interface CheckedCall {
  caller: Caller;
  /** Checks anew, for calls that last: throws when the caller would no longer be let in. */
  recheck: () => void;
}

export function setChecked(metadata: Metadata, call: CheckedCall): void {
  calls.set(metadata, call);
}

/** Throws where no interceptor stood before the call. */
export function checkedCall(metadata: Metadata): CheckedCall {
  const call = calls.get(metadata);
  if (!call) throw new Error('a call came past the access check');
  return call;
}

/** Throws as checkedCall(). */
export const callerOf = (metadata: Metadata): Caller => checkedCall(metadata).caller;
