/**
 * Runs the conformance suite against any driver library through its cu* functions:
 *   node conformance.js emulator            flashcore's CPU emulator, compiled by the host's C++ compiler
 *   node conformance.js emulator-ptx        its PTX engine; kernels are compiled by the host's nvcc
 *   node conformance.js libcuda.so.1        a GPU's driver; kernels are compiled by the host's nvcc
 * Options: --json FILE writes the report. Exit code 0: all checks passed, 1: some failed, 2: a wrong command line, 3:
 * they could not be run.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { compileImages, openBench, type Images } from './bench.ts';
import checks from './checks.ts';
import { readArguments, withPlainErrors } from './command-line.ts';
import { repositoryRoot } from '../support/repository-root.ts';

const CHECK_LIMIT_MS = 60_000;
const USAGE = `flashcore-conformance [emulator | emulator-ptx | libcuda.so.1] [--json FILE]
Runs the checks of the driver interface on the CPU emulator (the default), on its PTX engine, or on the GPU of a driver library, whose kernels are compiled by nvcc.`;
const { values, positionals } = readArguments(
  { json: { type: 'string' }, check: { type: 'string' }, images: { type: 'string' } },
  USAGE,
);
process.exitCode =
  values.check === undefined
    ? await withPlainErrors(positionals[0], () => runAll(positionals[0] ?? 'emulator'))
    : runOne(Number(values.check), values.images!);

/** Compiles once, then runs each check in a process of its own. */
async function runAll(target: string): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'fc-conformance-'));
  try {
    await compileImages(target, repositoryRoot(), folder);
    const images = join(folder, 'images.json');
    const results = checks.map(({ name }, index) => ({ name, ...runChild(index, images) }));
    for (const { name, failure } of results)
      console.log(`${failure ? 'not ok' : 'ok'}  ${name}${failure ? `\n${failure.replace(/^/gm, '    ')}` : ''}`);
    const failed = results.filter(({ failure }) => failure).length;
    const device = JSON.parse(readFileSync(join(folder, 'device.json'), 'utf8')) as object;
    console.log(`${results.length - failed} passed, ${failed} failed on ${JSON.stringify(device)}`);
    if (values.json) writeFileSync(values.json, `${JSON.stringify({ target, device, checks: results }, null, 2)}\n`);
    return failed === 0 ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function runChild(index: number, images: string): { failure?: string } {
  const child = spawnSync(
    process.execPath,
    [fileURLToPath(import.meta.url), '--check', String(index), '--images', images],
    { encoding: 'utf8', timeout: CHECK_LIMIT_MS, killSignal: 'SIGKILL' },
  );
  if (child.status === 0) return {};
  return { failure: child.signal ? `ended by ${child.signal}\n${child.stderr}` : child.stderr };
}

function runOne(index: number, imagesFile: string): number {
  const bench = openBench(JSON.parse(readFileSync(imagesFile, 'utf8')) as Images);
  writeFileSync(join(dirname(imagesFile), 'device.json'), JSON.stringify(bench.driver.facts));
  checks[index]!.run(bench);
  return 0;
}
