// `npx nx bundle runner`: makes one archive that lets a GPU host with only a driver and nvcc serve kernels,
// without npm and without a network. tools/shipped-files.ts lists its files. Options: --out DIR (default out/),
// --no-node (leave Node out, for hosts that have Node 24 or to save space)
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { PLATFORM, stageFiles } from './shipped-files.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const { values: options } = parseArgs({
  options: { out: { type: 'string', default: join(ROOT, 'out') }, 'no-node': { type: 'boolean', default: false } },
});
/** About as much as a slow line transfers in a minute. */
const MAX_MEGABYTES = 60;
const out = resolve(options.out);
mkdirSync(out, { recursive: true });
// Works in a separate folder, so that everything in DIR stays, even a clone named flashcore.
const work = mkdtempSync(join(out, 'bundle-'));
const stage = join(work, 'flashcore');

mkdirSync(stage);
stageFiles(stage);
if (!options['no-node'])
  cpSync(join(ROOT, 'node_modules/node/bin/node'), join(stage, 'bin/node'), { dereference: true });
launcher('flashcore-runner', 'apps/runner/dist/main.js');
launcher('fa-tui', 'apps/tui/dist/main.js');
launcher('flashcore-conformance', 'test/dist/conformance.js');
launcher('flashcore-primitives', 'test/dist/primitives.js');

const archive = join(out, `flashcore-runner-${PLATFORM}.tar.xz`);
console.log(`packing ${archive}: a minute or two`);
// xz's default level makes about 35 MB in half a minute. The highest levels save 2 % and take three times as long.
// XZ_OPT can set another level.
execFileSync('tar', ['-C', work, '-cJf', archive, basename(stage)], {
  env: { ...process.env, XZ_OPT: process.env['XZ_OPT'] ?? '-6 -T0' },
  stdio: 'inherit',
});
rmSync(work, { recursive: true });
const megabytes = statSync(archive).size / 1e6;
if (megabytes > MAX_MEGABYTES) {
  console.error(
    `${archive} has ${megabytes.toFixed(1)} MB; must be at most ${MAX_MEGABYTES}: see what grew with  tar tvf ${archive} | sort -k3 -n`,
  );
  process.exit(1);
}
console.log(
  `${archive} ${megabytes.toFixed(1)} MB of at most ${MAX_MEGABYTES}\nOn the GPU host: tar xf ${basename(archive)} && cd flashcore && ./flashcore-runner serve`,
);

/** A shell script that starts a program with the bundle's Node, or with the host's Node if the bundle has none. */
function launcher(name: string, main: string): void {
  const path = join(stage, name);
  writeFileSync(
    path,
    `#!/bin/sh
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
node="$here/bin/node"
[ -x "$node" ] || node=node
exec "$node" --min-semi-space-size=32 "$here/${main}" "$@"
`,
  );
  chmodSync(path, 0o755);
}
