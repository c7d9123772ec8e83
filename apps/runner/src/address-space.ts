/** Ends the process where it may not have the address space that V8 reserves: it would be aborted within its start. */
import { existsSync, readFileSync } from 'node:fs';

// Imported before what a runner is made of: loading that takes more than 1.2 GB.
const LEAST_BYTES = 2 * 1024 ** 3;
const EXIT_USAGE = 2;

const limits = existsSync('/proc/self/limits') ? readFileSync('/proc/self/limits', 'utf8') : '';
const most = Number(/^Max address space\s+(\d+)/m.exec(limits)?.[1] ?? Infinity);
if (most < LEAST_BYTES) {
  process.stderr.write(
    `flashcore-runner: Raise the limit of address space (ulimit -v unlimited, LimitAS= of a systemd unit): a runner needs 2048 MiB, ${Math.floor(most / 1024 ** 2)} are allowed here\n`,
  );
  process.exit(EXIT_USAGE);
}
