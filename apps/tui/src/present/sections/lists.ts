/** Lists of kernels, jobs and ended experiments, for pipes. */
import {
  machineText,
  DecisionKind,
  FindingKind,
  JobState,
  Outcome,
  TimingMode,
  type ExperimentSummary,
  type Job,
  type Kernel,
  isParity,
  parityShort,
  type Shape,
} from '@flashcore/shared/contract';
import { fact, facts, heading, notice, tableOf, type Block, type Column } from '../blocks.ts';
import { formatError, formatMicroseconds, formatRatio, formatShortInstant } from '../numbers.ts';
import { piece, type Piece, type Role } from '../roles.ts';
import { KIND_WORDS, dtypeWord, findingWord, jobMark, shapeShort, shortName } from '../words.ts';

/** The ladder: id, title, lesson, parameters and limits of every kernel. */
export const kernelsBlocks = (kernels: readonly Kernel[]): Block[] =>
  kernels.length === 0 ? [notice('no kernels')] : kernels.flatMap(kernelBlocks);

/** The user's own kernels, with their folders. */
export const ownKernelsBlocks = (kernels: readonly (Kernel & { readonly folder?: string | undefined })[]): Block[] =>
  kernels.flatMap((kernel) => [...kernelBlocks(kernel), facts(fact('folder', kernel.folder ?? ''))]);

function emulatorWord({ emulated, needsPtxEngine }: Kernel): string {
  if (!emulated) return ', no emulator';
  return needsPtxEngine ? ", the emulator's PTX engine or a GPU" : '';
}

function kernelBlocks(kernel: Kernel): Block[] {
  if (kernel.manifestError) return [heading(kernel.kernelId), facts(fact('unusable', kernel.manifestError, 'bad'))];
  const needs = `${kernel.minArch}${emulatorWord(kernel)}${kernel.limits.map(({ require }) => `; ${require}`).join('')}`;
  return [
    heading(kernel.kernelId, kernel.title),
    facts(
      fact('lesson', kernel.lesson),
      fact('after', kernel.after ?? ''),
      fact('needs', needs),
      fact(
        'set',
        kernel.parameters
          .map(({ name, values, defaultValue }) => `${name}=${values.join('|')} (${defaultValue})`)
          .join(', '),
      ),
      fact('configs', kernel.configs.join(', ')),
      kernel.expectedFinding === FindingKind.UNSPECIFIED
        ? undefined
        : fact('must find', findingWord(kernel.expectedFinding)),
    ),
  ];
}

/** " of" and the kernel's name if the list covers only one kernel; otherwise empty. */
const ofKernel = (kernel: string): string => (kernel === '' ? '' : ` of ${kernel}`);

/** Jobs, newest first, with the start of their names. `kernel` is set if only one kernel was requested. */
export function jobsBlocks(jobs: readonly Job[], kernel = ''): Block[] {
  if (jobs.length === 0) return [notice(kernel === '' ? 'no jobs' : `no job${ofKernel(kernel)}`)];
  // True if the runner distinguishes its clients.
  const owned = jobs.some(({ owner }) => owner !== undefined && owner !== 'local');
  const columns: Column<Job>[] = [
    { title: 'job', cell: ({ name }) => shortName(name) },
    { title: 'created', cell: ({ createTime }) => formatShortInstant(createTime) },
    ...(owned ? [{ title: 'owner', cell: ({ owner }: Job) => owner ?? '-' }] : []),
    { title: 'kind', cell: ({ kind }) => KIND_WORDS[kind] },
    { title: 'state', cell: statePiece },
    { title: 'kernel', shrinkTo: 16, cell: ({ label, kernelId }) => label || kernelId },
  ];
  return [tableOf(columns, jobs)];
}

function statePiece(job: Job): Piece {
  const { word, role } = jobMark(job);
  return piece(job.state === JobState.QUEUED ? `queued, ${job.queuePosition} ahead` : word, role);
}

/** The largest error of the cases; "-" if no case ran. */
export const largestErrorText = (experiment: ExperimentSummary): string =>
  hasErrors(experiment) ? formatError(experiment.maxAbsError) : '-';

/** False if no element was compared, for example because the first launch timed out. */
const hasErrors = (experiment: ExperimentSummary): boolean =>
  experiment.cases > 0 && (experiment.maxAbsError > 0 || isParity(experiment));

type GateCounts = Pick<
  ExperimentSummary,
  'hardGates' | 'hardGatesPassed' | 'hardGatesToDo' | 'gatesPassed' | 'gatesFailed' | 'gatesNotMeasured'
>;

type JudgedCounts = GateCounts & Partial<Pick<ExperimentSummary, 'job' | 'decision'>>;

/** The hard gates that pass by now: an acceptance hands in what the documentation lacked. */
const hardGatesPassing = ({ hardGatesPassed, hardGatesToDo, decision }: JudgedCounts): number =>
  hardGatesPassed + (decision?.kind === DecisionKind.ACCEPTED ? hardGatesToDo : 0);

/**
 * Text such as "3 of 4", which counts the gates that can reject, or "2 of 4, 2 open" of a job that passed with gates
 * that have no answer. For an experiment without a plan, from an older runner, it counts all gates.
 */
export function gatesText(experiment: JudgedCounts): string {
  const { hardGates, job, gatesPassed, gatesFailed, gatesNotMeasured } = experiment;
  const passing = hardGatesPassing(experiment);
  const open = job?.outcome === Outcome.PASSED ? hardGates - passing : 0;
  if (hardGates > 0) return `${passing} of ${hardGates}${open > 0 ? `, ${open} open` : ''}`;
  return gatesPassed + gatesFailed + gatesNotMeasured === 0
    ? '-'
    : `✓${gatesPassed} ✗${gatesFailed} –${gatesNotMeasured}`;
}

/** Text such as "2 of 4, 1 not measured, 1 to do", for places with room for the reasons of gates without an answer. */
export function gatesInFull(experiment: JudgedCounts): string {
  const { hardGates, hardGatesToDo, decision, job } = experiment;
  const passing = hardGatesPassing(experiment);
  if (hardGates === 0 || job?.outcome !== Outcome.PASSED) return gatesText(experiment);
  const toDo = decision?.kind === DecisionKind.ACCEPTED ? 0 : hardGatesToDo;
  const notMeasured = hardGates - passing - toDo;
  return [
    `${passing} of ${hardGates}`,
    ...(notMeasured > 0 ? [`${notMeasured} not measured`] : []),
    ...(toDo > 0 ? [`${toDo} to do`] : []),
  ].join(', ');
}

/** If a job passed, its remaining gates were not measured. */
export function gatesRole(experiment: JudgedCounts): Role | undefined {
  const { hardGates, gatesFailed, job } = experiment;
  if (!(hardGates > 0 ? hardGatesPassing(experiment) < hardGates : gatesFailed > 0)) return undefined;
  return job?.outcome === Outcome.PASSED ? 'warn' : 'bad';
}

const CANONICAL = '2x8x512x64';

/** The case whose times a list shows: the canonical shape if it was timed, else the first. */
export function shownCase(experiment: ExperimentSummary | undefined): Shape | undefined {
  const shapes = (experiment?.timings ?? []).map(({ shape }) => shape);
  return shapes.find((shape) => shapeShort(shape) === CANONICAL) ?? shapes[0];
}

export const shownShape = (experiment: ExperimentSummary | undefined): string => shapeShort(shownCase(experiment));

/** The median of the shape shown. Experiments of older runners have only the hot median of their first shape. */
export function medianOf(experiment: ExperimentSummary | undefined, wanted = TimingMode.HOT): number | undefined {
  if (experiment?.timings.length === 0) return wanted === TimingMode.HOT ? experiment.p50Us : undefined;
  const shape = shownShape(experiment);
  return experiment?.timings.find(({ mode, shape: of }) => mode === wanted && shapeShort(of) === shape)?.p50Us;
}

/** The shape of all times in a list; undefined if they differ, because each row must then name its own. */
export function commonShape(experiments: readonly (ExperimentSummary | undefined)[]): string | undefined {
  const shapes = new Set(experiments.map(shownShape).filter((shape) => shape !== '-'));
  return shapes.size === 1 ? [...shapes][0] : undefined;
}

const CANNOT_SAY = { state: JobState.ENDED, outcome: Outcome.UNSPECIFIED };

/** Ended experiments, newest first. `kernel` is set if only one kernel was requested. */
export function historyBlocks(experiments: readonly ExperimentSummary[], kernel = ''): Block[] {
  if (experiments.length === 0) return [notice(`no experiment${ofKernel(kernel)} has ended yet`)];
  const hasChampion = experiments.some(({ champion }) => champion !== undefined);
  const isCluster = experiments.some(({ schedulerJob }) => schedulerJob !== undefined);
  const common = commonShape(experiments);
  const hasCost = experiments.some(({ costUsd }) => costUsd !== undefined);
  const columns: Column<ExperimentSummary>[] = [
    { title: 'job', cell: ({ job }) => (job ? shortName(job.name) : '-') },
    { title: 'ended', drop: 1, cell: ({ job }) => formatShortInstant(job?.endTime) },
    {
      title: 'outcome',
      cell: ({ job }) => piece(jobMark(job ?? CANNOT_SAY).word, jobMark(job ?? CANNOT_SAY).role),
    },
    { title: 'cases', align: 'right', cell: parityShort },
    ...(common === undefined && experiments.some(({ timings }) => timings.length > 0)
      ? [{ title: 'shape', cell: shownShape }]
      : []),
    { title: 'hot p50', align: 'right', cell: timeText },
    ...(hasChampion ? [{ title: 'vs champion', align: 'right' as const, cell: championText }] : []),
    ...(hasCost
      ? [
          {
            title: 'USD',
            drop: 2,
            align: 'right' as const,
            cell: ({ costUsd }: ExperimentSummary) => costUsd?.toFixed(4) ?? '-',
          },
        ]
      : []),
    {
      title: 'gates',
      align: 'right',
      cell: (experiment) => piece(gatesText(experiment), gatesRole(experiment)),
    },
    ...(experiments.some(({ ranking }) => ranking !== undefined) ? [{ title: 'ranked', cell: rankedPiece }] : []),
    ...(isCluster ? [{ title: 'on', cell: machineText }] : []),
    { title: 'kernel', shrinkTo: 10, cell: ({ job }) => job?.label || job?.kernelId || '-' },
  ];
  const notes = [
    experiments.some(({ simulated }) => simulated) ? 'sim: not a GPU time' : '',
    `hot: launches back to back${common === undefined ? '' : `, at ${common}`}`,
    hasChampion ? 'vs champion: least ratio to the champion of the same job, above 1 faster' : '',
    experiments.some(({ hardGates }) => hardGates > 0) ? 'gates: hard ones passed, of all hard ones' : '',
    experiments.some((each) => gatesText(each).endsWith('open')) ? 'open: not measured, or to do before accepting' : '',
    experiments.some(({ ranking }) => ranking?.ranked === false) ? 'ranked no: fa-tui report <job> says why' : '',
    experiments.some((experiment) => gatesText(experiment).startsWith('✓')) ? '✓ passed, ✗ failed, – not measured' : '',
  ].filter((part) => part !== '');
  return [tableOf(columns, experiments), notice(notes.join('; '), 'dim')];
}

/**
 * "-" for an experiment from before ranked runs existed, and for a run without a GPU's time, which has nothing to rank.
 */
function rankedPiece({ ranking, p50Us, simulated }: ExperimentSummary): Piece {
  if (ranking === undefined || simulated || (ranking.ranked && p50Us === undefined)) return piece('-', 'dim');
  return piece(ranking.ranked ? 'yes' : 'no', ranking.ranked ? undefined : 'warn');
}

function timeText(experiment: ExperimentSummary): string {
  const p50Us = medianOf(experiment);
  const { dtype, simulated } = experiment;
  return p50Us === undefined ? '-' : `${dtypeWord(dtype)}${formatMicroseconds(p50Us)}${simulated ? ' sim' : ''}`;
}

const championText = ({ speedupOverChampion }: ExperimentSummary): string =>
  speedupOverChampion === undefined ? '-' : formatRatio(speedupOverChampion);
