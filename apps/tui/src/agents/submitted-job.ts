import { create } from '@bufbuild/protobuf';
import { JobOptionsSchema, KernelVariantSchema, VariantSchema, type Job } from '@flashcore/shared/contract';
import { parseCase } from '@flashcore/shared/kernels';
import type { Connection } from '../connection/connect.ts';
import { type StartRequest, JOB_ACTIONS, jobRequest } from '../session/runner-port.ts';
import { Refused } from './answers.ts';
import type { ToolContext } from './tool-context.ts';

export const ACTIONS = [...JOB_ACTIONS, 'tune'] as const;

/** The arguments of an agent's request for a job. */
interface Submitted {
  readonly action: (typeof ACTIONS)[number];
  readonly kernel: string;
  readonly parameters: Record<string, number>;
  readonly shapes: string[];
  readonly seeds?: number | undefined;
  readonly plan?: string | undefined;
  /** Name of a case set. */
  readonly cases?: string | undefined;
  readonly samples?: number | undefined;
  readonly champion?: string | undefined;
  readonly champion_parameters?: Record<string, number>;
  readonly device?: string | undefined;
  readonly labels: Record<string, string>;
  /** Only for the action tune. */
  readonly values?: Record<string, number[]>;
  readonly max_variants?: number | undefined;
  readonly max_device_seconds?: number | undefined;
}

const COMPARING: readonly Submitted['action'][] = ['bench', 'run', 'tune'];

/** Refuses arguments that the action would ignore. Errors: Refused. */
function requireHeeded({ action, champion, plan, cases, shapes, values = {}, ...asked }: Submitted): void {
  const { max_variants, max_device_seconds } = asked;
  if (champion !== undefined && !COMPARING.includes(action))
    throw new Refused(`champion: only ${COMPARING.join(', ')} compare; the action is ${action}`);
  if (plan !== undefined && action !== 'run') throw new Refused(`plan: only run has gates; the action is ${action}`);
  if (cases !== undefined && action !== 'run' && action !== 'verify')
    throw new Refused(`cases: only verify and run take a case set; the action is ${action}`);
  if (cases !== undefined && shapes.length > 0) throw new Refused('cases, shapes: give one of them');
  if (action === 'tune') return;
  const given = Object.entries({ max_variants, max_device_seconds }).filter(([, value]) => value !== undefined);
  const names = [...(Object.keys(values).length > 0 ? ['values'] : []), ...given.map(([name]) => name)];
  if (names.length > 0) throw new Refused(`${names.join(', ')}: of tune alone; the action is ${action}`);
}

/** The request that starts the job. A folder's current files are uploaded. Errors: Refused. */
export async function requestOf(
  asked: Submitted,
  { client }: Connection,
  { kernelOf, referenceTo }: ToolContext,
): Promise<StartRequest> {
  const { action, samples, seeds } = asked;
  requireHeeded(asked);
  const shapeList = asked.shapes.map((text) => parseCase(text));
  const side = async (kernel: string, values: Record<string, number>) => ({
    kernel: await referenceTo(await kernelOf(kernel), client),
    variant: create(VariantSchema, {
      parameters: Object.fromEntries(Object.entries(values).map(([name, value]) => [name, BigInt(value)])),
    }),
  });
  const champion =
    asked.champion === undefined
      ? undefined
      : create(KernelVariantSchema, await side(asked.champion, asked.champion_parameters ?? {}));
  const common = {
    options: create(JobOptionsSchema, {
      requestId: crypto.randomUUID(),
      deviceId: asked.device ?? '',
      labels: asked.labels,
    }),
    ...(await side(asked.kernel, asked.parameters)),
  };
  if (action === 'tune')
    return { method: 'tune', request: { ...common, ...tuneSettings(asked), shapes: shapeList, champion } };
  return jobRequest(action, {
    common,
    verify: { shapes: shapeList, caseSet: asked.cases ?? '', ...(seeds !== undefined && { seedCount: seeds }) },
    benchmark: {
      shapes: shapeList,
      ...(samples !== undefined && { protocol: { minSamples: samples, maxSamples: samples } }),
      ...(champion && { champion }),
    },
    ...(action === 'profile' && shapeList[0] && { profile: { shape: shapeList[0] } }),
    experiment: { noFallback: true, plan: asked.plan ?? '' },
  });
}

const tuneSettings = ({ values = {}, max_variants, max_device_seconds }: Submitted) => ({
  parameters: Object.entries(values).map(([name, all]) => ({ name, values: all.map(BigInt) })),
  maxTrials: max_variants ?? 0,
  maxSeconds: max_device_seconds ?? 0,
  seed: 1,
});

/** Starts a job and returns as soon as its name is known; the job continues. */
export async function startJob({ client }: Connection, { method, request }: StartRequest): Promise<Job> {
  for await (const { job } of client.start(method, request)) {
    const { job: started } = await client.getJob({ name: job });
    return started!;
  }
  throw new Refused('The runner started no job: try again');
}
