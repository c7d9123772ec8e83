/**
 * Drafts a kernel folder from PTX that another compiler made: facts that the code contains are filled in, the rest is
 * marked.
 */
import { posix } from 'node:path';
import { FlashcoreError } from '../contract/errors.ts';
import type { Problem } from '../problems/problem.ts';
import { DEFAULT_PROBLEM, installedProblem } from '../problems/installed-problems.ts';
import { MANIFEST_FILE } from './manifest.ts';

/** Marks values that only the kernel's author knows. */
export const TO_FILL_IN = '# TODO';

interface PtxEntry {
  readonly name: string;
  readonly parameters: readonly PtxParameter[];
  /** Threads of a CTA; undefined if the code does not specify them. */
  readonly block: readonly string[] | undefined;
}

interface PtxParameter {
  readonly kind: 'pointer' | 'integer' | 'float' | 'structure';
  readonly type: string;
}

export interface DraftOptions {
  readonly id: string;
  /** Name of the PTX file in the new folder. */
  readonly source: string;
  readonly problem?: string | undefined;
}

/**
 * Drafts a kernel.yaml for PTX. Entry, block, architecture and the number and kinds of arguments come from the code.
 * Pointers are assumed to be the problem's tensors in its order. Errors: INVALID_REQUEST for a text without an entry.
 */
function draftOfPtx(ptx: string, { id, source, problem = DEFAULT_PROBLEM }: DraftOptions): string {
  const code = ptx.replaceAll(/\/\/[^\n]*/g, '');
  const [entry, ...others] = entriesOf(code);
  if (!entry)
    throw new FlashcoreError(
      'INVALID_REQUEST',
      { path: source },
      `${source}: must have a .visible .entry, and has none`,
    );
  const target = /\.target[ \t]{1,20}(sm_\d{2,3}[af]?)/.exec(code)?.[1] ?? 'sm_80';
  const isDynamic = /\.extern[^;]{0,200}\.shared\b/.test(code);
  return `${[
    `id: ${id}`,
    `title: PTX of another compiler ${TO_FILL_IN}: what it is, in a few words`,
    `lesson: nothing yet ${TO_FILL_IN}: what it teaches`,
    ...(problem === DEFAULT_PROBLEM ? [] : [`problem: ${problem}`]),
    `source: ${source}`,
    `${/[af]$/.test(target) ? 'arch' : 'min_arch'}: ${target}`,
    `math: { inputs: fp16, accumulate: fp32 } ${TO_FILL_IN}: what the code does`,
    'launches:',
    `  - entry: ${entry.name}`,
    ...(others.length > 0
      ? [`    # The file has other entries, too: ${others.map(({ name }) => name).join(', ')}`]
      : []),
    `    grid: [1, 1, 1] ${TO_FILL_IN}: how many CTAs, for example ["ceil(S / 64)", "B * H", 1]`,
    entry.block
      ? `    block: [${entry.block.join(', ')}]`
      : `    block: [128, 1, 1] ${TO_FILL_IN}: threads of a CTA, which the code does not say`,
    ...(isDynamic ? [`    shared_bytes: 0 ${TO_FILL_IN}: the code takes dynamic shared memory`] : []),
    '    arguments:',
    ...argumentsOf(entry, installedProblem(problem)),
    `toggle: "compiled by another compiler, which has no switch for tensor cores"`,
  ].join('\n')}\n`;
}

/** Files from which the PTX was compiled, as its `.file` directives name them. */
export const originalsOfPtx = (ptx: string): string[] => [
  ...new Set(
    [...ptx.matchAll(/^[ \t]{0,20}\.file[ \t]{1,20}\d{1,9}[ \t]{1,20}"([^"\n]{1,4096})"/gm)].map(([, path]) =>
      posix.basename(path!),
    ),
  ),
];

/** The files of the new folder: the manifest and the PTX. */
export const draftFiles = (ptx: string, options: DraftOptions): Record<string, string> => ({
  [MANIFEST_FILE]: draftOfPtx(ptx, options),
  [options.source]: ptx,
});

function entriesOf(code: string): PtxEntry[] {
  const found = code.matchAll(/\.visible\s{1,20}\.entry\s{1,20}([\w$]{1,4096})\s{0,20}\(([^()]*)\)([^{;]*)\{/g);
  return [...found].map(([, name = '', parameters = '', directives = '']) => ({
    name,
    parameters: parameters.split(',').flatMap((text) => (text.includes('.param') ? parameterOf(text) : [])),
    block: blockOf(directives),
  }));
}

function parameterOf(text: string): PtxParameter {
  const type = /\.(?:[usfb](?:8|16|32|64)|f16x2)\b/.exec(text)?.[0] ?? '.b8';
  if (text.includes('[')) return { kind: 'structure', type: /\[\d{1,9}\]/.exec(text)?.[0] ?? '[]' };
  if (text.includes('.ptr') || /64$/.test(type)) return { kind: type === '.f64' ? 'float' : 'pointer', type };
  return { kind: type.startsWith('.f') ? 'float' : 'integer', type };
}

function blockOf(directives: string): string[] | undefined {
  const given = /\.(?:reqntid|maxntid)\s{1,20}([\d\s,]{1,60})/.exec(directives)?.[1];
  const extents = given?.split(',').map((extent) => extent.trim()) ?? [];
  return extents.length === 0 ? undefined : [...extents, '1', '1'].slice(0, 3);
}

function argumentsOf({ parameters }: PtxEntry, { tensors, attributes }: Problem): string[] {
  const left = tensors.filter(({ optional, when }) => !optional && !when).map(({ name }) => name);
  const computed = attributes.filter(({ value }) => value !== undefined).map(({ name }) => name);
  return parameters.map(({ kind, type }, index) => {
    const about = `${TO_FILL_IN}: parameter ${index + 1}, ${kind} ${type}`;
    switch (kind) {
      case 'pointer': {
        const tensor = left.shift();
        return tensor === undefined
          ? `      - null ${about}; a null pointer, a workspace, or { int64: expression }`
          : `      - ${tensor} ${about}`;
      }
      case 'float':
        return `      - ${computed.shift() ?? '{ float32: 0 }'} ${about}`;
      case 'integer':
        return `      - { int32: 0 } ${about}; an axis, an attribute such as causal, or { int32: expression }`;
      case 'structure':
        return `      - { struct: { bytes: ${type.slice(1, -1)}, fields: {} } } ${about}; name: { at: 0, value: Q } for each field`;
    }
  });
}
