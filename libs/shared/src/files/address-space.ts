import { existsSync, readFileSync } from 'node:fs';

/**
 * A remedy if this process may use less address space than it needs (V8 needs most of it, and aborts at startup);
 * undefined if its limit is high enough.
 */
export function lackOfAddressSpace(what: string, leastBytes: number): string | undefined {
  const limits = existsSync('/proc/self/limits') ? readFileSync('/proc/self/limits', 'utf8') : '';
  const most = Number(/^Max address space\s+(\d+)/m.exec(limits)?.[1] ?? Infinity);
  if (most >= leastBytes) return undefined;
  const [needs, allowed] = [leastBytes, most].map((bytes) => Math.floor(bytes / 1024 ** 2));
  return `Raise the limit of address space (ulimit -v unlimited, LimitAS= of a systemd unit): ${what} needs ${needs} MiB, ${allowed} are allowed here`;
}
