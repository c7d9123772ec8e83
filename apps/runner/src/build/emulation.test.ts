import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { ArtifactStore } from '../store/artifacts.ts';
import { BuildTools } from './build-tools.ts';
import type { Emulation } from './emulation.ts';
import type { EngineWanted } from './host-libraries.ts';

let folder: string;

/** A host that has g++ and the programs that a test puts into its folder. */
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'fc-emulation-'));
  vi.stubEnv('CUDA_HOME', '/none');
  vi.stubEnv('CUDA_PATH', '');
  vi.stubEnv('PATH', [folder, join(folder, 'host')].join(delimiter));
  makeProgram('g++', "echo 'g++ (Debian) 12.2.0'");
});

afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

function makeProgram(name: string, script: string): void {
  writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
}

const COMPILES = ': >preprocessed.ii; : >kernel.ptx; : >canary.ptx; : >kernel.cubin';

/** Makes an nvcc that reports its version; `compiles` is the shell code for all other calls. */
const makeNvcc = (compiles: string, { version = '13.0.88', codes = 'sm_89 sm_90' } = {}): void =>
  makeProgram(
    'nvcc',
    `case "$*" in --version) echo 'release x, V${version}';; --list-gpu-code) echo ${codes};; *) ${compiles};; esac`,
  );

const makeClang = (compiles: string, archs: readonly string[] = ['sm_89', 'sm_90']): void =>
  makeProgram(
    'clang++',
    `echo 'clang version 19.1.7'; case "$*" in *--print-supported-cpus) ${archs.length > 0 ? `echo ${archs.join(' ')}` : "echo 'unable to create target nvptx64'; exit 1"};; --version) ;; *) ${compiles};; esac`,
  );

async function emulationFor(engine?: EngineWanted): Promise<Emulation> {
  const tools = new BuildTools({
    repositoryRoot: fileURLToPath(new URL('../../../..', import.meta.url)),
    dataDirectory: join(folder, 'data'),
    kernelsFolder: folder,
    artifacts: new ArtifactStore(join(folder, 'artifacts')),
    engine,
  });
  await tools.prepare();
  return tools.emulation();
}

test('a host with only g++ runs kernels on fibres and gives the reason', async () => {
  expect(await emulationFor()).toEqual({
    engine: 'fibres',
    frontEnd: undefined,
    because: 'no nvcc or clang found',
    nvccProblem: undefined,
  });
});

test('nvcc is preferred to clang', async () => {
  makeNvcc(COMPILES);
  makeClang(COMPILES);
  expect(await emulationFor()).toMatchObject({ engine: 'ptx', frontEnd: 'nvcc', because: 'nvcc 13.0.88' });
});

/**
 * Makes a toolkit without nvcc but with NVRTC. g++ makes the program that runs NVRTC; `compiles` is that program's
 * shell code.
 */
function makeNvrtc(compiles: string): void {
  const toolkit = join(folder, 'toolkit');
  for (const path of ['lib64/libnvrtc.so.13', 'include/cuda_fp16.h', 'include/crt/mma.h']) {
    mkdirSync(dirname(join(toolkit, path)), { recursive: true });
    writeFileSync(join(toolkit, path), '');
  }
  writeFileSync(join(toolkit, 'include/cuda_runtime_api.h'), '#define CUDART_VERSION  13000\n');
  const program = `case "$2" in --version) echo V13.0.88; echo sm_89;; *) ${compiles};; esac`;
  const text = `#!/bin/sh\n${program}\n`;
  makeProgram('g++', `case "$*" in *main.cpp*) printf '%s' '${text}' >nvrtc;; *) echo 'g++ 12.2.0';; esac`);
  vi.stubEnv('CUDA_HOME', toolkit);
}

test('without nvcc, NVRTC makes the PTX, even if clang is installed', async () => {
  makeNvrtc(COMPILES);
  makeClang(COMPILES);
  expect(await emulationFor()).toMatchObject({ engine: 'ptx', frontEnd: 'nvrtc', because: 'nvrtc 13.0.88' });
});

test('if NVRTC does not compile, clang is used instead', async () => {
  makeNvrtc('echo "canary.cu(1): error: no"; exit 1');
  makeClang(COMPILES);
  const found = await emulationFor();
  expect(found).toMatchObject({ engine: 'ptx', frontEnd: 'clang' });
  expect(found.because).toMatch(/^clang\+\+ 19\.1\.7; .* does not compile canary\.cu: canary\.cu\(1\): error: no$/);
});

test('fibres are used if they were requested', async () => {
  makeNvcc(COMPILES);
  expect(await emulationFor('fibres')).toMatchObject({ engine: 'fibres', because: 'by --emulator-engine' });
});

describe('if nvcc does not work, clang is used, and the reason says so', () => {
  test.each([
    ['fails', () => makeProgram('nvcc', "echo 'libcudart.so.13: not found'; exit 1"), /ended with 1: libcudart/],
    ['is too old', () => makeNvcc(COMPILES, { version: '11.5.119', codes: 'sm_80 sm_86' }), /11\.5\.119 makes no code/],
    [
      "refuses the host's compiler",
      () => makeNvcc("echo '#error -- unsupported GNU version! gcc versions later than 11 are not supported'; exit 1"),
      /nvcc does not compile canary\.cu: #error -- unsupported GNU version!/,
    ],
  ])('nvcc %s', async (_, make, why) => {
    make();
    makeClang(COMPILES);
    const found = await emulationFor();
    expect(found).toMatchObject({ engine: 'ptx', frontEnd: 'clang' });
    expect(found.because).toMatch(/^clang\+\+ 19\.1\.7; /);
    expect(found.because).toMatch(why);
    expect(found.nvccProblem).toMatch(why);
  });
});

test("kernels run on fibres if no front end works, such as an nvcc that fails and Apple's clang", async () => {
  makeProgram('nvcc', 'exit 1');
  makeClang(COMPILES, []);
  const found = await emulationFor();
  expect(found).toMatchObject({ engine: 'fibres', frontEnd: undefined });
  expect(found.because).toMatch(/^no nvcc or clang makes PTX; Repair .*nvcc.*; .*clang\+\+ makes no PTX$/);
});

test('a clang that lists the PTX target but fails is not used as a front end', async () => {
  makeClang("echo 'error: cannot find libdevice'; exit 1");
  expect((await emulationFor()).because).toMatch(
    /clang\+\+ does not compile canary\.cu: error: cannot find libdevice$/,
  );
});

test('a requested PTX engine is kept even if no compiler makes PTX, and jobs are refused with what to install', async () => {
  expect(await emulationFor('ptx')).toMatchObject({ engine: 'ptx', frontEnd: undefined });
});
