// Verifies kernels of public repositories, unedited, on the emulator. Writes the results to results.json, and
// results.md from it.
//   node examples/foreign/check.mjs CHECKOUTS [--clone] [--compiler nvcc|clang] [KERNEL…]
//   node examples/foreign/check.mjs --page
// CHECKOUTS has a clone of each repository of repositories.yaml, by its name there; --clone makes those that are not
// there. Sources are read at the commit that repositories.yaml names, whatever is checked out. Without --compiler each
// kernel is compiled by nvcc and by clang. --page only writes results.md from results.json. Ends with 1 if a kernel
// that faults.yaml does not list did not pass.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, delimiter, dirname, join, posix, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { format } from 'prettier';
import { parse } from 'yaml';

const HERE = import.meta.dirname;
const FA_TUI = join(HERE, '../../apps/tui/bin/fa-tui.js');
const RUNNER = join(HERE, '../../apps/runner/bin/flashcore-runner.js');
const RESULTS = join(HERE, 'results.json');
const PAGE = join(HERE, 'results.md');
const COMPILERS = ['nvcc', 'clang'];
/** Small cases of each problem; a kernel runs the first one that its limits allow. */
const SHAPES = {
  attention: ['1x2x100x64', '1x2x128x64', '1x2x128x128', '1x1x128x128', '1x2x128x64c'],
  gemm: ['M=72,N=100,K=68', 'M=128,N=128,K=64', 'M=256,N=256,K=32', 'M=256,N=256,K=96', 'M=2048,N=2048,K=256'],
  layernorm: ['rows=5,N=333', 'rows=5,N=1000'],
  matmul: ['M=72,N=100,K=68', 'M=128,N=128,K=64', 'M=256,N=256,K=32'],
  rmsnorm: ['rows=5,N=333', 'rows=5,N=512'],
  softmax: ['rows=5,N=333', 'rows=5,N=516', 'rows=5,N=256', 'rows=3,N=2048'],
  transpose: ['M=37,N=65'],
};
/** Whose fault a failure is, by the keys of faults.yaml, in the page's words. */
const WHOSE = { theirs: "the source's", ours: "flashcore's", precision: "nobody's" };
/** fa-tui's exit statuses for a request that no runner accepts, and for a runner that did not answer in time. */
const REFUSED = 2;
const UNREACHED = 3;
/** How often a request is made that did not reach the runner, which may be late on a busy host. */
const MOST_TRIES = 5;

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { clone: { type: 'boolean' }, compiler: { type: 'string', multiple: true }, page: { type: 'boolean' } },
});
const repositories = parse(readFileSync(join(HERE, 'repositories.yaml'), 'utf8'));
/** Why kernels fail, as found by reading their sources. */
const faults = parse(readFileSync(join(HERE, 'faults.yaml'), 'utf8')) ?? {};
const results = existsSync(RESULTS) ? JSON.parse(readFileSync(RESULTS, 'utf8')) : {};
async function check(checkouts, wanted, compilers) {
  if (!checkouts || compilers.some((compiler) => !COMPILERS.includes(compiler))) {
    console.error('usage: node examples/foreign/check.mjs CHECKOUTS [--clone] [--compiler nvcc|clang] [KERNEL…]');
    process.exit(2);
  }
  const folder = mkdtempSync(join(tmpdir(), 'foreign-'));
  try {
    for (const compiler of compilers) {
      const runner = await startRunner(compiler, {
        folder,
        data: resolve(checkouts, '.flashcore'),
        headers: headersIn(checkouts, folder),
      });
      try {
        for (const [name, { url, commit, kernels }] of Object.entries(repositories))
          for (const [kernel, files] of Object.entries(kernels)) {
            if (wanted.length > 0 && !wanted.includes(kernel)) continue;
            const path = assemble(kernel, { folder, clone: cloneOf(checkouts, name, url), commit, files });
            const result = verify(path, runner.address);
            (results[kernel] ??= {})[compiler] = result;
            writeFileSync(RESULTS, linesOf(results));
            console.error(`${compiler} ${kernel}: ${result.verdict}`);
            if (result.verdict !== 'passed' && !faults[kernel]) process.exitCode = 1;
          }
      } finally {
        await runner.end();
      }
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Starts a runner whose emulator runs the PTX of this compiler. */
async function startRunner(compiler, { folder, data, headers }) {
  const address = `unix:${join(folder, `${compiler}.sock`)}`;
  const env = { ...process.env, FLASHCORE_PROBLEMS: join(HERE, 'problems') };
  if (compiler === 'clang') {
    // A runner prefers nvcc, but skips an nvcc that does not work.
    const tools = join(folder, 'tools');
    mkdirSync(tools);
    writeFileSync(join(tools, 'nvcc'), '#!/bin/sh\nexit 1\n');
    chmodSync(join(tools, 'nvcc'), 0o755);
    Object.assign(env, { CUDA_HOME: '', CUDA_PATH: '', PATH: `${tools}${delimiter}${env.PATH}` });
  }
  const included = headers.length > 0 ? ['--headers', ...headers] : [];
  const child = spawn(process.execPath, [RUNNER, 'serve', '--address', address, '--data', data, ...included], {
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const ended = new Promise((done) => child.once('exit', done));
  while (!existsSync(address.slice('unix:'.length))) {
    if (child.exitCode !== null) throw new Error(`the runner ended with status ${child.exitCode}`);
    await sleep(100);
  }
  return {
    address,
    end: async () => {
      child.kill('SIGTERM');
      await ended;
    },
  };
}

/** Folders of headers for the runner, as `name=folder`: those of repositories.yaml that have a clone. */
function headersIn(checkouts, folder) {
  const trees = Object.entries(repositories).flatMap(([name, { commit, headers = {} }]) =>
    Object.entries(headers).map(([tree, path]) => ({
      clone: join(checkouts, name),
      object: `${commit}:${path}`,
      tree,
    })),
  );
  return trees
    .filter(({ clone }) => existsSync(clone))
    .map(({ clone, object, tree }) => {
      const place = join(folder, 'headers', tree);
      if (!existsSync(place)) {
        mkdirSync(place, { recursive: true });
        const packed = execFileSync('git', ['-C', clone, 'archive', object], { maxBuffer: 512 * 2 ** 20 });
        execFileSync('tar', ['-x', '-C', place], { input: packed });
      }
      return `${tree}=${place}`;
    });
}

function cloneOf(checkouts, name, url) {
  const clone = join(checkouts, name);
  if (!existsSync(clone) && options.clone)
    execFileSync('git', ['clone', '--quiet', '--filter=blob:none', '--no-checkout', url, clone], { stdio: 'inherit' });
  if (!existsSync(clone)) throw new Error(`${clone} is not there: clone ${url}, or give --clone`);
  return clone;
}

/** Makes a kernel's folder: our kernel.yaml, next to the repository's files. */
function assemble(kernel, { folder, clone, commit, files }) {
  const path = join(folder, kernel);
  mkdirSync(path, { recursive: true });
  copyFileSync(join(HERE, kernel, 'kernel.yaml'), join(path, 'kernel.yaml'));
  for (const file of files) {
    const [, kept] = /(?:^|\/)\.\/(.+)$/.exec(file) ?? [];
    const place = join(path, kept ?? basename(file));
    mkdirSync(dirname(place), { recursive: true });
    const object = `${commit}:${posix.normalize(file)}`;
    writeFileSync(place, execFileSync('git', ['-C', clone, 'show', object], { maxBuffer: 64 * 2 ** 20 }));
  }
  return path;
}

/** The problem that a folder's manifest names. */
const problemOf = (folder) => parse(readFileSync(join(folder, 'kernel.yaml'), 'utf8')).problem ?? 'attention';

function verify(path, address) {
  let refusal = '';
  for (const shape of SHAPES[problemOf(path)]) {
    const { status, stdout, stderr } = asked(['verify', path, '--shape', shape], address);
    // The folder has another name in each run.
    if (status !== REFUSED) return outcomeOf(shape, stdout.replaceAll(`${dirname(path)}/`, ''), stderr);
    refusal = stderr;
  }
  throw new Error(refusal);
}

/** Runs fa-tui on one seed, again if it did not reach the runner. */
function asked(command, address) {
  for (let tries = 1; ; tries += 1) {
    const answer = spawnSync(
      process.execPath,
      [FA_TUI, '--runner', address, ...command, '--device', 'emulator', '--seeds', '1', '--json'],
      {
        encoding: 'utf8',
        maxBuffer: 64 * 2 ** 20,
        env: { ...process.env, NO_COLOR: '1', FLASHCORE_PROBLEMS: join(HERE, 'problems') },
      },
    );
    if (answer.status === REFUSED || answer.stdout !== '') return answer;
    if (answer.status !== UNREACHED || tries === MOST_TRIES)
      throw new Error(`fa-tui ended with status ${answer.status}: ${answer.stderr}`);
  }
}

function outcomeOf(shape, stdout, stderr) {
  const { job, result } = JSON.parse(stdout);
  const { build, verify: verified, findings } = result?.variants?.[0] ?? {};
  const [found] = findings ?? [];
  const verdict = job.outcome.replace('OUTCOME_', '').toLowerCase().replaceAll('_', ' ');
  return {
    shape,
    compiled: build?.succeeded ?? false,
    verdict,
    error: verified?.cases?.[0]?.maxAbsError,
    races: /race check on .*no race found/.test(stderr) ? 'none' : undefined,
    finding: found && `${found.kind.replace('FINDING_KIND_', '')}: ${found.message ?? found.title ?? found.summary}`,
    compilerSeconds: build?.runs?.reduce((sum, { seconds }) => sum + seconds, 0),
    runSeconds: result?.phaseTimes?.find(({ phase }) => /VERIFY/.test(phase))?.seconds,
    summary: verdict === 'passed' ? undefined : job.summary,
  };
}

/** Makes results.md: each kernel's result by compiler, and the reasons of failures. */
function page() {
  const rows = Object.entries(repositories).flatMap(([repository, { url, commit, kernels }]) =>
    Object.keys(kernels).map((kernel) => ({ repository, url, commit, kernel, ...results[kernel] })),
  );
  const ran = (compiler) => rows.flatMap((row) => (row[compiler] ? [{ ...row[compiler], kernel: row.kernel }] : []));
  const summary = COMPILERS.map((compiler) => {
    const all = ran(compiler);
    const count = (test) => all.filter(test).length;
    return [
      compiler,
      all.length,
      count(({ compiled }) => compiled),
      count(({ verdict }) => verdict === 'passed'),
      count(({ kernel, verdict }) => verdict !== 'passed' && faults[kernel]?.whose === 'theirs'),
      count(({ kernel, verdict }) => verdict !== 'passed' && faults[kernel]?.whose !== 'theirs'),
      count(({ races }) => races === 'none'),
      total(all, 'compilerSeconds'),
      total(all, 'runSeconds'),
    ];
  });
  const failed = rows.filter((row) => COMPILERS.some((compiler) => (row[compiler]?.verdict ?? 'passed') !== 'passed'));
  return `<!-- Written by check.mjs from results.json. -->

# ${rows.length} kernels of ${Object.keys(repositories).length} public repositories

Each on one small case with one seed, every access to memory watched for races; errors are the largest against fp64.
Seconds are those of the compiler, and of the verification with its reference, on a machine with other work.

${table(
  [
    'compiler',
    'kernels',
    'compiled',
    'passed',
    "authors' faults",
    'other failures',
    'no race',
    's compiling',
    's verifying',
  ],
  summary,
)}

## Those that did not pass

${table(
  ['kernel', 'whose', 'why', 'what was found'],
  failed.map(({ kernel, ...row }) => {
    const said = new Map(
      COMPILERS.filter((compiler) => (row[compiler]?.verdict ?? 'passed') !== 'passed').map((compiler) => [
        cut(row[compiler].summary),
        compiler,
      ]),
    );
    const { whose = 'not judged', about = '' } = faults[kernel] ?? {};
    const found = said.size > 1 ? [...said].map(([text, compiler]) => `${compiler}: ${text}`) : [...said.keys()];
    return [kernel, WHOSE[whose] ?? whose, about, found.join('; ')];
  }),
)}

## All

${table(
  ['kernel', 'repository', 'problem', 'case', ...COMPILERS.flatMap((compiler) => [compiler, 'error', 'race', 's'])],
  rows.map(({ kernel, repository, url, commit, ...row }) => [
    `[${kernel}](${kernel}/kernel.yaml)`,
    `[${repository}](${url}/tree/${commit})`,
    problemOf(join(HERE, kernel)),
    row.nvcc?.shape ?? row.clang?.shape ?? '',
    ...COMPILERS.flatMap((compiler) => cells(row[compiler])),
  ]),
)}
`;
}

const cells = (result) =>
  result === undefined
    ? ['not run', '', '', '']
    : [
        result.verdict,
        result.error === undefined ? '' : result.error.toExponential(1),
        /^RACE/.test(result.finding) ? 'found' : (result.races ?? ''),
        ((result.compilerSeconds ?? 0) + (result.runSeconds ?? 0)).toFixed(1),
      ];

const total = (all, key) => all.reduce((sum, each) => sum + (each[key] ?? 0), 0).toFixed(0);

/** A part of the first line of a text as Markdown, without markup characters. */
const cut = (text) => `\`${text.replaceAll('`', "'").replaceAll('|', '/').split('\n')[0].slice(0, 300)}\``;

const table = (head, rows) => [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');

/** The results as JSON, with a line for each kernel and compiler. */
function linesOf(byKernel) {
  const kernels = Object.entries(byKernel).map(([kernel, byCompiler]) => {
    const lines = Object.entries(byCompiler).map(([name, result]) => `  "${name}": ${JSON.stringify(result)}`);
    return `"${kernel}": {\n${lines.join(',\n')}\n}`;
  });
  return `{\n${kernels.join(',\n')}\n}\n`;
}

if (!options.page) await check(positionals[0], positionals.slice(1), options.compiler ?? COMPILERS);
writeFileSync(PAGE, await format(page(), { parser: 'markdown', printWidth: 120, proseWrap: 'always' }));
