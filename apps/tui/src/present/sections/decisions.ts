/** Champions, and the decisions behind them. */
import {
  machineText,
  DecisionKind,
  type AcceptResponse,
  type Champion,
  type Decision,
  type RejectResponse,
  type UndoResponse,
} from '@flashcore/shared/contract';
import { heading, notice, tableOf, type Block, type Column } from '../blocks.ts';
import { counted, formatMicroseconds, formatShortInstant } from '../numbers.ts';
import { dtypeWord, namedJob, shapeShort, shortName } from '../words.ts';

export const DECISION_WORDS: Record<DecisionKind, string> = {
  [DecisionKind.UNSPECIFIED]: '-',
  [DecisionKind.ACCEPTED]: 'accepted',
  [DecisionKind.REJECTED]: 'rejected',
  [DecisionKind.UNDONE]: 'undone',
  [DecisionKind.NOTED]: 'noted',
};

/** Several jobs may have the same title. */
const named = ({ job, label }: Pick<Champion | Decision, 'job' | 'label'>): string =>
  namedJob({ name: job, label, kernelId: '' });

/** The effect of accepting, in a line for the terminal program. */
export const acceptedText = ({ champion, replaced }: AcceptResponse): string =>
  champion === undefined
    ? 'Accepted'
    : `Accepted: ${named(champion)} is the champion on ${champion.deviceName}${replaced === undefined ? '' : ` in place of ${named(replaced)}`}; u undoes it`;

export const rejectedText = ({ decision, removed }: RejectResponse): string =>
  [
    `Rejected: ${decision === undefined ? 'the result' : named(decision)}; u undoes it`,
    ...removed.map((champion) => `${named(champion)} is no longer champion of ${champion.deviceName}`),
  ].join('; ');

export const undoneText = ({ decision, champions }: UndoResponse): string =>
  `Undone for ${decision === undefined ? 'the result' : named(decision)}: ${
    champions.length === 0
      ? 'the kernel has no champion now'
      : `the champion is ${champions.map((champion) => `${named(champion)} on ${champion.deviceName}`).join(', ')}`
  }`;

export function acceptedBlocks({ champion, replaced }: AcceptResponse): Block[] {
  if (!champion) return [notice('accepted', 'good')];
  return [
    notice(`accepted: ${champion.label} is the champion on ${champion.deviceName}`, 'good', '✓'),
    ...(replaced ? [notice(`it replaces ${replaced.label} of ${shortName(replaced.job)}`)] : []),
    notice(`take it back: fa-tui undo ${shortName(champion.job)}`),
  ];
}

export function decisionBlocks(decision: Decision | undefined): Block[] {
  if (!decision) return [];
  const { kind, label, job, note } = decision;
  return [notice(`${DECISION_WORDS[kind]}  ${label}  ${job}${note === '' ? '' : `: ${note}`}`)];
}

export const hotTime = (champion: Champion | undefined): string =>
  champion?.latency === undefined ? '-' : formatMicroseconds(champion.latency.p50Us);

const CHAMPION_COLUMNS: readonly Column<Champion>[] = [
  { title: 'job', cell: ({ job }) => shortName(job) },
  { title: 'accepted', cell: ({ decision }) => formatShortInstant(decision?.time) },
  { title: 'by', cell: ({ decision }) => decision?.client ?? '-' },
  { title: 'device', cell: ({ deviceName }) => deviceName },
  {
    title: 'shapes',
    shrinkTo: 12,
    cell: ({ shapes, dtype }) => `${dtypeWord(dtype)}${shapes.map(shapeShort).join(' ')}`,
  },
  {
    title: 'hot p50',
    align: 'right',
    cell: hotTime,
  },
  { title: 'best', cell: ({ best }) => (best ? 'best' : '') },
  { title: 'kernel', shrinkTo: 10, cell: ({ label }) => label },
  { title: 'rests on', drop: 1, shrinkTo: 16, cell: ({ decision }) => evidenceText(decision) },
];

/** Shown for a cluster, because its figures are only what a pilot reported. */
const PILOT_COLUMN: Column<Champion> = { title: 'on', cell: machineText };

/** The evidence for an acceptance: plan, cases, seeds, the champion that it was compared with, and the digests. */
function evidenceText(decision: Decision | undefined): string {
  if (decision?.kind !== DecisionKind.ACCEPTED) return '';
  const { evidence } = decision;
  if (evidence === undefined) return 'accepted before ranked runs existed';
  const { plan, cases, seeds, over, gatesDigest, sourceDigest, comparison, owner, notes } = evidence;
  const digest = (text: string): string => text.slice(0, 10);
  return [
    `plan ${plan}`,
    cases,
    counted(seeds.length, 'seed'),
    `over ${over === 'none' ? over : shortName(over)}`,
    comparison,
    ...(owner === decision.client ? [] : [`run by ${owner}`]),
    ...(notes === '' ? [] : ['NOTES.md filled in after the run']),
    `gates ${digest(gatesDigest)}`,
    `source ${digest(sourceDigest)}`,
  ]
    .filter((part) => part !== '')
    .join(', ');
}

const DECISION_COLUMNS: readonly Column<Decision>[] = [
  { title: '#', align: 'right', cell: ({ number }) => String(number) },
  { title: 'when', cell: ({ time }) => formatShortInstant(time) },
  { title: 'what', cell: ({ kind, undoes }) => `${DECISION_WORDS[kind]}${undoes > 0n ? ` ${undoes}` : ''}` },
  { title: 'by', cell: ({ client, role }) => (role === '' || client === 'local' ? client : `${client}, ${role}`) },
  { title: 'job', cell: ({ job }) => shortName(job) },
  { title: 'kernel and note', shrinkTo: 16, cell: ({ label, note }) => (note === '' ? label : `${label}: ${note}`) },
  { title: 'rests on', drop: 1, shrinkTo: 16, cell: evidenceText },
];

/** `decisions` is undefined if they were not requested. */
export function championsBlocks(champions: readonly Champion[], decisions: readonly Decision[] | undefined): Block[] {
  const isCluster = champions.some(({ schedulerJob }) => schedulerJob !== undefined);
  const columns = isCluster ? CHAMPION_COLUMNS.toSpliced(4, 0, PILOT_COLUMN) : CHAMPION_COLUMNS;
  const list =
    champions.length === 0
      ? notice('no champion yet: fa-tui accept <job> makes one of an experiment that passed')
      : tableOf(columns, champions);
  if (decisions === undefined || decisions.length === 0) return [list];
  return [list, heading('Decisions', 'the latest first; none is ever changed'), tableOf(DECISION_COLUMNS, decisions)];
}
