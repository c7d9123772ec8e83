import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  ChampionSchema,
  DecisionKind,
  DecisionSchema,
  GateResultSchema,
  JobKind,
  JobResultSchema,
  JobState,
  KernelSchema,
  Outcome,
  Verdict,
  type Champion,
  type Decision,
} from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import {
  noteText,
  notesToHandIn,
  notesNow,
  openAcceptability,
  refusalOf,
  withDetailsNow,
  withNotes,
} from './decision.ts';
import type { JobView } from './job-view.ts';

const SHAPE = parseShape('1x1x64x64');

/** A ranked run of kernel k that was compared with the champion of a job. */
function comparedWith(over: string): JobView {
  const result = create(JobResultSchema, {
    provenance: { device: { name: 'GPU' }, protocol: 'p' },
    acceptability: { possible: true, reason: 'the champion is k A=1', replaces: 'k A=1', over },
    ranking: { ranked: true },
    variants: [{ benchmarks: [{ shape: SHAPE }] }],
  });
  return { name: 'jobs/mine', kernelId: 'k', kind: JobKind.EXPERIMENT, state: JobState.ENDED, result } as JobView;
}

const champion = (job: string, label: string): Champion =>
  create(ChampionSchema, { job, label, kernelId: 'k', deviceName: 'GPU', protocol: 'p', shapes: [SHAPE] });

const decision = (number: bigint, of: MessageInitShape<typeof DecisionSchema>): Decision =>
  create(DecisionSchema, { number, ...of });

const accepted = decision(1n, { kind: DecisionKind.ACCEPTED, job: 'jobs/old' });
const withdrawn = decision(2n, { kind: DecisionKind.UNDONE, job: 'jobs/old', undoes: 1n });

test.each<[string, Champion[], Decision[], string | undefined]>([
  ['is champion still', [champion('jobs/old', 'k A=1')], [accepted], undefined],
  [
    'was replaced since',
    [champion('jobs/new', 'k A=2')],
    [accepted],
    'the champion is k A=2 (new) by now, which it was not compared with: 7, then Enter, runs it again',
  ],
  ['was withdrawn', [], [accepted, withdrawn], 'the champion that it was compared with was withdrawn: r runs it again'],
])(
  'a job can be accepted only if the champion that it was compared with is still champion: that one %s',
  (_, champions, decisions, refusal) => {
    const [state, job] = [{ champions, decisions, kernels: [] }, comparedWith('jobs/old')];
    expect(refusalOf(state, job, 'accept')).toBe(refusal);
    expect(openAcceptability(state, job)).toMatchObject({
      possible: refusal === undefined,
      reason: refusal ?? 'the champion is k A=1',
    });
  },
);

test('a refusal names what happened to the job, and the key that opens what is missing', () => {
  const job = { ...comparedWith('jobs/old'), labels: {}, summary: '' };
  const facts = { champions: [], decisions: [], kernels: [] };
  const interrupted = { ...job, outcome: Outcome.INTERRUPTED, result: { ...job.result!, acceptability: undefined } };
  expect(refusalOf(facts, interrupted, 'accept')).toBe('it did not pass (interrupted): 7, then Enter, runs it again');
  const reason = 'NOTES.md was not filled in when this job ran: write into NOTES.md what the kernel changes and why';
  const acceptability = { ...job.result!.acceptability!, possible: false, reason };
  expect(refusalOf(facts, { ...job, result: { ...job.result!, acceptability } }, 'accept')).toBe(
    `${reason}; o opens NOTES.md`,
  );
});

test('the notes that a job lacked are no longer to do once it was accepted, until that is undone', () => {
  const gates = [
    create(GateResultSchema, { gateId: 'documented', level: 'hard', verdict: Verdict.NOT_JUDGED, value: 1 }),
    create(GateResultSchema, { gateId: 'success', level: 'off', verdict: Verdict.NOT_JUDGED }),
  ];
  const job = { ...comparedWith('none'), name: 'jobs/old' };
  const after = (...decisions: readonly Decision[]) => notesNow({ decisions, kernels: [] }, job);
  expect([after(accepted), after(), after(accepted, withdrawn)]).toEqual([
    'handed in with the acceptance',
    undefined,
    undefined,
  ]);
  expect(withNotes(gates, after(accepted)!)).toEqual([
    { ...gates[0], verdict: Verdict.PASS, value: 0, detail: 'handed in with the acceptance' },
    gates[1],
  ]);
});

test('a result that lacked only notes can be accepted once NOTES.md next to the same code says something', () => {
  const job = { ...comparedWith('none'), codeDigest: 'same' };
  const acceptability = { ...job.result!.acceptability!, possible: false, notesWanted: true, reason: 'no notes' };
  const undocumented = { ...job, result: { ...job.result!, acceptability } };
  const facts = (codeDigest: string, notes: string) => ({
    champions: [],
    decisions: [],
    kernels: [create(KernelSchema, { kernelId: 'k', codeDigest, notes })],
  });
  const template = '# k\n\n## What it changes, and why\n';
  const answers = [facts('same', `${template}wider tiles`), facts('same', template), facts('other', 'wider tiles')];
  expect(answers.map((state) => refusalOf(state, undocumented, 'accept'))).toEqual([
    undefined,
    expect.stringMatching(/^NOTES.md says nothing yet: o opens it. .* without another run$/),
    expect.stringMatching(/no known folder has the code that ran: 7, then Enter, runs it again$/),
  ]);
  expect(answers.map((state) => openAcceptability(state, undocumented)?.possible)).toEqual([true, false, false]);
  expect(answers.map((state) => notesNow(state, undocumented))).toEqual([
    'filled in by now, handed in on accepting',
    undefined,
    undefined,
  ]);
  const long = `wider\u0007 tiles${'.'.repeat(5000)}`;
  expect(notesToHandIn(facts('same', long).kernels, job)).toBe(`wider tiles${'.'.repeat(4096 - 11)}`);
});

test('after an acceptance, a gate says that there was no champion when the job ran', () => {
  const gates = [
    create(GateResultSchema, {
      verdict: Verdict.NOT_MEASURED,
      detail: 'no champion of GPU by p on these shapes yet; an accepted result becomes one',
    }),
  ];
  const job = { ...comparedWith(''), codeDigest: '' };
  const detailIn = (champions: Champion[], decisions: Decision[]): string | undefined =>
    withDetailsNow({ champions, decisions, kernels: [] }, job, gates)[0]?.detail;
  const before = 'there was no champion of GPU by p on these shapes when this job ran';
  expect(detailIn([], [decision(1n, { kind: DecisionKind.ACCEPTED, job: job.name })])).toBe(before);
  expect(detailIn([champion('jobs/new', 'k A=2')], [])).toBe(before);
  expect(withDetailsNow({ champions: [], decisions: [], kernels: [] }, job, gates)).toBe(gates);
});

test('a gate does not ask for notes about code that is gone', () => {
  const detail = 'NOTES.md was not filled in when this job ran: say why, then accept the result, without another run';
  const gates = [create(GateResultSchema, { level: 'hard', verdict: Verdict.NOT_JUDGED, detail })];
  const detailWith = (codeDigest: string): string | undefined =>
    withDetailsNow(
      { champions: [], decisions: [], kernels: [create(KernelSchema, { kernelId: 'k', codeDigest })] },
      { ...comparedWith(''), codeDigest: 'ran' },
      gates,
    )[0]?.detail;
  expect([detailWith('ran'), detailWith('other')]).toEqual([detail, 'NOTES.md was not filled in when this job ran']);
});

test('a note is shown with its author, as long as the decision stands', () => {
  const noted = decision(3n, { kind: DecisionKind.ACCEPTED, job: 'jobs/old', client: 'ada', note: 'wider\ntiles' });
  const undone = decision(4n, { kind: DecisionKind.UNDONE, job: 'jobs/old', undoes: 3n });
  expect([[accepted], [noted], [noted, undone], []].map((decisions) => noteText({ decisions }, 'jobs/old'))).toEqual([
    '',
    'accepted by ada: wider tiles',
    '',
    '',
  ]);
});
