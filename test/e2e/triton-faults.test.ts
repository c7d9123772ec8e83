/**
 * Mistakes in Triton kernels are found at their line of the Python. The PTX was made by Triton beforehand, so this test
 * needs no Triton.
 */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { FindingKind } from '@flashcore/shared/contract';
import { edited, inFull, missing, unpackedFolder } from '@flashcore/shared/testing';
import { Home, ROOT } from '../support/home.ts';

const FOLDER = unpackedFolder(join(ROOT, 'test/fixtures/triton'));
const ATTENTION = join(ROOT, 'examples/kernels/triton_attention');
const noPtx = missing('nvcc') && missing('clang');

type Edit = [string, string];
interface Fault {
  kernel: 'softmax' | 'matmul' | 'attention';
  /** An edit of the Python, compiled to a file of the fault's name. */
  python?: Edit;
  /** A second edit of the Python. */
  also?: Edit;
  /** An edit of the correct kernel's PTX. */
  ptx?: Edit;
  /** Bytes of shared memory that the launch gives, instead of those that Triton's metadata has. */
  shared_bytes?: number;
  shape: string | Record<string, number>;
  finding: string;
  /** A part of the line that the finding must name. */
  line: string;
}
interface TritonManifest {
  parameters: Record<string, { default: number }>;
  constants: Record<string, number>;
  launches: [{ arguments: unknown[] }];
}

const FAULTS = parse(readFileSync(join(FOLDER, 'faults.yaml'), 'utf8')) as Record<string, Fault>;

const home = new Home();
afterAll(() => home[Symbol.asyncDispose]());

const read = (...path: string[]): string => readFileSync(join(...path), 'utf8');
const sharedBytes = (ptx: string): number => Number(/^\/\/ flashcore: (\d+) bytes/.exec(ptx)![1]);

/**
 * The kernel's manifest with its PTX as the source: parameters become constants, and the launch follows Triton's
 * metadata.
 */
function manifestOf(
  kernel: string,
  { shared_bytes = sharedBytes(read(FOLDER, `${kernel}.ptx`)) }: Partial<Fault>,
): string {
  const { language, parameters, constants, launches, ...rest } = parse(
    read(FOLDER, kernel, 'kernel.yaml'),
  ) as TritonManifest & { language: string };
  expect(language).toBe('triton');
  const defaults = Object.entries(parameters).map(([name, parameter]) => [name, parameter.default] as const);
  const launch = { ...launches[0], shared_bytes, arguments: [...launches[0].arguments, null, null] };
  // JSON is YAML.
  return JSON.stringify({
    ...rest,
    source: 'kernel.ptx',
    constants: { ...constants, ...Object.fromEntries(defaults) },
    launches: [launch],
  });
}

/** A kernel folder with the fault, and the text of its Python. */
function folderWith(name: string, fault: Partial<Fault> & Pick<Fault, 'kernel'>): { folder: string; python: string } {
  const folder = join(home.path, name);
  const change = (text: string): string => (fault.ptx ? edited(text, ...fault.ptx) : text);
  if (fault.kernel === 'attention') {
    cpSync(ATTENTION, folder, { recursive: true });
    writeFileSync(join(folder, 'attention.ptx'), change(read(ATTENTION, 'attention.ptx')));
    return { folder, python: read(ATTENTION, 'attention.py') };
  }
  mkdirSync(folder);
  const edits = [fault.python, fault.also].filter((edit) => edit !== undefined);
  const python = edits.reduce((text, edit) => edited(text, ...edit), read(FOLDER, fault.kernel, 'kernel.py'));
  writeFileSync(join(folder, 'kernel.py'), python);
  writeFileSync(join(folder, 'kernel.ptx'), change(read(FOLDER, `${fault.python ? name : fault.kernel}.ptx`)));
  writeFileSync(join(folder, 'kernel.yaml'), manifestOf(fault.kernel, fault));
  return { folder, python };
}

const shapeText = (shape: Fault['shape']): string =>
  typeof shape === 'string'
    ? shape
    : Object.entries(shape)
        .map(([axis, extent]) => `${axis}=${extent}`)
        .join(',');

test.skipIf(noPtx).each(['softmax', 'matmul'] as const)(
  'the correct kernel %s, which the faulty kernels are edits of, passes',
  (kernel) => {
    const { folder } = folderWith(`correct_${kernel}`, { kernel });
    for (const { shape } of Object.values(FAULTS).filter((fault) => fault.kernel === kernel)) {
      const { exitCode, stderr } = home.faTui(['verify', folder, '--seeds', '1', '--shape', shapeText(shape)]);
      expect(exitCode, stderr).toBe(0);
    }
  },
);

const tried = inFull(Object.entries(FAULTS), ([name]) => ['missing_barrier', 'wrong_stride'].includes(name));
test.skipIf(noPtx).each(tried)('%s is found, at its line of the Python', (name, fault) => {
  const { folder, python } = folderWith(name, fault);
  const { response, exitCode, stderr } = home.runJson([
    'verify',
    folder,
    '--seeds',
    '1',
    '--shape',
    shapeText(fault.shape),
  ]);
  const finding = response.result!.variants[0]!.findings[0]!;
  const lines = python.split('\n');
  expect(
    [exitCode, FindingKind[finding.kind], finding.location!.file, lines[finding.location!.line - 1]],
    stderr,
  ).toEqual([1, fault.finding, expect.stringMatching(/\.py$/), expect.stringContaining(fault.line)]);
});
