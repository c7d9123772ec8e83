/** Champions and the decisions that made them. */
import { DecisionKind, type AcceptResponse, type Champion, type Decision } from '@flashcore/shared/contract';
import { heading, notice, tableOf, type Block, type Column } from '../blocks.ts';
import { formatMicroseconds, formatShortInstant } from '../numbers.ts';
import { shapeShort, shortName } from '../words.ts';

const KIND_WORDS: Record<DecisionKind, string> = {
  [DecisionKind.UNSPECIFIED]: '-',
  [DecisionKind.ACCEPTED]: 'accepted',
  [DecisionKind.REJECTED]: 'rejected',
  [DecisionKind.UNDONE]: 'undone',
  [DecisionKind.NOTED]: 'noted',
};

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
  return [notice(`${KIND_WORDS[kind]}  ${label}  ${job}${note === '' ? '' : `: ${note}`}`)];
}

const CHAMPION_COLUMNS: readonly Column<Champion>[] = [
  { title: 'job', cell: ({ job }) => shortName(job) },
  { title: 'accepted', cell: ({ decision }) => formatShortInstant(decision?.time) },
  { title: 'by', cell: ({ decision }) => decision?.client ?? '-' },
  { title: 'device', cell: ({ deviceName }) => deviceName },
  { title: 'shapes', shrinkTo: 12, cell: ({ shapes }) => shapes.map(shapeShort).join(' ') },
  {
    title: 'hot p50',
    align: 'right',
    cell: ({ latency }) => (latency === undefined ? '-' : formatMicroseconds(latency.p50Us)),
  },
  { title: 'best', cell: ({ best }) => (best ? 'best' : '') },
  { title: 'kernel', shrinkTo: 10, cell: ({ label }) => label },
];

const DECISION_COLUMNS: readonly Column<Decision>[] = [
  { title: '#', align: 'right', cell: ({ number }) => String(number) },
  { title: 'when', cell: ({ time }) => formatShortInstant(time) },
  { title: 'what', cell: ({ kind, undoes }) => `${KIND_WORDS[kind]}${undoes > 0n ? ` ${undoes}` : ''}` },
  { title: 'by', cell: ({ client }) => client },
  { title: 'job', cell: ({ job }) => shortName(job) },
  { title: 'kernel and note', shrinkTo: 16, cell: ({ label, note }) => (note === '' ? label : `${label}: ${note}`) },
];

/** `decisions`: undefined where nobody asked for them. */
export function championsBlocks(champions: readonly Champion[], decisions: readonly Decision[] | undefined): Block[] {
  const list =
    champions.length === 0
      ? notice('no champion yet: fa-tui accept <job> makes one of an experiment that passed')
      : tableOf(CHAMPION_COLUMNS, champions);
  if (decisions === undefined || decisions.length === 0) return [list];
  return [list, heading('Decisions', 'the latest first; none is ever changed'), tableOf(DECISION_COLUMNS, decisions)];
}
