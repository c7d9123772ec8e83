import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { cudaVersionIn, findNvrtc } from './nvrtc-place.ts';

let root: string;
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'fc-nvrtc-')));
});
afterEach(() => rmSync(root, { recursive: true }));

function have(...paths: string[]): void {
  for (const path of paths) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), path.endsWith('cuda_runtime_api.h') ? '#define CUDART_VERSION  13020\n' : '');
  }
}
const headersIn = (folder: string): string[] =>
  ['cuda_fp16.h', 'cuda_runtime_api.h', 'crt/mma.h'].map((name) => `${folder}/${name}`);

test('if a toolkit is named, no other place is searched', () => {
  have('cuda/lib64/libnvrtc.so.13', ...headersIn('cuda/include'), 'cuda/include/cccl/nv/target');
  have('site/nvidia/cu13/lib/libnvrtc.so.13', ...headersIn('site/nvidia/cu13/include'));
  const sitePackages = [join(root, 'site')];
  expect(findNvrtc({ toolkits: [join(root, 'cuda')], sitePackages })).toEqual({
    libraries: join(root, 'cuda/lib64'),
    includes: [join(root, 'cuda/include'), join(root, 'cuda/include/cccl')],
  });
  expect(findNvrtc({ toolkits: [join(root, 'none')], sitePackages, loaderPath: join(root, 'cuda/lib64') })).toBe(
    undefined,
  );
});

test("finds a Python's wheels: CUDA 13's in one folder, older ones in separate folders", () => {
  have('new/nvidia/cu13/lib/libnvrtc.so.13', ...headersIn('new/nvidia/cu13/include'));
  have('old/nvidia/cuda_nvrtc/lib/libnvrtc.so.12', ...headersIn('old/nvidia/cuda_runtime/include'));
  expect(findNvrtc({ toolkits: [], sitePackages: [join(root, 'new')] })?.libraries).toBe(
    join(root, 'new/nvidia/cu13/lib'),
  );
  expect(findNvrtc({ toolkits: [], sitePackages: [join(root, 'old')] })).toEqual({
    libraries: join(root, 'old/nvidia/cuda_nvrtc/lib'),
    includes: [join(root, 'old/nvidia/cuda_runtime/include')],
  });
});

test("finds nothing without the library or without CUDA's headers, and NVRTC's other libraries are not enough", () => {
  have(...headersIn('cuda/include'), 'cuda/lib64/libnvrtc-builtins.so.13.0', 'cuda/lib64/libnvrtc.alt.so.13');
  expect(findNvrtc({ toolkits: [join(root, 'cuda')], sitePackages: [] })).toBe(undefined);
  have('bare/lib64/libnvrtc.so', 'bare/include/cuda_fp16.h', 'bare/include/cuda_runtime_api.h');
  expect(findNvrtc({ toolkits: [join(root, 'bare')], sitePackages: [] })).toBe(undefined);
});

test("reads the version of CUDA's headers", () => {
  have(...headersIn('include'));
  expect(cudaVersionIn(join(root, 'include'))).toBe('13.2');
});
