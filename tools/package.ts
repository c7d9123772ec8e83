// `npm run package`: makes the npm package `flashcore` as one file, and a Homebrew formula for it. The package contains
// koffi with its library for this platform, so that installing it needs no network if Node is new enough. Option: --out
// DIR (default dist/).
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { ROOT, stageFiles } from './shipped-files.ts';

const { values: options } = parseArgs({ options: { out: { type: 'string', default: join(ROOT, 'dist') } } });
const MAX_MEGABYTES = 30;
const out = resolve(options.out);
interface Manifest {
  readonly version: string;
  readonly description: string;
  readonly license: string;
  readonly engines: Readonly<Record<string, string>>;
}
const { version, description, license, engines } = manifestOf('.');

mkdirSync(out, { recursive: true });
// Works in a separate folder, so that everything in DIR stays.
const stage = mkdtempSync(join(out, 'package-'));
stageFiles(stage);
for (const [program, file] of [
  ['runner', 'flashcore-runner.js'],
  ['tui', 'fa-tui.js'],
] as const) {
  cpSync(join(ROOT, 'apps', program, 'bin'), join(stage, 'apps', program, 'bin'), { recursive: true });
  chmodSync(join(stage, 'apps', program, 'bin', file), 0o755);
}
for (const page of ['README.md', 'CHANGELOG.md']) copyFileSync(join(ROOT, page), join(stage, page));
writeFileSync(join(stage, 'package.json'), `${JSON.stringify(manifest(), null, 2)}\n`);
const file = join(out, `flashcore-${version}.tgz`);
execFileSync('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', out], {
  cwd: stage,
  stdio: ['ignore', 'ignore', 'inherit'],
});
rmSync(stage, { recursive: true });
const megabytes = statSync(file).size / 1e6;
if (megabytes > MAX_MEGABYTES) {
  console.error(
    `${file} must have at most ${MAX_MEGABYTES} MB, got ${megabytes.toFixed(1)}: see what grew with  tar tvf ${file} | sort -k3 -n`,
  );
  process.exit(1);
}
writeFileSync(join(out, 'flashcore.rb'), formula());
console.log(`${file} ${megabytes.toFixed(1)} MB of at most ${MAX_MEGABYTES}\nInstall it: npm i -g ${file}`);

function manifest(): unknown {
  return {
    name: 'flashcore',
    version,
    description,
    license,
    type: 'module',
    engines,
    bin: {
      flashcore: 'apps/tui/bin/fa-tui.js',
      'fa-tui': 'apps/tui/bin/fa-tui.js',
      'flashcore-runner': 'apps/runner/bin/flashcore-runner.js',
    },
    dependencies: { koffi: manifestOf('node_modules/koffi').version },
    bundleDependencies: ['koffi'],
    // The programs need Node 24. If the installed Node is older, they start this one (tools/start-program.mjs).
    optionalDependencies: { node: manifestOf('node_modules/node').version },
  };
}

function formula(): string {
  const values: Readonly<Record<string, string>> = {
    version,
    // Encodes percent signs and spaces in a path, as a URL needs.
    file: pathToFileURL(file).href,
    sha256: createHash('sha256').update(readFileSync(file)).digest('hex'),
  };
  const template = readFileSync(join(ROOT, 'tools/homebrew/flashcore.rb'), 'utf8');
  return template.replaceAll(/@(\w+)@/g, (_, name: string) => values[name]!);
}

function manifestOf(folder: string): Manifest {
  return JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8')) as Manifest;
}
