/**
 * The body of a pull request's comment: a marker by which the next run finds and replaces the comment, then the
 * results.
 */
import { COST_FINDINGS, type GetJobResponse } from '@flashcore/shared/contract';
import { chapter, heading, notice, tableOf, type Block, type Column } from '../present/blocks.ts';
import { formatInterval } from '../present/numbers.ts';
import { piece } from '../present/roles.ts';
import { markdownOf } from '../present/plain/markdown-painter.ts';
import { COMPARISON_MARKS, MODE_WORDS, outcomeWord, shapeShort, shortName } from '../present/words.ts';
import {
  byPlace,
  fastestSdpa,
  figuresOf,
  notValidText,
  MEDIAN_COLUMNS,
  placeTitle,
  sdpaName,
  type Figure,
} from './figures.ts';
import { gatesText, correctText } from './job-facts.ts';

/** GitHub's limit on a comment. */
const MOST_CHARACTERS = 65_536;
const CUT = '\n\nThe rest did not fit into a comment: fa-tui report has all of it.\n';

/**
 * A marker such as `<!-- flashcore:suite -->`. Special characters of the suite are replaced, so that nothing ends the
 * comment early.
 */
export const markerOf = (suite: string): string => `<!-- flashcore:${suite.replaceAll(/[^\w.-]/g, '-')} -->`;

export function pullRequestComment(jobs: readonly GetJobResponse[], suite: string): string {
  const blocks: Block[] = [
    chapter(suite, 2),
    tableOf(JOB_COLUMNS, jobs),
    ...jobs.flatMap(findingBlocks),
    ...jobs.flatMap(comparisonBlocks),
    ...byPlace(figuresOf(jobs)).flatMap(({ place, figures }) => [
      heading(placeTitle(place)),
      tableOf(FIGURE_COLUMNS, figures, problemOf),
    ]),
  ];
  const body = `${markerOf(suite)}\n${markdownOf(blocks)}`;
  return body.length <= MOST_CHARACTERS ? body : `${cutAtLine(body, MOST_CHARACTERS - CUT.length)}${CUT}`;
}

/** Cuts between lines, so that every table row is whole or missing. */
const cutAtLine = (text: string, most: number): string => text.slice(0, text.lastIndexOf('\n', most));

const askedOf = ({ result }: GetJobResponse) => result?.variants.find(({ fallback }) => !fallback);

const JOB_COLUMNS: readonly Column<GetJobResponse>[] = [
  { title: 'kernel', cell: ({ job }) => job?.label || job?.kernelId || '' },
  { title: 'outcome', cell: ({ job }) => outcomeWord(job) },
  {
    title: 'parity',
    cell: (response) => {
      const variant = askedOf(response);
      return variant ? correctText(variant) : 'not checked';
    },
  },
  { title: 'gates', cell: (response) => gatesText(askedOf(response)?.gates ?? []) },
  { title: 'job', cell: ({ job }) => shortName(job?.name ?? '') },
];

const findingBlocks = (response: GetJobResponse): Block[] =>
  (askedOf(response)?.findings ?? []).map(({ kind, message, remedy }) =>
    notice(
      `${shortName(response.job?.name ?? '')}: ${message}${remedy === '' ? '' : `. ${remedy}`}`,
      COST_FINDINGS.has(kind) ? 'warn' : 'bad',
    ),
  );

/** The comparison in turns with the champion, because figures of two runs cannot decide which is faster. */
const comparisonBlocks = (response: GetJobResponse): Block[] => {
  const comparison = askedOf(response)?.comparison;
  return (comparison?.shapes ?? []).map(({ shape, mode, verdict, time, reason }) =>
    notice(
      `${shortName(response.job?.name ?? '')} against ${comparison?.champion?.label ?? 'the champion'} at ${shapeShort(shape)} ${MODE_WORDS[mode]}, ${COMPARISON_MARKS[verdict].word}: ${time ? `${formatInterval(time)} times as fast` : 'not measured'} (${reason})`,
    ),
  );
};

const problemOf = (figure: Figure) => {
  const problem = notValidText(figure);
  return problem === undefined ? undefined : piece(problem, 'warn');
};

const FIGURE_COLUMNS: readonly Column<Figure>[] = [
  { title: 'kernel', cell: ({ kernel }) => kernel },
  { title: 'shape', cell: ({ shape }) => shape },
  { title: 'mode', cell: ({ mode }) => mode },
  ...MEDIAN_COLUMNS,
  {
    title: 'over the fastest SDPA',
    align: 'right',
    cell: ({ benchmark }) => {
      const sdpa = fastestSdpa(benchmark);
      return sdpa ? `${sdpa.speedup.toFixed(3)} x (${sdpaName(sdpa)})` : 'not measured';
    },
  },
  { title: 'job', cell: ({ job }) => shortName(job) },
];
