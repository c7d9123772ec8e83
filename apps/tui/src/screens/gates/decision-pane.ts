/**
 * The dialog before a result is accepted or rejected, or a decision undone: the effect, the comparison with the
 * champion, the differences from it, and a note to write.
 */
import {
  machineText,
  DecisionKind,
  type ChampionDifference,
  type Decision,
  type VariantResult,
} from '@flashcore/shared/contract';
import { entryOf } from '@flashcore/shared/text';
import { fact, facts, heading, notice, tableOf, type Block } from '../../present/blocks.ts';
import { blockRows } from '../../present/cells/cells-painter.ts';
import { inputRuns } from '../../present/cells/input-runs.ts';
import { fitRow, run, type Row } from '../../present/cells/row.ts';
import { counted, formatInUnit, formatShortInstant } from '../../present/numbers.ts';
import { pairColumns, pairsOf } from '../../present/sections/comparison.ts';
import { DECISION_WORDS } from '../../present/sections/decisions.ts';
import { differenceBlocks } from '../../present/sections/plan.ts';
import { COMPARISON_MARKS, comparisonAnswer, jobTitle, namedJob, shapeShort, shortName } from '../../present/words.ts';
import { partsOf } from '../../state/input-line.ts';
import type { AppState, Overlay } from '../../state/app-state.ts';
import { refusalOf, replacedBy, standingDecision, type Choice, openAcceptability } from '../../state/decision.ts';
import type { JobView } from '../../state/job-view.ts';
import { scrolled, type PaneContent, type Size } from '../pane/view.ts';
import type { Role } from '../../present/roles.ts';
import { attachedJob } from '../../state/selectors.ts';

const LABEL_CELLS = 10;
const TITLES: Record<Choice, string> = { accept: 'Accept', reject: 'Reject', undo: 'Undo the decision about' };

export function decisionPane(
  state: AppState,
  dialog: Extract<Overlay, { kind: 'decide' }>,
  { width, height }: Size,
): PaneContent {
  const job = entryOf(state.views, dialog.job);
  if (job === undefined) return { title: 'Decide', body: [] };
  const { choice, note, after = 0, top } = dialog;
  const refusal = refusalOf(state, job, choice);
  // The name comes first, because a long title is cut and several jobs may have it.
  const title = `${TITLES[choice]} ${shortName(job.name)}: ${jobTitle(job)}`;
  const head: Row[] = [
    labelledRow(
      'decision',
      [run('← ', 'dim'), run(choice, refusal === undefined ? 'accent' : 'bad'), run(' →', 'dim')],
      width,
    ),
    labelledRow('note', inputRuns(partsOf({ text: note, after }), width - LABEL_CELLS), width),
    [run('─'.repeat(width), 'border')],
  ];
  const rows = blockRows(
    [
      refusal === undefined ? notice(effectOf(state, job, choice)) : notice(`Cannot ${choice} it: ${refusal}`, 'bad'),
      ...(choice === 'undo' ? [] : resultBlocks(job, replacedBy(state, job).length > 0)),
    ],
    width,
  );
  const { body, remark } = scrolled(title, rows, { width, height: height - head.length, top });
  const keys = refusal === undefined ? 'Enter decides, Esc closes' : 'Esc closes';
  return { title, remark: remark === undefined ? keys : `${remark}; ${keys}`, body: [...head, ...body] };
}

const labelledRow = (label: string, rest: Row, width: number): Row =>
  fitRow([run(label.padEnd(LABEL_CELLS), 'key'), ...rest], width);

/** Describes the effect of the decision in a sentence or two. */
function effectOf(state: AppState, job: JobView, choice: Choice): string {
  const device = job.result?.provenance?.device?.name ?? 'its device';
  const own = state.champions.find((champion) => champion.job === job.name);
  if (choice === 'undo') {
    const standing = standingDecision(state, job.name);
    const by = standing === undefined ? '' : ` by ${standing.client} on ${formatShortInstant(standing.time)}`;
    return `Undoes the decision (${standing === undefined ? 'decided' : DECISION_WORDS[standing.kind]}${by})${standing?.kind === DecisionKind.ACCEPTED ? `: ${afterUndo(state, standing)}` : ''}.`;
  }
  if (choice === 'reject')
    return own === undefined
      ? 'Marks the result as rejected, so that it is not accepted by mistake; u undoes this.'
      : `Marks the result as rejected: ${own.label} is no longer champion of ${device}; u undoes this.`;
  const shapes = (job.result?.variants[0]?.benchmarks ?? []).map(({ shape }) => shapeShort(shape));
  const replaced = replacedBy(state, job);
  const compared = job.result?.acceptability?.replaces;
  return `Makes this build the champion of ${job.kernelId} on ${device} for ${[...new Set(shapes)].join(', ')} (${job.result?.provenance?.protocol ?? ''}), by plan ${job.plan?.name ?? '-'}. ${notesText(job)}${pilotOf(job)}${
    replaced.length === 0
      ? `There is no champion yet${compared === undefined ? '' : `; it was compared with ${compared}`}.`
      : `It replaces ${replaced.map((champion) => `${namedJob({ ...champion, name: champion.job })}`).join(', ')}.`
  }`;
}

/** The champion after an acceptance is undone. */
function afterUndo({ decisions }: AppState, { evidence }: Decision): string {
  const over = evidence?.over ?? '';
  if (over === '') return 'the champion before it, if there was one, is champion again';
  if (over === 'none') return 'there is no champion, as before';
  const label = decisions.find(({ job }) => job === over)?.label ?? '';
  return `${namedJob({ name: over, label, kernelId: '' })}, the champion before it, is champion again`;
}

/** Says by which text the documentation is judged, if it was missing when the job ran. */
const notesText = ({ result }: JobView): string =>
  result?.acceptability?.notesWanted ? 'NOTES.md as it is now is handed in and recorded with it. ' : '';

/** Names the pilot, because nothing else confirms the figures that it reports. */
const pilotOf = ({ result }: JobView): string =>
  result?.provenance?.schedulerJob === undefined ? '' : `It was measured on ${machineText(result.provenance)}. `;

/** Comparison and differences of the requested variant. */
function resultBlocks(job: JobView, hasChampion: boolean): Block[] {
  const variant = job.result?.variants.find(({ fallback }) => !fallback);
  if (variant === undefined) return [];
  // Without a champion, the sentence about the effect already says that there is none.
  const compared = variant.comparison === undefined && !hasChampion ? [] : comparisonBlocks(variant);
  return [...compared, ...(variant.difference === undefined ? [] : changeBlocks(variant.difference))];
}

/** The verdict, and the ratios with both ends of their intervals. */
function comparisonBlocks({ comparison, gates }: VariantResult): Block[] {
  if (comparison === undefined) {
    const why = gates.find(({ metric }) => metric === 'speedup_vs_champion')?.detail ?? '';
    return [notice(`Not compared with a champion${why === '' ? '' : `: ${why}`}`, 'dim')];
  }
  const { champion, shapes, verdict } = comparison;
  const { mark, role } = COMPARISON_MARKS[verdict];
  return [
    heading(`This build against its champion ${champion?.label ?? ''}`.trimEnd(), 'above 1: this build is faster'),
    notice(comparisonAnswer(comparison), role, mark),
    ...(shapes.length === 0 ? [] : [tableOf(pairColumns(shapes), shapes.map(pairsOf))]),
  ];
}

/** These differences are always shown, even if the values are equal. */
const ALWAYS = [
  ['registers_per_thread', 'registers'],
  ['spill_bytes', 'spills'],
  ['smem_bytes_per_cta', 'SMEM'],
  ['theoretical_ctas_per_sm', 'CTAs/SM'],
] as const;

function changeBlocks(difference: ChampionDifference): Block[] {
  const { figures, parameters, sources } = difference;
  const lines = (of: 'linesAdded' | 'linesRemoved'): number => sources.reduce((sum, source) => sum + source[of], 0);
  return [
    facts(
      ...ALWAYS.map(([name, label]) => {
        const figure = figures.find((each) => each.name === name);
        const text = (value: number | undefined): string =>
          value === undefined ? '-' : formatInUnit(value, figure?.unit === 'B' ? 'B' : '');
        return fact(label, figure === undefined ? 'not known' : `${text(figure.champion)} → ${text(figure.candidate)}`);
      }),
      fact('lines', `+${lines('linesAdded')} -${lines('linesRemoved')} in ${counted(sources.length, 'file')}`),
      fact('parameters', `${parameters.length} changed`),
    ),
    ...differenceBlocks(difference),
  ];
}

/** Whether the shown job can be accepted, or which decision was made about it. */
export interface Standing {
  readonly text: string;
  readonly role: Role;
  /** True if the line deserves attention, because a decision was made or a key can make one. */
  readonly matters: boolean;
}

/** Undefined if there is nothing to decide, because the job is running or is not an experiment. */
export function standingOf(state: AppState): Standing | undefined {
  const job = attachedJob(state);
  if (job === undefined) return undefined;
  const decision = standingDecision(state, job.name);
  if (decision !== undefined) {
    const { kind, client, time, note } = decision;
    const accepted = kind === DecisionKind.ACCEPTED;
    const text = `${accepted ? '✓' : '✗'} ${DECISION_WORDS[kind]} by ${client}, ${formatShortInstant(time)}${note === '' ? '' : `: ${note}`}; u undoes it`;
    return { text: text.replaceAll('\n', ' '), role: accepted ? 'good' : 'warn', matters: true };
  }
  const acceptability = openAcceptability(state, job);
  if (acceptability === undefined) return undefined;
  return acceptability.possible
    ? {
        text: `→ a accepts it${
          acceptability.replaces === undefined
            ? `: ${acceptability.reason.replace(/^no champion/, 'there is no champion')}`
            : `, replacing ${acceptability.replaces}`
        }`,
        role: 'accent',
        matters: true,
      }
    : { text: `cannot be accepted: ${acceptability.reason}`, role: 'dim', matters: false };
}
