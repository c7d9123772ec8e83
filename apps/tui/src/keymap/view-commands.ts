/**
 * Commands that choose and configure the view, and commands of single views: the cursor in the error map, plots, the
 * pages of a comparison.
 */
import { JobKind } from '@flashcore/shared/contract';
import { FEWEST_SAMPLES } from '@flashcore/shared/kernels';
import { VIEWS, VIEW_HELP, isSingle, type AppState } from '../state/app-state.ts';
import { headCount, selectedMap } from '../state/error-map.ts';
import { inKernels, kernelWithNotes, selectedVariant } from '../state/chosen.ts';
import { hasNotes } from '../state/listed-kernel.ts';
import { attachedJob, hasLines, showsDistribution, variantsOf } from '../state/selectors.ts';
import { hotFigure, shownFinding, listingFiles, openListing } from '../state/source-place.ts';
import type { CommandRow } from './command.ts';

export const inMap = ({ ui }: AppState): boolean => ui.view === 'correct' && ui.mapCursor !== undefined;
/** True if the error map of the failed case can be shown head by head. */
const hasHeads = (state: AppState): boolean => {
  const selected = selectedMap(state);
  return selected !== undefined && headCount(selected.map) > 1;
};
/** False in views that are not about the attached job. The job's keys work there too, but the hints leave them out. */
export const showsJob = ({ ui }: AppState): boolean => ui.inRail || !['jobs', 'kernels', 'host'].includes(ui.view);
export const comparing = ({ ui }: AppState): boolean => ui.view === 'latency' && ui.comparing;

/**
 * The language of the listing that the next press of the key shows; undefined if that press shows the profile again.
 */
function nextListing(state: AppState): string | undefined {
  const { listing } = state.ui;
  return listingFiles(state)[listing === undefined ? 0 : listing + 1]?.language;
}

export const SHOW_COMMANDS = VIEWS.map((view, index) => ({
  id: `show-${view}` as const,
  keys: [String(index + 1)],
  group: 'views' as const,
  help: VIEW_HELP[view],
})) satisfies readonly CommandRow[];

/** A narrow screen has no room for the rail next to source and instructions. */
const hasRail = (state: AppState): boolean =>
  !isSingle(state.ui) && (openListing(state) === undefined || state.ui.columns >= 160);

/** Must come before the commands of the views, because several have the same keys. */
export const RAIL_COMMANDS = [
  {
    id: 'into-rail',
    keys: ['tab'],
    group: 'views',
    help: 'Cursor into the rail of jobs: j k show the next',
    hint: 'rail',
    when: (state) => !state.ui.inRail && hasRail(state) && !inMap(state),
    whyNot: (state) =>
      inMap(state)
        ? 'The error map has the cursor: Esc leaves it'
        : 'The rail of jobs is hidden: it needs 100 columns and 30 rows, and + hides or shows it',
  },
  {
    id: 'leave-rail',
    keys: ['tab', 'enter', 'escape'],
    group: 'views',
    help: 'From the rail of jobs back to the view',
    hint: 'back to view',
    when: ({ ui }) => ui.inRail,
  },
] as const satisfies readonly CommandRow[];

export const MAP_COMMANDS = [
  {
    id: 'into-map',
    keys: ['enter'],
    group: 'views',
    help: 'In 2: move a cursor over the error map',
    hint: 'map',
    when: (state) => !inMap(state) && selectedMap(state) !== undefined,
  },
  {
    id: 'map-left',
    keys: ['h', 'left'],
    group: 'views',
    help: 'In the error map: a block to the left',
    hint: 'j k l move',
    when: inMap,
  },
  {
    id: 'map-right',
    keys: ['l', 'right'],
    group: 'views',
    help: 'In the error map: a block to the right',
    when: inMap,
  },
  {
    id: 'next-head',
    keys: [']'],
    group: 'views',
    help: 'In 2: error map of the next head, or of all',
    hint: 'head',
    when: hasHeads,
    whyNot: 'Only the error map of a failed case with several heads has more to show: 2, then choose the case',
  },
  {
    id: 'previous-head',
    keys: ['['],
    group: 'views',
    help: 'In 2: error map of the previous head',
    when: hasHeads,
    whyNot: 'Only the error map of a failed case with several heads has more to show: 2, then choose the case',
  },
  {
    id: 'leave-map',
    keys: ['escape', 'enter'],
    group: 'views',
    help: 'Leave the error map, back to the cases',
    hint: 'cases',
    when: inMap,
  },
] as const satisfies readonly CommandRow[];

export const VIEW_COMMANDS = [
  {
    id: 'next-view',
    keys: ['tab', 'l', 'right'],
    group: 'views',
    help: 'Next view',
    when: (state) => !inMap(state),
  },
  {
    id: 'previous-view',
    keys: ['shift+tab', 'h', 'left'],
    group: 'views',
    help: 'Previous view',
    when: (state) => !inMap(state),
  },
  {
    id: 'zoom',
    keys: ['+', '_'],
    group: 'views',
    help: 'This view on the whole screen, and back',
    hint: 'zoom',
    when: ({ ui }) => ui.zoomed || (ui.columns >= 100 && ui.rows >= 30),
    whyNot: 'The screen has only one pane: from 100 columns and 30 rows on there are several',
  },
  {
    id: 'next-variant',
    keys: ['v'],
    group: 'views',
    help: 'Next variant, if a job ran several',
    hint: (state) => (showsJob(state) ? 'variant' : ''),
    when: (state) => variantsOf(attachedJob(state)).length > 1,
    whyNot: (state) =>
      attachedJob(state)?.kind === JobKind.TUNE
        ? 'A search keeps the details of its winner only: 3 lists all variants that it tried'
        : 'This job ran only one variant',
  },
  {
    id: 'open-notes',
    keys: ['o'],
    group: 'jobs',
    help: 'NOTES.md of the kernel in 7, or of the result shown',
    hint: 'notes',
    when: (state) => hasNotes(kernelWithNotes(state)),
    whyNot: (state) =>
      inKernels(state)
        ? 'The selected kernel has no notes'
        : 'There is no other finding: in view 7, o opens the notes of a kernel',
  },
  {
    id: 'next-finding',
    keys: ['o'],
    group: 'views',
    help: 'The next finding, if a job has several',
    hint: 'finding',
    when: (state) => !inKernels(state) && !hasNotes(kernelWithNotes(state)) && (shownFinding(state)?.count ?? 0) > 1,
    whyNot: 'There is no other finding to show',
  },
] as const satisfies readonly CommandRow[];

export const LATENCY_COMMANDS = [
  {
    id: 'instructions',
    keys: ['i'],
    group: 'views',
    help: 'In 4: source next to its PTX or SASS, and back',
    hint: (state) => nextListing(state) ?? 'profile',
    when: (state) => listingFiles(state).length > 0,
    whyNot: 'There is no PTX to show: 4 has it once a run has profiled the kernel',
  },
  {
    id: 'leave-instructions',
    keys: ['escape'],
    group: 'views',
    help: 'In 4: from PTX or SASS back to the profile',
    when: (state) => openListing(state) !== undefined,
  },
  {
    id: 'hottest-line',
    keys: ['H'],
    group: 'views',
    help: 'In 4: jump to the hottest source line',
    hint: (state) => `most ${hotFigure(state)}`,
    when: (state) => hasLines(state) || openListing(state) !== undefined,
    whyNot: 'No source line has figures: only a profile on the emulator counts them',
  },
  {
    id: 'run-variant',
    keys: ['enter'],
    group: 'views',
    help: 'In 3: form to run the selected variant of a search',
    hint: 'form of variant',
    when: (state) => selectedVariant(state) !== undefined,
  },
  {
    id: 'distribution',
    keys: ['p'],
    group: 'views',
    help: 'In 3: histogram, ECDF, or both',
    hint: 'plot',
    when: showsDistribution,
    whyNot: `3 shows the plots of a measurement once it has ${FEWEST_SAMPLES.interval} samples; there p changes them`,
  },
  {
    id: 'next-comparison-page',
    keys: ['d'],
    group: 'views',
    help: 'Comparing: latency, all figures, source diff',
    hint: 'figures, diff',
    when: comparing,
    whyNot: 'Nothing is being compared: b pins a job, c on another compares the two',
  },
] as const satisfies readonly CommandRow[];
