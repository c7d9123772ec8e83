/** Ends the process with a message if `ulimit -v` leaves it too little address space. */
import { lackOfAddressSpace } from '@flashcore/shared/files';

// Import this file before the rest of the runner, because loading that takes more than 1.2 GB.
const LEAST_BYTES = 2 * 1024 ** 3;
const EXIT_USAGE = 2;

const lack = lackOfAddressSpace('a runner', LEAST_BYTES);
if (lack !== undefined) {
  process.stderr.write(`flashcore-runner: ${lack}\n`);
  process.exit(EXIT_USAGE);
}
