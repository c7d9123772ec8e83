import './address-space.ts';
import { enableCompileCache } from 'node:module';
import path from 'node:path';
import { runProgram } from './commands/program.ts';

// What V8 compiled is kept for the next start, beside the program: who may write there may change the program itself.
// Where nothing can be written, nothing is kept. What a command needs is loaded below, so that all of it is kept.
if (!process.env['NODE_COMPILE_CACHE']) enableCompileCache(path.join(import.meta.dirname, 'compiled'));

const CANNOT_WRITE = 3;

// A reader that has enough (`| head`) is no fault: end without a word, with the code of what was found out by then.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit();
    if (stream === process.stdout)
      process.stderr.write(`error: The result could not be written to stdout: ${error.message}\n`);
    process.exit(CANNOT_WRITE);
  });
}

const exitCode = await runProgram(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  environment: process.env,
});
process.exitCode = exitCode;
// What is still in a pipe's buffer goes out first; then nothing left open (a socket, a timer) may hold the program.
process.stdout.write('', (error) => {
  if (!error) process.exit(exitCode);
});
