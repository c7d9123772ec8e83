// Starts a built program with the Node that the workspace provides (package `node`). This file runs on Node 18 or
// later.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const WANTED_MAJOR = 24;
const RUNNER_CANNOT = 3;
/**
 * A clone has the lock file, and an installed package does not. Both must run the packages' install scripts, because
 * one of these provides Node.
 */
const INSTALL = existsSync(new URL('../package-lock.json', import.meta.url))
  ? 'npm ci --ignore-scripts=false'
  : 'npm install --global --ignore-scripts=false, with the file that flashcore came as';

/** Runs `main` with this process's arguments and exits with its code. */
export async function startProgram(main) {
  if (!existsSync(main)) fail(`Wanted the built program at ${main}; it is not there. Run: ${INSTALL}`);
  if (Number(process.versions.node.split('.')[0]) >= WANTED_MAJOR) await import(pathToFileURL(main).href);
  else runWith(workspaceNode(), main);
}

/** The binary of the package `node`, which npm installs next to our own packages. */
function workspaceNode() {
  let folder;
  try {
    folder = path.dirname(createRequire(import.meta.url).resolve('node/package.json'));
  } catch {
    fail(
      `Wanted Node ${WANTED_MAJOR} or later; this is ${process.version}, and the workspace's own Node is not installed. Run: ${INSTALL}`,
    );
  }
  const binary = ['node', 'node.exe'].map((name) => path.join(folder, 'bin', name)).find((file) => existsSync(file));
  return binary ?? fail(`Wanted a Node binary in ${path.join(folder, 'bin')}; there is none. Run: ${INSTALL}`);
}

function runWith(binary, main) {
  const child = spawn(binary, [...process.execArgv, main, ...process.argv.slice(2)], { stdio: 'inherit' });
  // If both processes are in a terminal's foreground, Ctrl-C also reaches the child directly. Programs may therefore
  // treat two signals within a moment as one.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('error', (error) => fail(`Wanted to start ${binary}; ${error.message}`));
  child.on('exit', (code, signal) => {
    if (!signal) process.exit(code ?? RUNNER_CANNOT);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

function fail(message) {
  console.error(`error: ${message}`);
  process.exit(RUNNER_CANNOT);
}
