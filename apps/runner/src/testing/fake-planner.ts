import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import {
  DeviceState,
  Outcome,
  DeviceSchema,
  FlashcoreError,
  JobResultSchema,
  LogLineSchema,
  TimingMode,
  ToolSchema,
  WarningSchema,
  type JobResult,
} from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { NO_CHAMPION, championFor, type DecisionStore } from '../store/decisions.ts';
import {
  JOB_KINDS,
  keptRequest,
  requestAgain,
  type PlannedJob,
  type JobBody,
  type JobPlanner,
  type JobContext,
  type JobMethod,
  type JobRequests,
} from '../jobs/job-context.ts';

/** Delay before "late_<n>" floods, so that watchers can connect. */
export const LATE_MS = 2_000;

/** The fake device. It is not marked as an emulator, so its results can be ranked. */
export const FAKE_DEVICE = create(DeviceSchema, {
  deviceId: 'gpu0',
  name: 'Fake GPU',
  arch: 'sm_89',
  state: DeviceState.READY,
});

export interface FakeOptions {
  /** Result of the jobs that pass. */
  result?: JobResult;
  /** Bodies by kernel id, in addition to the standard ones. */
  bodies?: Record<string, JobBody>;
  /** Whether the bodies take and leave their device themselves. */
  takesDevice?: boolean;
  /** Compiles a waiting job's kernel; default: nothing is compiled. */
  compileAhead?: (kernelId: string, signal: AbortSignal) => Promise<void>;
  /** Store of the champion that a run is compared with; default: no run has a champion. */
  decisions?: DecisionStore;
}

/**
 * A planner whose kernels are scripts: "ok"; "flood_<n>" writes n log lines as fast as they are stored, "late_<n>" does
 * so after two seconds; "sleep_<ms>"; "hang" waits until it is stopped; "champion_<us>" passes with an acceptable
 * result of that many microseconds; "stubborn_<ms>" ignores being stopped for that long; "ticks_<n>" emits n warnings
 * from a timer; "error", "bug". Any other id is not found.
 */
export function fakePlanner(options: FakeOptions = {}): JobPlanner {
  const { result = create(JobResultSchema), bodies = {}, takesDevice = false, decisions, compileAhead } = options;
  const passed = { outcome: Outcome.PASSED, summary: 'passed', result };
  const script = (kernelId: string): JobBody => {
    const [name = '', argument = '0'] = kernelId.split('_');
    const amount = Number(argument);
    const known: Record<string, JobBody> = {
      ok: () => Promise.resolve(passed),
      champion: () => {
        const place = {
          deviceName: FAKE_DEVICE.name,
          protocol: PROTOCOL,
          problem: 'attention',
          shape: FAKE_SHAPE,
          dtype: 'fp16',
        };
        const champion = decisions && championFor(decisions.champions(), { lineage: () => [kernelId], place });
        return Promise.resolve({ ...passed, result: acceptable(amount, champion?.job) });
      },
      flood: (context) => flood(context, amount).then(() => passed),
      late: (context) =>
        // eslint-disable-next-line flashcore/no-fixed-wait -- a slow body
        sleep(LATE_MS, undefined, { signal: context.signal })
          .then(() => flood(context, amount))
          .then(() => passed),
      // eslint-disable-next-line flashcore/no-fixed-wait -- a slow body
      sleep: ({ signal }) => sleep(amount, passed, { signal }),
      ticks: (context) => ticks(context, amount).then(() => passed),
      // eslint-disable-next-line flashcore/no-fixed-wait -- a body that does not end
      hang: ({ signal }) => sleep(1e8, passed, { signal }),
      // eslint-disable-next-line flashcore/no-fixed-wait -- a body that ignores its signal
      stubborn: () => sleep(amount, passed),
      error: () => Promise.reject(new FlashcoreError('COMPILER_MISSING', { wanted: 'nvcc' }, 'Install nvcc')),
      bug: () => Promise.reject(new TypeError('secret /home/somebody/path')),
      ...bodies,
    };
    const body = Object.hasOwn(known, name) ? known[name] : undefined;
    if (body) return body;
    throw new FlashcoreError('KERNEL_NOT_FOUND', { kernel_id: kernelId }, `There is no "${kernelId}"`);
  };
  return {
    devices: () => [FAKE_DEVICE],
    rulesDigest: () => RULES,
    rankedCases: () => ({ canonicalShape: parseShape('2x8x512x64'), caseSets: [] }),
    describeTools: () => Promise.resolve([create(ToolSchema, { name: 'nvcc', version: '13.0' })]),
    isolation: () => Promise.resolve({ kind: 'none', detail: 'a fake runs nothing' }),
    prepare: () => Promise.resolve(),
    planJob: (method, request) => {
      const planned = planFake(method, request, script);
      const ahead = compileAhead && ((signal: AbortSignal) => compileAhead(planned.kernelId, signal));
      return { ...planned, takesDevice, compileAhead: ahead, again: keptRequest(method, request) };
    },
    bodyAgain: (kept, { deviceId }) => planFake(kept.method, requestAgain(kept, deviceId), script).body,
    judging: () => ({ plans: [], caseSets: [], tolerances: [], heldOutShapes: 0, judgingDigest: '' }),
    cacheUse: () => ({ hits: 3, misses: 1 }),
    close: () => Promise.resolve(),
  };
}

function planFake<Method extends JobMethod>(
  method: Method,
  request: JobRequests[Method],
  script: (kernelId: string) => JobBody,
): PlannedJob & { body: JobBody } {
  const source = request.kernel?.source;
  const kernelId = source?.case === 'kernelId' ? source.value : 'tree';
  return {
    kind: JOB_KINDS[method],
    label: kernelId,
    kernelId,
    deviceId: request.options?.deviceId || FAKE_DEVICE.deviceId,
    body: script(kernelId),
  };
}

/** Emits warnings from an event handler, where a thrown error would be uncaught. */
function ticks({ emit, signal }: JobContext, count: number): Promise<void> {
  return new Promise((resolve) => {
    let left = count;
    const timer = setInterval(() => {
      emit({ case: 'warning', value: create(WarningSchema, { message: `tick ${left}` }) });
      left -= 1;
      if (left > 0 && !signal.aborted) return;
      clearInterval(timer);
      resolve();
    }, 5);
  });
}

const PROTOCOL = 'flashcore-protocol 3';
/** Digest of the fake owner's rules. */
const RULES = 'ab'.repeat(32);
const FAKE_SHAPE = parseShape('2x8x512x64');

/** Result of a ranked run of the merge plan that passed on the fake GPU; `over`: the champion it was compared with. */
export const acceptable = (p50Us: number, over = NO_CHAMPION): JobResult =>
  create(JobResultSchema, {
    provenance: { device: FAKE_DEVICE, protocol: PROTOCOL, sourceDigest: 'c0ffee', plan: 'merge', seeds: ['5eed'] },
    plan: { name: 'merge', acceptable: true },
    acceptability: { possible: true, command: 'fa-tui accept', over },
    ranking: { ranked: true, rulesDigest: RULES },
    variants: [
      {
        build: { buildId: randomBytes(32).toString('hex'), succeeded: true },
        benchmarks: [
          {
            shape: FAKE_SHAPE,
            mode: TimingMode.HOT,
            latency: { samples: 100, p50Us },
            valid: true,
          },
        ],
      },
    ],
  });

/** Emits log lines like a compiler's output: some hundred in one turn of the event loop, then the next. */
async function flood(context: JobContext, lines: number): Promise<void> {
  for (let line = 1; line <= lines && !context.signal.aborted; line += 1) {
    context.emit({
      case: 'logLine',
      value: create(LogLineSchema, { source: 'kernel', text: `line ${line} ${'x'.repeat(60)}` }),
    });
    if (line % 200 === 0) await new Promise(setImmediate);
  }
}
