import { enableCompileCache } from 'node:module';
import path from 'node:path';
import { lackOfAddressSpace } from '@flashcore/shared/files';

const EXIT_USAGE = 2;
const CANNOT_WRITE = 3;

// With less address space (`ulimit -v`), V8 and Node's TLS abort while the other modules load.
const LEAST_ADDRESS_SPACE_BYTES = 1536 * 1024 ** 2;
const lack = lackOfAddressSpace('fa-tui', LEAST_ADDRESS_SPACE_BYTES);
if (lack !== undefined) {
  process.stderr.write(`error: ${lack}\n`);
  process.exit(EXIT_USAGE);
}

// V8's compiled code is stored next to the program for the next start. This is safe, because anyone who can write there
// could also change the program itself. If the folder is not writable, nothing is stored. All other modules are loaded
// below this line, so that the cache includes them.
if (!process.env['NODE_COMPILE_CACHE']) enableCompileCache(path.join(import.meta.dirname, 'compiled'));

// A reader that closes the pipe early (`| head`) is not an error: end silently, with the exit code known by then.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit();
    if (stream === process.stdout)
      process.stderr.write(`error: The result could not be written to stdout: ${error.message}\n`);
    process.exit(CANNOT_WRITE);
  });
}

const { runProgram } = await import('./commands/program.ts');
const exitCode = await runProgram(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  environment: process.env,
});
process.exitCode = exitCode;
// First flushes the pipe's buffer. After that, no open socket or timer may keep the program running.
process.stdout.write('', (error) => {
  if (!error) process.exit(exitCode);
});
