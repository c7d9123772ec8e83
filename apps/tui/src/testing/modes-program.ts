/**
 * Sets the terminal's modes as fa-tui does, then ends in the way that its argument names. modes.test.ts runs this in a
 * real pty.
 */
import process from 'node:process';
import { guardTerminal } from '../terminal/modes.ts';

process.stdout.write('\u001b[?1049h\u001b[?25l\u001b[?2004h');
process.stdin.setRawMode(true);
process.stdin.resume();
guardTerminal({
  stdin: process.stdin,
  stdout: process.stdout,
  alternateScreen: true,
  unmount: () => {
    if (process.argv[2] === 'unmount-throws') throw new Error('the screen is broken');
  },
});
process.stdout.write('ready\n');
if (process.argv[2] === 'exception')
  // eslint-disable-next-line flashcore/no-fixed-wait -- the error is thrown from a timer
  setTimeout(() => {
    throw new Error('a fault of the program');
  }, 20);
if (process.argv[2] === 'rejection') void Promise.reject(new Error('nobody caught this'));
setInterval(() => undefined, 1000);
