/** Champions and the decisions that made them. */
import { DecisionKind, type AcceptResponse, type Champion, type Decision } from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import type { ReportFormat } from './format.ts';
import { shortJobName } from './list-reports.ts';
import { shortInstant, time } from './numbers.ts';
import { table, type Cell } from './table.ts';
import { heading, printable } from './text.ts';

const KINDS: Record<DecisionKind, string> = {
  [DecisionKind.UNSPECIFIED]: '-',
  [DecisionKind.ACCEPTED]: 'accepted',
  [DecisionKind.REJECTED]: 'rejected',
  [DecisionKind.UNDONE]: 'undone',
  [DecisionKind.NOTED]: 'noted',
};

export function acceptedReport({ champion, replaced }: AcceptResponse, format: ReportFormat): string[] {
  if (!champion) return ['accepted'];
  return [
    `${format.style('green', 'accepted')}  ${printable(champion.label)} is the champion on ${printable(champion.deviceName)}`,
    ...(replaced ? [`it replaces ${printable(replaced.label)} of ${shortJobName(replaced.job)}`] : []),
    `take it back: fa-tui undo ${shortJobName(champion.job)}`,
  ];
}

export function decisionReport(decision: Decision | undefined): string[] {
  if (!decision) return [];
  const { kind, label, job, note } = decision;
  return [`${KINDS[kind] ?? '-'}  ${printable(label)}  ${job}${note === '' ? '' : `: ${printable(note)}`}`];
}

/** `decisions`: undefined where nobody asked for them. */
export function championsReport(
  champions: readonly Champion[],
  decisions: readonly Decision[] | undefined,
  format: ReportFormat,
): string[] {
  const list =
    champions.length === 0
      ? ['no champion yet: fa-tui accept <job> makes one of an experiment that passed']
      : table(
          [
            { title: 'job' },
            { title: 'accepted' },
            { title: 'by' },
            { title: 'device' },
            { title: 'shapes' },
            { title: 'hot p50', align: 'right' },
            { title: 'best' },
            { title: 'kernel', shrinks: true },
          ],
          champions.map(championRow),
          format,
        );
  if (decisions === undefined || decisions.length === 0) return list;
  const columns = [
    { title: '#', align: 'right' as const },
    { title: 'when' },
    { title: 'what' },
    { title: 'by' },
    { title: 'job' },
  ];
  const rows = decisions.map(({ number, time: when, kind, client, job, label, note, undoes }) => [
    String(number),
    shortInstant(when),
    `${KINDS[kind] ?? '-'}${undoes > 0n ? ` ${undoes}` : ''}`,
    printable(client),
    shortJobName(job),
    printable(note === '' ? label : `${label}: ${note}`),
  ]);
  return [
    ...list,
    '',
    ...heading('Decisions', 'the latest first; none is ever changed', format),
    ...table([...columns, { title: 'kernel and note', shrinks: true }], rows, format),
  ];
}

function championRow({ job, decision, deviceName, shapes, latency, best, label }: Champion): Cell[] {
  return [
    shortJobName(job),
    shortInstant(decision?.time),
    printable(decision?.client ?? '-'),
    printable(deviceName),
    shapes.map(formatShape).join(' '),
    latency === undefined ? '-' : time(latency.p50Us),
    best ? 'best' : '',
    printable(label),
  ];
}
