/**
 * `npm run triton-lines -- FOLDER`: compares ncu's counts for each source line of Triton kernels with the emulator's.
 * FOLDER has the files lines.* that `python3 lab/gpu_host --sections triton` wrote. Each launch of
 * test/fixtures/triton/counted is repeated on the emulator's PTX engine. Prints a table and writes FOLDER/lines.json.
 * Exit code 1: a figure differs by more than 1 %, or the files of a kernel could not be read.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { compareLines, isWithin, linesTable, type ComparedLines, type EmulatorLines } from '../tables/triton-lines.ts';
import { onDevice } from './device.ts';
import { repositoryRoot } from '@flashcore/test/support/repository-root';

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error('Wanted the folder with lines.*.csv as an argument');
const LAUNCHES = join(repositoryRoot(), 'test/fixtures/triton/counted/launches.json');
const PROGRAM = join(repositoryRoot(), 'lab/gpu_host/programs/triton_lines.py');

await onDevice('emulator', ({ library }) => Promise.resolve(compareAll(library)), 'ptx');

function compareAll(library: string): void {
  const launches = JSON.parse(readFileSync(LAUNCHES, 'utf8')) as Record<string, { source: string }>;
  const compared: Record<string, ComparedLines[]> = {};
  for (const [name, { source }] of Object.entries(launches)) {
    const ptx = join(LAUNCHES, '..', `${name}.ptx`);
    const counted = execFileSync('python3', [PROGRAM, library, LAUNCHES, name, ptx], { encoding: 'utf8' });
    const [{ lines }] = JSON.parse(counted) as [{ lines: EmulatorLines }];
    const read = (path: string): string => readFileSync(path, 'utf8');
    try {
      compared[name] = compareLines(
        {
          csv: read(join(folder!, `lines.${name}.csv`)),
          sass: read(join(folder!, `lines.${name}.sass.txt`)),
          ptx: read(ptx),
          file: basename(source),
        },
        lines,
      );
    } catch (error) {
      // Continues, because the other kernels can still be compared.
      console.error(`${name}: ${String(error)}`);
      process.exitCode = 1;
    }
  }
  writeFileSync(join(folder!, 'lines.json'), `${JSON.stringify(compared, undefined, 2)}\n`);
  process.stdout.write(linesTable(compared));
  if (!Object.values(compared).flat().every(isWithin)) process.exitCode = 1;
}
