import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Toolchain } from './toolchain.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'fc-tools-'));
  vi.stubEnv('CUDA_HOME', '');
  vi.stubEnv('CUDA_PATH', '');
  vi.stubEnv('PATH', `${folder}:${process.env['PATH']}`);
});

afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

/** An nvcc that does not answer until `ready` is called. */
function makeSlowNvcc(): { ready: () => void } {
  const script = `#!/bin/sh\nwhile [ ! -e ${folder}/ready ]; do sleep 0.05; done\necho run >>${folder}/runs\ncase $1 in --version) echo 'release 13.0, V13.0.88';; *) echo sm_89; echo sm_90;; esac\n`;
  writeFileSync(join(folder, 'nvcc'), script, { mode: 0o755 });
  return { ready: () => writeFileSync(join(folder, 'ready'), '') };
}

test('a compiler that does not answer in time is reported, and is asked again later', async () => {
  const { ready } = makeSlowNvcc();
  const toolchain = new Toolchain({ limitMs: 300, failureKeptMs: 0 });
  await toolchain.askCompilers();
  expect(() => toolchain.nvcc()).toThrow(
    expect.objectContaining({
      reason: 'COMPILER_MISSING',
      message: expect.stringMatching(
        /\/nvcc --version gave no answer within 0.3 s: try again when the runner's host is less busy$/,
      ) as string,
    }),
  );
  expect(toolchain.describe().find(({ name }) => name === 'nvcc')).toMatchObject({
    archs: [],
    missing: expect.stringContaining('gave no answer') as string,
  });
  ready();
  await vi.waitFor(async () => {
    await toolchain.askCompilers();
    expect(toolchain.nvcc()).toMatchObject({
      version: '13.0.88',
      identity: 'nvcc 13.0.88',
      archs: ['sm_89', 'sm_90', 'sm_90a'],
    });
  });
});

test.each([
  ['is not executable', 'echo V13.0.88', 0o644, /ended with 126: .*[Pp]ermission denied$|can't be run \(EACCES\)$/],
  ['has lost its interpreter', '#!/nowhere/sh\n', 0o755, /ended with 127(: .*)?$/],
  ['is another program', '#!/bin/sh\necho hello\n', 0o755, /names no version: hello$/],
  [
    'fails',
    "#!/bin/sh\necho 'libcudart.so.13: cannot open shared object file'; exit 1\n",
    0o755,
    /ended with 1: libcudart/,
  ],
])('an nvcc that %s is reported with its output, and asked again once it is repaired', async (_, text, mode, why) => {
  const path = join(folder, 'nvcc');
  writeFileSync(path, text, { mode });
  const toolchain = new Toolchain({ failureKeptMs: 0 });
  await toolchain.askCompilers();
  expect(() => toolchain.nvcc()).toThrow(
    expect.objectContaining({ reason: 'COMPILER_MISSING', message: expect.stringMatching(why) as string }),
  );
  expect(() => toolchain.nvcc()).toThrow(`Repair ${path} or remove its folder from PATH: "${path} --version"`);
  makeSlowNvcc().ready();
  chmodSync(path, 0o755);
  await vi.waitFor(async () => {
    await toolchain.askCompilers();
    expect(toolchain.nvcc()?.version).toBe('13.0.88');
  });
});

test("cuobjdump's version is found in output that begins with the vendor's name", async () => {
  // The output of CUDA 13.
  const said =
    'cuobjdump: NVIDIA (R) object file dumper utility\nCopyright (c) 2005-2025 NVIDIA Corporation\nBuilt on Wed_Aug_20_13:57:03_PM_PDT_2025\nCuda compilation tools, release 13.0, V13.0.85\n';
  writeFileSync(join(folder, 'cuobjdump'), `#!/bin/sh\ncat <<'END'\n${said}END\n`, { mode: 0o755 });
  const toolchain = new Toolchain();
  await toolchain.askAll();
  expect(toolchain.describe().find(({ name }) => name === 'cuobjdump')?.version).toBe('13.0.85');
});

test('the daemon is not blocked while a tool is asked for its version', async () => {
  const { ready } = makeSlowNvcc();
  const toolchain = new Toolchain();
  const asked = toolchain.askCompilers();
  setImmediate(ready);
  await asked;
  expect(toolchain.nvcc()?.version).toBe('13.0.88');
});

/** A clang that makes PTX for these architectures; with none, it does not make PTX. */
function makeClang(name: string, version: string, archs: readonly string[]): void {
  const answer =
    archs.length > 0 ? `echo ${archs.join('; echo ')}` : "echo 'error: unable to create target nvptx64'; exit 1";
  writeFileSync(join(folder, name), `#!/bin/sh\necho 'clang version ${version}'\n${answer}\n`, { mode: 0o755 });
}

test('without a toolkit, the newest clang that makes PTX is found under any of its names', async () => {
  vi.stubEnv('CUDA_HOME', '/none');
  vi.stubEnv('PATH', folder);
  makeClang('clang++', '14.0.6', ['sm_80', 'sm_86']);
  makeClang('clang++-19', '19.1.7', ['sm_89', 'sm_90', 'sm_90a']);
  makeClang('clang++-20', '20.1.0', []);
  const toolchain = new Toolchain();
  expect(() => toolchain.clang()).toThrow(/gave no answer/);
  await toolchain.askCompilers();
  expect(toolchain.clang()).toMatchObject({ version: '19.1.7', archs: ['sm_89', 'sm_90', 'sm_90a'] });
  // clang is the C++ compiler too, because this folder has no g++.
  expect(toolchain.cxx()).toMatchObject({ name: 'clang++', version: '14.0.6' });
});
