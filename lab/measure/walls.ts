/**
 * `npm run walls [rounds]`: measures the seconds that a user waits for a warm emulator: for verifications on the PTX
 * engine, a whole experiment on the PTX engine, and the default experiment (`npm start`) on fibres, as on hosts without
 * nvcc and clang. The commands take turns, for three rounds by default. Prints a line per command and writes walls.json
 * into lab/results/emulator-<date>, from which `npm run ladder` makes the table in docs/emulator.md. Exit code 1: a
 * command did not end as it should.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { join } from 'node:path';
import type { Wall, Walls } from '../tables/walls.ts';
import { Home, ROOT } from '@flashcore/test/support/home';

const ROUNDS = 3;
const LIMIT_MS = 600_000;

interface Command {
  what: string;
  engine: Wall['engine'];
  args: string[];
  wanted: number;
  /** The expected exit code: 1 for an experiment on a wrong kernel. */
  exitCode: number;
}

const COMMANDS: readonly Command[] = [
  { what: 'verify flashcore_v6', engine: 'ptx', args: ['verify', 'flashcore_v6'], wanted: 5, exitCode: 0 },
  { what: 'verify flashcore_v10', engine: 'ptx', args: ['verify', 'flashcore_v10'], wanted: 4, exitCode: 0 },
  { what: 'verify fa_v1_baseline', engine: 'ptx', args: ['verify', 'fa_v1_baseline'], wanted: 8, exitCode: 0 },
  {
    what: 'run bank_conflict_32way',
    engine: 'ptx',
    args: ['run', join(ROOT, 'kernels/faulty/bank_conflict_32way')],
    wanted: 20,
    exitCode: 1,
  },
  { what: 'start', engine: 'fibres', args: ['start'], wanted: 10, exitCode: 0 },
];

const rounds = Number(process.argv[2] ?? ROUNDS);
const load = loadavg()[0]!;
const homes = { ptx: new Home(), fibres: new Home() };
try {
  const addresses = { ptx: await served('ptx'), fibres: await served('fibres') };
  const tools = new Set<string>();
  const walls: Wall[] = COMMANDS.map(({ what, engine, wanted }) => ({
    what,
    engine,
    seconds: [],
    verifySeconds: [],
    wanted,
  }));
  // The first round compiles, so its times are dropped.
  for (let round = 0; round <= rounds; round += 1)
    for (const [index, { what, engine, args, exitCode: wanted }] of COMMANDS.entries()) {
      const started = performance.now();
      const { response, exitCode, stderr } = homes[engine].runJson(['--runner', addresses[engine], ...args], {
        timeoutMs: LIMIT_MS,
      });
      const seconds = (performance.now() - started) / 1000;
      if (exitCode !== wanted) {
        console.error(`${what}: exit code ${exitCode}, ${wanted} wanted\n${stderr.slice(-2000)}`);
        process.exitCode = 1;
      }
      const { result } = response;
      for (const { name, version } of result?.provenance?.tools ?? []) tools.add(`${name} ${version}`);
      const verifySeconds = result?.variants[0]?.verify?.seconds;
      console.log(`${what}: ${seconds.toFixed(1)} s, verified in ${verifySeconds?.toFixed(1) ?? 'none'} s`);
      if (round === 0) continue;
      walls[index]!.seconds.push(seconds);
      if (verifySeconds !== undefined) walls[index]!.verifySeconds.push(verifySeconds);
    }
  const report: Walls = {
    command: 'npm run walls',
    measuredAt: new Date().toISOString(),
    processor: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    load,
    tools: [...tools],
    walls,
  };
  const folder = join(ROOT, 'lab/results', `emulator-${report.measuredAt.slice(0, 10)}`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'walls.json'), `${JSON.stringify(report, undefined, 2)}\n`);
} finally {
  await homes.ptx[Symbol.asyncDispose]();
  await homes.fibres[Symbol.asyncDispose]();
}

/** The address of a runner whose emulator has this engine. */
async function served(engine: Wall['engine']): Promise<string> {
  const home = homes[engine];
  const { address } = await home.startDaemonAt(`unix:${join(home.path, 'runner.sock')}`, '--emulator-engine', engine);
  return address;
}
