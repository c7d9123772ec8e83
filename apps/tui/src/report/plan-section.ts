/** What an experiment was judged by, what it changed against the champion, and whether it could be accepted. */
import type { ChampionDifference, Expectation, JobResult } from '@flashcore/shared/contract';
import type { ReportFormat } from './format.ts';
import { figure, shapeText } from './numbers.ts';
import { table } from './table.ts';
import { heading, labelled, paragraph, printable } from './text.ts';

export function planSection({ plan, acceptability, fellBack }: JobResult, format: ReportFormat): string[] {
  if (!plan) return [];
  const how = acceptability?.possible ? `${acceptability.command} (${acceptability.reason})` : acceptability?.reason;
  return [
    ...heading(`Plan ${printable(plan.name)}: ${printable(plan.title)}`, printable(plan.from), format),
    ...labelled('asks', plan.about, format),
    ...(fellBack === undefined ? [] : paragraph(`FELL BACK: ${fellBack}`, format, 2, 'yellow')),
    ...(how === undefined ? [] : labelled(acceptability?.possible ? 'accept it' : 'not to accept', how, format)),
  ];
}

export function differenceSection(difference: ChampionDifference, format: ReportFormat): string[] {
  const { champion, championJob, figures, parameters, sources, warning, missing } = difference;
  const changed = figures.filter((each) => each.champion !== each.candidate);
  const rows = changed.map(({ name, champion: before, candidate, unit }) => [
    name,
    before === undefined ? '-' : figure(before),
    candidate === undefined ? '-' : figure(candidate),
    unit,
  ]);
  const right = 'right' as const;
  return [
    ...heading(`Difference to ${printable(champion)}`, championJob ?? '', format),
    ...(warning === undefined ? [] : paragraph(warning, format, 2, 'yellow')),
    ...parameters.flatMap(({ name, champion: before = '-', candidate = '-' }) =>
      labelled(name, `${before} → ${candidate}`, format),
    ),
    ...sources.flatMap(({ path, linesAdded, linesRemoved, hunks }) =>
      labelled(
        printable(path),
        `+${linesAdded} -${linesRemoved} lines in ${hunks} place${hunks === 1 ? '' : 's'}`,
        format,
      ),
    ),
    ...(rows.length === 0
      ? paragraph('registers, shared memory and counters are the same', format, 2, 'dim')
      : table(
          [
            { title: 'figure', shrinks: true },
            { title: 'champion', align: right },
            { title: 'candidate', align: right },
            { title: 'unit' },
          ],
          rows,
          format,
        )),
    ...(missing === undefined ? [] : paragraph(missing, format, 2, 'dim')),
  ];
}

/** "projected 400 to 600 us, measured 28.7 us on NVIDIA H200, not measured on L4". */
export function expectationsSection(expectations: readonly Expectation[], format: ReportFormat): string[] {
  if (expectations.length === 0) return [];
  return [
    ...heading('What notes said', '', format),
    ...expectations.flatMap((each) => labelled(printable(each.source), expectationText(each), format)),
  ];
}

export function expectationText(expectation: Expectation): string {
  const { kind, low, high, unit, device, shape, metric, measured, measuredOn, neverMeasured, note } = expectation;
  const range = low === high ? figure(low) : `${figure(low)} to ${figure(high)}`;
  const here = measured === undefined ? 'not measured here' : `measured ${figure(measured)} ${unit} on ${measuredOn}`;
  // "L4" is NVIDIA L4, and not NVIDIA L40.
  const same = measuredOn.split(/\s+/).includes(device);
  return [
    `${metric} ${shapeText(shape)} on ${device}: ${kind} ${range} ${unit}${neverMeasured ? ', never measured' : ''}`,
    here,
    ...(measured === undefined || same ? [] : [`not measured on ${device}`]),
    ...(note === '' ? [] : [note]),
  ].join(', ');
}
