import { create } from '@bufbuild/protobuf';
import { CaseSetSchema, KernelSchema, ShapeSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { rowText } from '../../present/cells/row.ts';
import type { FormField } from '../../state/form-field.ts';
import { formOf, type RunForm } from '../../state/run-form.ts';
import { formPane } from './form.ts';

const KERNEL = create(KernelSchema, {
  kernelId: 'k',
  parameters: [{ name: 'STAGES', values: [2n, 3n], defaultValue: 2n }],
});
const FORM = formOf(KERNEL, { kernels: [KERNEL], archs: ['sm_89'], devices: ['gpu0'], tolerances: [] });

const typed = (form: RunForm, texts: Readonly<Record<string, string>>): RunForm => ({
  ...form,
  fields: form.fields.map((field) => (field.id in texts ? { ...field, typed: texts[field.id]! } : field)),
});

const chosen = (field: FormField, choice: string): FormField => {
  const place = field.choices.indexOf(choice);
  return place < 0 ? field : { ...field, chosen: place };
};

function shown(form: RunForm, selected: string, height = 40): { remark: string | undefined; rows: string[] } {
  const at = { ...form, selected: form.fields.findIndex(({ id }) => id === selected) };
  const { body, remark } = formPane({ form: at, defaults: FORM }, { width: 90, height });
  return { remark, rows: body.map((row) => rowText(row).trimEnd()) };
}

test('every wrong field is marked, the remark names them all, and the field under the cursor gives its reason', () => {
  const wrong = typed(FORM, { shape: '9-zz', seeds: 'zz-9', samples: 'zz-9', registers: 'zz-9' });
  const { rows, remark } = shown(wrong, 'samples');
  expect(rows.filter((row) => row.startsWith('✗ ')).map((row) => row.split(/ +/)[1])).toEqual([
    'shapes',
    'seeds',
    'max',
  ]);
  expect(remark).toBe('fix shapes, seeds, samples, max registers before it can run');
  expect(rows.join('\n')).toContain('"zz-9": must be a number of samples from 1 to 1000000');
});

test('a field that takes no typed text says how to change it, and a line counts the fields that do not fit', () => {
  expect(shown(FORM, 'param:STAGES').rows.find((row) => row.startsWith('▸'))).toMatch(/1 of 2, ← → change it$/);
  expect(shown(FORM, 'kernel', 10).rows.join('\n')).toMatch(/^ ↓ \d+ more fields ─+$/m);
  expect(shown(FORM, 'kernel').rows.join('\n')).not.toContain('more field');
});

test('for a typed text that matches no kernel, the field shows "none"', () => {
  expect(shown(typed(FORM, { kernel: '1x1x64x64' }), 'kernel').rows[0]).toMatch(/← none → +\/1x1x64x64█ 0 match/);
});

test('a name that no case of the problem has is refused with the nearest one, or with what is expected', () => {
  const of = (text: string, names: readonly string[] = ['Llama 8B', 'Llama 70B']): string => {
    const sets = [{ name: 'models', shapes: ['', ...names].map((name) => create(ShapeSchema, { batch: 1, name })) }];
    const form = formOf(KERNEL, {
      ...{ kernels: [KERNEL], archs: ['sm_89'], devices: ['gpu0'], tolerances: [] },
      caseSets: sets.map((set) => create(CaseSetSchema, set)),
    });
    return shown(typed(form, { shape: text }), 'shape')
      .rows.join(' ')
      .replaceAll(/ +/g, ' ');
  };
  expect(of('foo')).toContain(
    `"foo": must be a shape such as 1x4x128x64 or a case's name; cases are named "Llama 8B", "Llama 70B"`,
  );
  expect(of('lama 8B')).toContain('(did you mean "Llama 8B"?)');
  expect(of('foo', [])).toContain(`or a case's name; no case has a name`);
  expect(of('Llama 70B, 1x1x64x64')).toContain('In a shell: fa-tui run');
  // Without the runner's cases, only the runner knows their names.
  expect(shown(typed(FORM, { shape: 'foo' }), 'shape').rows.join(' ')).toContain('In a shell: fa-tui run');
});

test('fields that a command does not take share one row, and every other field has its own', () => {
  const bench = { ...FORM, fields: FORM.fields.map((field) => chosen(field, field.id === 'phases' ? 'bench' : '')) };
  const { rows } = shown(bench, 'phases');
  const rule = rows.findIndex((row) => row.startsWith('─'));
  expect(rows.slice(0, rule).map((row) => row.slice(2, 18).trim())).toEqual([
    ...['kernel', 'phases', 'STAGES', 'shapes', 'seconds', 'samples', 'arch', 'max registers', 'fast math', 'champion'],
    'not used by benc',
  ]);
  expect(rows[rule - 1]).toBe('  not used by bench: seeds, sanitizer, metric set');
});

test.each([14, 18, 40])(
  'in %i rows the form keeps its height and its fields their rows while the cursor moves',
  (height) => {
    const looks = FORM.fields.map(({ id }) => {
      const { rows } = shown(FORM, id, height);
      return [rows.length, rows.findIndex((row) => /^(?:─| ↓)/.test(row))].join(' ');
    });
    expect(new Set(looks).size).toBe(1);
    expect(looks[0]).toBe({ 14: '14 10', 18: '17 13', 40: '17 13' }[height]);
  },
);
