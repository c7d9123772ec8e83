/**
 * Ends the process with a message if `ulimit -v` leaves it too little address space, and sets how its heap grows.
 * Import this file first: loading the rest of the runner takes more than 1.2 GB, and the flags must be set before.
 */
import { setFlagsFromString } from 'node:v8';
import { lackOfAddressSpace } from '@flashcore/shared/files';

const LEAST_BYTES = 2 * 1024 ** 3;
const EXIT_USAGE = 2;

const lack = lackOfAddressSpace('a runner', LEAST_BYTES);
if (lack !== undefined) {
  process.stderr.write(`flashcore-runner: ${lack}\n`);
  process.exit(EXIT_USAGE);
}

// V8 doubles its young generation while many objects survive, to 48 MB and more, and never shrinks it. Fifty streams
// and a flood of events then look like a leak of 100 MB. The young generation's size at a daemon's start is enough for
// 60,000 events a second.
setFlagsFromString('--semi-space-growth-factor=1');
// The old generation may grow by 30 % before it is collected, not to several times its size. After 10,000 submissions
// at 1,000 a second a gateway then uses 220 MiB instead of 300, at the same rate and cost (npx nx fleet-overhead lab).
setFlagsFromString('--heap-growing-percent=30');
