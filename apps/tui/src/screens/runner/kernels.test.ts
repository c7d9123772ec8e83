import { create } from '@bufbuild/protobuf';
import { KernelSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { rowText } from '../../present/cells/row.ts';
import { initialState } from '../../state/app-state.ts';
import { LogBuffer } from '../../state/log-buffer.ts';
import { kernelsView } from './kernels.ts';

function detailOf(notes: string): string {
  const runner = { label: '', embedded: true };
  const state = {
    ...initialState({ runner, columns: 80, rows: 60, now: 0 }),
    kernels: [create(KernelSchema, { kernelId: 'my_attn', title: 'Mine', notes })],
    hasKernels: true,
  };
  const { body } = kernelsView({ state, log: new LogBuffer(1), search: undefined }, { width: 76, height: 56 });
  return body.map((row) => rowText(row).trimEnd()).join('\n');
}

test('short notes are shown in full, and of long notes only the headings', () => {
  expect(detailOf('# my_attn\n\nPadding: 3 % slower.')).toMatch(/# my_attn\n\nPadding: 3 % slower\./);
  const section = (title: string): string => `## ${title}\n\n${'A line.\n'.repeat(12)}`;
  expect(detailOf(`# my_attn\n\n${section('What helped')}\n${section('What did not')}`)).toMatch(
    /\nNOTES\.md {2}31 lines, o opens them\n {2}What helped\n {2}What did not$/,
  );
});
