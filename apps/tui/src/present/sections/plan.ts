/**
 * The plan that judged an experiment, the differences from the champion, and whether the experiment can be accepted.
 */
import type { ChampionDifference, Expectation, JobResult, Ranking } from '@flashcore/shared/contract';
import { fact, facts, heading, notice, tableOf, type Block, type Column } from '../blocks.ts';
import { counted, formatNumber } from '../numbers.ts';
import { shapeShort } from '../words.ts';

export function planBlocks({ plan, ranking, acceptability, fellBack }: JobResult): Block[] {
  if (!plan) return [];
  const how = acceptability?.possible ? `${acceptability.command} (${acceptability.reason})` : acceptability?.reason;
  return [
    heading(`Plan ${plan.name}: ${plan.title}`, plan.from),
    facts(fact('asks', plan.about)),
    facts(ranking && fact('ranked', rankingText(ranking), ranking.ranked ? undefined : 'warn')),
    ...(fellBack === undefined ? [] : [notice(`FELL BACK: ${fellBack}`, 'warn')]),
    facts(fact(acceptability?.possible ? 'accept it' : 'not to accept', how ?? '')),
  ];
}

/** Text such as "yes", or "no: client gates, 1 of at least 5 seeds a case". */
export const rankingText = ({ ranked, reasons }: Ranking): string => (ranked ? 'yes' : `no: ${reasons.join(', ')}`);

type Figure = ChampionDifference['figures'][number];

const figureText = (value: number | undefined): string => (value === undefined ? '-' : formatNumber(value));

const FIGURE_COLUMNS: readonly Column<Figure>[] = [
  { title: 'figure', shrinkTo: 12, cell: ({ name }) => name },
  { title: 'champion', align: 'right', cell: ({ champion }) => figureText(champion) },
  { title: 'candidate', align: 'right', cell: ({ candidate }) => figureText(candidate) },
  { title: 'unit', cell: ({ unit }) => unit },
];

export function differenceBlocks(difference: ChampionDifference): Block[] {
  const { champion, championJob, figures, parameters, sources, warning, missing } = difference;
  const changed = figures.filter((each) => each.champion !== each.candidate);
  return [
    heading(`Differences from ${champion}`, championJob ?? ''),
    ...(warning === undefined ? [] : [notice(warning, 'warn')]),
    facts(
      ...parameters.map(({ name, champion: before = '-', candidate = '-' }) => fact(name, `${before} → ${candidate}`)),
      ...sources.map(({ path, linesAdded, linesRemoved, hunks }) =>
        fact(path, `+${linesAdded} -${linesRemoved} lines in ${counted(hunks, 'place')}`),
      ),
    ),
    changed.length === 0
      ? notice('registers, shared memory and counters are the same', 'dim')
      : tableOf(FIGURE_COLUMNS, changed),
    ...(missing === undefined ? [] : [notice(missing, 'dim')]),
  ];
}

export const expectationsBlocks = (expectations: readonly Expectation[]): Block[] =>
  expectations.length === 0
    ? []
    : [heading('What notes said'), facts(...expectations.map((each) => fact(each.source, expectationText(each))))];

/** Text such as "projected 400 to 600 us, measured 28.7 us on NVIDIA H200, not measured on L4". */
export function expectationText(expectation: Expectation): string {
  const { kind, unit, device, shape, metric, measured, measuredOn, neverMeasured, note } = expectation;
  const here =
    measured === undefined ? 'not measured here' : `measured ${formatNumber(measured)} ${unit} on ${measuredOn}`;
  return [
    `${metric} ${shapeShort(shape)} on ${device}: ${kind} ${saidRange(expectation)}${neverMeasured ? ', never measured' : ''}`,
    here,
    ...(measured === undefined || isOfDevice(expectation) ? [] : [`not measured on ${device}`]),
    ...(note === '' ? [] : [note]),
  ].join(', ');
}

/** The projected range, such as "400 to 600 us". */
export const saidRange = ({ low, high, unit }: Expectation): string =>
  `${low === high ? formatNumber(low) : `${formatNumber(low)} to ${formatNumber(high)}`} ${unit}`;

/** True if the measured device is the one in the note: "L4" means NVIDIA L4, not NVIDIA L40. */
export const isOfDevice = ({ device, measuredOn }: Expectation): boolean =>
  measuredOn === device || measuredOn.split(/\s+/).includes(device);
