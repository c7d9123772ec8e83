import { create } from '@bufbuild/protobuf';
import {
  CaseSetSchema,
  GatePlanSchema,
  HostSchema,
  KernelSchema,
  TimingMode,
  ToleranceSchema,
} from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { commandLineOf } from './form-command.ts';
import { formProblem } from './form-problem.ts';
import { usualOf } from './form-usual.ts';
import { formRequest } from '../session/form-request.ts';
import { valueOf } from './form-field.ts';
import { formOf, withKernel, withKeys, withTyping, type RunForm } from './run-form.ts';

const KERNEL = create(KernelSchema, {
  kernelId: 'k',
  configs: ['big'],
  parameters: [
    { name: 'USE_WMMA', values: [1n, 0n], defaultValue: 0n, about: 'tensor cores' },
    { name: 'FIXED', values: [64n], defaultValue: 64n },
  ],
});
const OTHER = create(KernelSchema, {
  kernelId: 'other',
  parameters: [{ name: 'STAGES', values: [2n, 3n], defaultValue: 2n }],
});
const TOLERANCES = ['parity', 'strict', 'loose'].map((profile) => create(ToleranceSchema, { profile, absolute: 0.01 }));
const CONTEXT = {
  kernels: [KERNEL, OTHER],
  archs: ['sm_80', 'sm_89'],
  devices: ['gpu0'],
  tolerances: TOLERANCES,
};
const FORM = formOf(KERNEL, CONTEXT);

const press = (form: RunForm, id: string, change: number): RunForm =>
  withKeys({ ...form, selected: form.fields.findIndex((field) => field.id === id) }, { change });

test('fields follow from the manifest and the compiler, and a parameter with a single value has no field', () => {
  expect(FORM.fields.map(({ id, choices, chosen }) => [id, choices[chosen]])).toEqual([
    ['kernel', 'k'],
    ['phases', 'all'],
    ['config', 'as usual'],
    ['param:USE_WMMA', '0'],
    ['shape', 'as usual'],
    ['seeds', 'as usual'],
    ['tolerance', 'as usual'],
    ['seconds', 'as usual'],
    ['samples', 'as usual'],
    ['arch', 'as usual'],
    ['registers', 'as usual'],
    ['fast-math', 'as usual'],
    ['sanitizer', 'off'],
    ['metrics', 'as usual'],
    ['champion', 'as usual'],
  ]);
});

test('an unchanged form requests only the kernel', () => {
  expect(formRequest(FORM, FORM)).toEqual({
    method: 'runExperiment',
    request: {
      kernel: { source: { case: 'kernelId', value: 'k' } },
      variant: { parameters: {}, config: '', arch: '' },
      verify: { shapes: [], seedCount: 0 },
      benchmark: { shapes: [] },
    },
  });
});

test('the request has the chosen values, and the choices wrap around at their ends', () => {
  const form = [
    ['config', 1],
    ['param:USE_WMMA', -1],
    ['shape', 1],
    ['seeds', 1],
    ['tolerance', 1],
    ['seconds', 1],
    ['samples', 1],
    ['arch', -1],
    ['registers', 2],
    ['fast-math', 1],
    ['sanitizer', 1],
    ['metrics', 2],
    ['champion', 3],
  ].reduce((before, [id, change]) => press(before, id as string, change as number), FORM);
  const shape = parseShape('1x4x128x64');
  const kernel = { source: { case: 'kernelId', value: 'k' } };
  const variant = { parameters: { USE_WMMA: 1n }, config: 'big', arch: 'sm_89', maxRegisters: 64, fastMath: true };
  const verify = { shapes: [shape], seedCount: 1, tolerance: { profile: 'strict' }, sanitize: true };
  const benchmark = {
    shapes: [shape],
    protocol: { maxSeconds: 0.2, minSamples: 10, maxSamples: 10 },
    champion: { kernel: { source: { case: 'kernelId', value: 'other' } } },
  };
  const profile = { shape, metricSet: 'roofline' };
  const phases = (change: number) => formRequest(press(form, 'phases', change), FORM);
  expect([0, 1, 2, 3, 4].map(phases)).toEqual([
    { method: 'runExperiment', request: { kernel, variant, verify, benchmark, profile } },
    { method: 'build', request: { kernel, variant } },
    { method: 'verify', request: { kernel, variant, settings: verify } },
    { method: 'benchmark', request: { kernel, variant, settings: benchmark } },
    { method: 'profile', request: { kernel, variant, settings: profile } },
  ]);
  expect(withKeys(withKeys(FORM, { by: -3 }), { by: 99 }).selected).toBe(FORM.fields.length - 1);
});

const PLANS = [
  create(GatePlanSchema, {
    name: 'merge',
    title: 'May be merged',
    about: 'correct and no slower',
    cases: 'parity',
    shapes: 'canonical',
    modes: [TimingMode.HOT],
    metricSet: 'none',
    champion: true,
    gates: [
      { gateId: 'correctness', level: 'hard' },
      { gateId: 'tail', level: 'warn' },
    ],
  }),
  create(GatePlanSchema, { name: 'explore', title: 'Is it right', cases: 'parity', shapes: 'none', metricSet: 'none' }),
];

test('the plan is chosen by its title and shows its measurements and gates; the form can also choose no champion', () => {
  const context = { ...CONTEXT, plans: PLANS, caseSets: [create(CaseSetSchema, { name: 'parity', shapes: [{}, {}] })] };
  const form = formOf(KERNEL, context);
  const plan = form.fields.find(({ id }) => id === 'plan')!;
  expect([plan.choices, plan.aboutChoices]).toEqual([
    ['merge', 'explore'],
    [
      'May be merged: correct and no slower. verifies parity (2 shapes), times canonical hot, reads no counters, compares with the champion. hard gate: correctness; 1 other only warns',
      'Is it right. verifies parity (2 shapes), times nothing, reads no counters, compares with no champion. no hard gate',
    ],
  ]);
  expect(formRequest(form, form).request).not.toHaveProperty('plan');
  const chosen = press(press(form, 'champion', 1), 'plan', 1);
  expect(formRequest(chosen, form)).toMatchObject({
    method: 'runExperiment',
    request: { plan: 'explore', noChampion: true },
  });
  expect(formRequest(chosen, form).request).not.toHaveProperty('benchmark.champion');
});

test('a case set is chosen by name and lists its shapes; typed shapes are then timed but not verified', () => {
  const caseSets = [
    create(CaseSetSchema, { name: 'parity', shapes: [parseShape('1x4x128x64')] }),
    create(CaseSetSchema, { name: 'odd', shapes: Array.from({ length: 12 }, () => parseShape('1x1x63x64c')) }),
  ];
  const form = formOf(KERNEL, { ...CONTEXT, caseSets });
  const cases = form.fields.find(({ id }) => id === 'cases')!;
  expect([cases.choices, cases.aboutChoices?.slice(1)]).toEqual([
    ['as usual', 'parity', 'odd'],
    ['1 shape to verify: 1x4x128x64', expect.stringMatching(/^12 shapes to verify: (1x1x63x64c ){9}…$/)],
  ]);
  expect(formRequest(press(form, 'cases', 2), form).request).toMatchObject({ verify: { caseSet: 'odd' } });
  const both = formRequest(press(typed('shape', '2x8x512x64', form), 'cases', 1), form);
  expect(both.request).toMatchObject({ verify: { caseSet: 'parity' }, benchmark: { shapes: [{ batch: 2 }] } });
  expect(both.request).not.toHaveProperty('verify.shapes');
});

const typed = (id: string, text: string, form = FORM): RunForm =>
  Array.from(text).reduce(withTyping, {
    ...form,
    selected: form.fields.findIndex((field) => field.id === id),
  });

test('shapes and seeds can be typed; a choice replaces the typed text, Backspace deletes a character', () => {
  const form = typed('seeds', '17', typed('shape', '2x8x512x64c, 1x1x65x64'));
  expect(formRequest(form, FORM).request).toMatchObject({
    verify: { shapes: [{ batch: 2, causal: true }, { sequenceLength: 65 }], seedCount: 17 },
    benchmark: { shapes: [{}, {}] },
  });
  expect(valueOf(withKeys(form, { change: 1 }).fields[form.selected]!)).toBe('1');
  expect(valueOf(withTyping(form, 'backspace').fields[form.selected]!)).toBe('1');
  expect(typed('metrics', 'x')).toEqual({ ...FORM, selected: FORM.fields.findIndex(({ id }) => id === 'metrics') });
  expect(formProblem(typed('arch', 'sm_8'))?.text).toBe('"sm_8": must be one of sm_80, sm_89');
  expect(formProblem(typed('arch', 'sm_89'))).toBeUndefined();
  expect(commandLineOf(typed('arch', 'sm_89'), FORM)).toBe('fa-tui run k --arch sm_89');
});

test('the typed text is edited at the cursor; a key that only moves it leaves the choice', () => {
  const keys = (form: RunForm, ...pressed: string[]): RunForm => pressed.reduce(withTyping, form);
  const form = keys(typed('seeds', '17'), 'left', '4');
  expect(valueOf(form.fields[form.selected]!)).toBe('147');
  const two = { ...FORM, selected: FORM.fields.findIndex(({ id }) => id === 'kernel') };
  const chosen = {
    ...two,
    fields: two.fields.map((field) => (field.id === 'kernel' ? { ...field, chosen: 1 } : field)),
  };
  expect(keys(chosen, 'home', 'left').fields[two.selected]).toMatchObject({ chosen: 1, typed: '' });
});

test.each([
  ['shape', '2x8x512', /must be such as 2x8x512x64/],
  ['shape', '0x8x512x64', /./],
  ['shape', Array.from({ length: 17 }, () => '1x1x64x64').join(','), /17 shapes: must be at most 16/],
  ['shape', '1x1x64x65', /k cannot run 1x1x64x65: it requires D <= 64, because rows are of 64/],
  ['seeds', '0', /"0": must be .* from 1 to 100/],
  ['seeds', 'ten', /"ten": must be/],
  ['samples', '0', /"0": must be a number of samples from 1 to 1000000/],
  ['registers', '12', /"12": must be .*registers of a thread from 16 to 255/],
  ['kernel', 'nosuch', /No kernel's name contains "nosuch"/],
])('%s "%s" is refused with the reason', (id, text, reason) => {
  const limited = formOf(
    create(KernelSchema, {
      kernelId: 'k',
      limits: [
        { require: 'D <= 64', because: 'rows are of 64' },
        { require: 'S % TILE == 0', because: 'a constant that only the runner knows' },
      ],
    }),
    CONTEXT,
  );
  const problem = formProblem(typed(id, text, limited));
  expect(problem?.text).toMatch(reason);
  expect(limited.fields[problem!.index]?.id).toBe(id);
  expect(formProblem(limited)).toBeUndefined();
});

test('a field left to the runner shows the value that a run uses under the chosen plan', () => {
  const plans = [
    create(GatePlanSchema, { name: 'merge', cases: 'parity', shapes: 'canonical', metricSet: 'gates', champion: true }),
    create(GatePlanSchema, { name: 'explore', cases: 'quick', shapes: 'none', metricSet: 'none' }),
  ];
  const host = create(HostSchema, { devices: [{ deviceId: 'emulator', arch: 'sm_89', simulated: true }] });
  const form = formOf(KERNEL, { ...CONTEXT, plans, host });
  const usual = (of: RunForm): Record<string, string | undefined> =>
    Object.fromEntries(
      of.fields.filter((field) => field.usual !== undefined).map((field) => [field.id, usualOf(of, field)]),
    );
  expect(usual(form)).toEqual({
    config: 'none',
    shape: 'verify parity, time canonical',
    seeds: '5',
    tolerance: 'parity',
    seconds: '0.3',
    samples: '100 to 2,000',
    arch: 'sm_89',
    registers: 'as in kernel.yaml',
    'fast-math': 'as in kernel.yaml',
    metrics: 'gates',
    champion: "the device's",
  });
  const phases = (times: number) => usual(press(form, 'phases', times))['shape'];
  // Only the experiment verifies some shapes and times others.
  // What bench times depends on the device, and profile's default does not.
  expect([phases(2), phases(3), phases(4)]).toEqual(['parity', 'emulated', 'canonical']);
  expect(usual(press(form, 'plan', 1))).toMatchObject({ shape: 'quick', metrics: 'none', champion: 'none' });
});

test('the command line has the fields that differ from their defaults and that the command takes', () => {
  expect(commandLineOf(FORM, FORM)).toBe('fa-tui run k');
  const own = formOf({ ...KERNEL, folder: "/home/ada/it's mine" }, CONTEXT);
  const changed = ['seeds', 'param:USE_WMMA', 'fast-math', 'champion'].reduce(
    (form, id) => press(form, id, 1),
    typed('shape', '1x1x64x64, 2x8x512x64c', own),
  );
  expect(commandLineOf(changed, own)).toBe(
    `fa-tui run '/home/ada/it'\\''s mine' --set USE_WMMA=1 --shape 1x1x64x64 --shape 2x8x512x64c --seeds 1 --fast-math --no-champion`,
  );
  // Fast math is on unless kernel.yaml turns it off, so off is a separate choice.
  const without = press(FORM, 'fast-math', -1);
  expect(commandLineOf(without, FORM)).toBe('fa-tui run k --no-fast-math');
  expect(formRequest(without, FORM).request).toMatchObject({ variant: { fastMath: false } });
  expect(commandLineOf(press(changed, 'phases', 1), own)).toBe(
    `fa-tui build '/home/ada/it'\\''s mine' --set USE_WMMA=1 --fast-math`,
  );
});

test('tune searches all values, or only the chosen value of a changed parameter; a kernel without choices has no tune', () => {
  const searching = press(FORM, 'phases', -1);
  expect([formRequest(searching, FORM), commandLineOf(searching, FORM)]).toEqual([
    {
      method: 'tune',
      request: { kernel: { source: { case: 'kernelId', value: 'k' } }, shapes: [], seed: 1, parameters: [] },
    },
    'fa-tui tune k',
  ]);
  const two = create(KernelSchema, {
    kernelId: 'k',
    parameters: [
      { name: 'USE_WMMA', values: [1n, 0n], defaultValue: 0n },
      { name: 'STAGES', values: [2n, 3n], defaultValue: 2n },
    ],
  });
  const usual = formOf(two, CONTEXT);
  const fixed = press(press(press(typed('shape', '1x1x64x64', usual), 'seeds', 1), 'param:STAGES', 1), 'phases', -1);
  expect(formRequest(fixed, usual).request).toMatchObject({
    shapes: [{ sequenceLength: 64 }],
    parameters: [
      { name: 'USE_WMMA', values: [1n, 0n] },
      { name: 'STAGES', values: [3n] },
    ],
  });
  expect(commandLineOf(fixed, usual)).toBe('fa-tui tune k --set USE_WMMA=1,0 --set STAGES=3 --shape 1x1x64x64');
  const withTensors = create(KernelSchema, {
    kernelId: 'k',
    parameters: [
      { name: 'STAGES', values: [2n, 3n], defaultValue: 2n },
      { name: 'PAD', values: [4n, 8n], defaultValue: 4n },
      { name: 'BF16', values: [0n, 1n], defaultValue: 0n, decidesTensors: true },
    ],
  });
  const typedTensors = formOf(withTensors, CONTEXT);
  const kept = press(press(typedTensors, 'param:STAGES', 1), 'phases', -1);
  expect(commandLineOf(kept, typedTensors)).toBe('fa-tui tune k --set STAGES=3 --set PAD=4,8 --set BF16=0');
  const none = formOf(create(KernelSchema, { kernelId: 'none' }), CONTEXT);
  expect(none.fields.find(({ id }) => id === 'phases')?.choices).not.toContain('tune');
});

test('another kernel brings its own parameters and keeps the other fields', () => {
  const form = withKernel(typed('shape', '1x1x64x64'), OTHER, CONTEXT);
  expect(form.fields.map((field) => [field.id, valueOf(field)])).toEqual([
    ['kernel', 'other'],
    ['phases', 'all'],
    ['param:STAGES', '2'],
    ['shape', '1x1x64x64'],
    ['seeds', 'as usual'],
    ['tolerance', 'as usual'],
    ['seconds', 'as usual'],
    ['samples', 'as usual'],
    ['arch', 'as usual'],
    ['registers', 'as usual'],
    ['fast-math', 'as usual'],
    ['sanitizer', 'off'],
    ['metrics', 'as usual'],
    ['champion', 'as usual'],
  ]);
});

test('typing selects the first kernel whose name contains the text, and arrows move among the kernels that match', () => {
  const many = ['fa_v1_baseline', 'fa_v2_wmma', 'flashcore_v6', 'fa_s512_v3_wmma'].map((kernelId) =>
    create(KernelSchema, { kernelId }),
  );
  const form = formOf(many[0]!, { kernels: many, archs: [], devices: [] });
  const found = typed('kernel', 'WMMA', form);
  const chosen = (of: RunForm): string => valueOf(of.fields[0]!);
  expect([chosen(found), chosen(withKeys(found, { change: 1 })), chosen(withKeys(found, { change: -1 }))]).toEqual([
    'fa_v2_wmma',
    'fa_s512_v3_wmma',
    'fa_s512_v3_wmma',
  ]);
  expect(formProblem(found)).toBeUndefined();
});

const H100_KERNEL = create(KernelSchema, {
  kernelId: 'hopper',
  minArch: 'sm_90a',
  needsPtxEngine: true,
  parameters: [{ name: 'SMS', values: [132n, 114n, 78n], defaultValue: 132n, ofDevice: 'multiprocessors' }],
});

test.each([
  [{ arch: 'sm_89', multiprocessors: 58, simulated: true }, '78', 'sm_90a'],
  [{ arch: 'sm_90', multiprocessors: 132, simulated: false }, '132', 'sm_90a'],
  [{ arch: 'sm_90', multiprocessors: 114, simulated: false }, '114', 'sm_90a'],
  [{ arch: 'sm_89', multiprocessors: 142, simulated: false }, '132', 'sm_89'],
])('the defaults of a form are those of a run on %o', (device, sms, arch) => {
  const form = formOf(H100_KERNEL, { ...CONTEXT, host: create(HostSchema, { devices: [device] }) });
  const field = (id: string) => form.fields.find((each) => each.id === id)!;
  expect([valueOf(field('param:SMS')), usualOf(form, field('arch'))]).toEqual([sms, arch]);
});

test('a value other than the default of the device is requested, even if it is the default of the manifest', () => {
  const device = { arch: 'sm_89', multiprocessors: 58, simulated: true };
  const form = formOf(H100_KERNEL, { ...CONTEXT, host: create(HostSchema, { devices: [device] }) });
  expect(commandLineOf(form, form)).toBe('fa-tui run hopper');
  expect(commandLineOf(press(form, 'param:SMS', 1), form)).toBe('fa-tui run hopper --set SMS=132');
});

test('the form of a kernel of another problem has the cases of its definition, by name', () => {
  const shapes = [parseShape('rows=3,N=257'), { ...parseShape('rows=33,N=4096'), name: 'Llama-3 8B 33 tokens' }];
  const problems = [{ id: 'rmsnorm', sets: { parity: shapes, quick: [shapes[0]!] }, kernels: [] }];
  const kernel = create(KernelSchema, { kernelId: 'norm', problem: 'rmsnorm' });
  const caseSets = [create(CaseSetSchema, { name: 'canonical', shapes: [parseShape('2x8x512x64')] })];
  const form = formOf(kernel, { ...CONTEXT, kernels: [...CONTEXT.kernels, kernel], caseSets, problems });
  const choices = (id: string) => form.fields.find((field) => field.id === id)?.choices;
  expect([choices('shape'), choices('cases'), choices('champion')]).toEqual([
    ['as usual', 'Llama-3 8B 33 tokens', 'N=257,rows=3'],
    ['as usual', 'parity', 'quick'],
    ['as usual', 'none', 'norm'],
  ]);
  const named = press(form, 'shape', 1);
  expect(formProblem(named)).toBeUndefined();
  expect(formRequest(named, form)).toMatchObject({
    request: { verify: { shapes: [{ name: 'Llama-3 8B 33 tokens' }] } },
  });
  expect(commandLineOf(named, form)).toBe("fa-tui run norm --shape 'Llama-3 8B 33 tokens'");
});

test('Left and Right do not offer the value that a run uses anyway a second time', () => {
  const plans = [
    create(GatePlanSchema, { name: 'merge', cases: 'parity', shapes: 'canonical' }),
    create(GatePlanSchema, { name: 'explore', cases: 'quick', shapes: 'none' }),
  ];
  const caseSets = ['parity', 'quick'].map((name) =>
    create(CaseSetSchema, { name, shapes: [parseShape('1x1x64x64')] }),
  );
  const form = formOf(KERNEL, { ...CONTEXT, plans, caseSets });
  const casesOf = (of: RunForm): string[] =>
    [0, 1, 2].map((times) => {
      const field = press(of, 'cases', times).fields.find(({ id }) => id === 'cases')!;
      return valueOf(field) === 'as usual' ? usualOf(of, field)! : valueOf(field);
    });
  expect(casesOf(form)).toEqual(['parity', 'quick', 'parity']);
  expect(casesOf(press(form, 'plan', 1))).toEqual(['quick', 'parity', 'quick']);
});
