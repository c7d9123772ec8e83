/** Ends the process with a message if `ulimit -v` leaves too little address space. */
import { lackOfAddressSpace } from '@flashcore/shared/files';

// Imported first: with less address space, V8 and Node's TLS abort while the other modules load.
const LEAST_BYTES = 1536 * 1024 ** 2;
const EXIT_USAGE = 2;

const lack = lackOfAddressSpace('fa-tui', LEAST_BYTES);
if (lack !== undefined) {
  process.stderr.write(`error: ${lack}\n`);
  process.exit(EXIT_USAGE);
}
