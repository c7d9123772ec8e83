/** Ends the process where it may not have the address space that it needs. */
import { lackOfAddressSpace } from '@flashcore/shared/files';

// Imported before what fa-tui is made of: V8, and Node's TLS with it, are aborted with less.
const LEAST_BYTES = 1536 * 1024 ** 2;
const EXIT_USAGE = 2;

const lack = lackOfAddressSpace('fa-tui', LEAST_BYTES);
if (lack !== undefined) {
  process.stderr.write(`error: ${lack}\n`);
  process.exit(EXIT_USAGE);
}
