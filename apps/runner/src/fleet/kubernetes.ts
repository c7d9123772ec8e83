import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as z from 'zod';
import { UsageError } from '@flashcore/shared/contract';
import { HAND_WRITTEN_BYTES, readForeignText, whyUnreadable } from '@flashcore/shared/files';
import { entryOf, plainLine } from '@flashcore/shared/text';
import type { IsolationWanted } from '../sandbox/find-box.ts';
import { readProgram } from '../sandbox/run.ts';
import { EMULATOR_ID } from '../spec/choose-device.ts';
import type { KubernetesFile } from './fleet-file.ts';
import { gatewayId, said, SchedulerError, unreachableRemedy, type Scheduler } from './scheduler.ts';

const LIMIT_MS = 30_000;
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;
/** Label on everything that a gateway creates; the value is the gateway's id. */
const GATEWAY_LABEL = 'flashcore/gateway';
/** How long an ended pilot's log and exit code stay readable. */
const KEEP_ENDED_SECONDS = 600;
/** How many rounds of the gateway a new Job may be without a pod. */
const ROUNDS_WITHOUT_POD = 10;
const SECRET_FOLDER = '/etc/flashcore';
const PILOT_CONTAINER = 'pilot';
/** After a pilot could not get its Secret, no pilot is created for this long. */
const REFUSED_PAUSE_MS = 60_000;
/** Limit on kubectl processes that run at the same time. */
const SIDE_BY_SIDE = 8;
/** Time for a node to pull the image: the pod's limit counts it, the pilot's own does not. */
const PULL_SECONDS = 900;

/**
 * Kubernetes, used through kubectl, which knows every way to log in to a cluster. A pilot is a Job (batch/v1) with one
 * pod. The pod never restarts, because a token registers only once; the gateway creates a new Job instead. The token is
 * in a Secret that Kubernetes deletes with the Job.
 */
export class Kubernetes implements Scheduler {
  readonly #file: KubernetesFile;
  readonly #api: Api;
  readonly #isolation: IsolationWanted;
  readonly #gateway: string;
  /** Why the last pilot got no Secret. */
  #refusal: { error: Error; untilMs: number } | undefined;
  /** By pilot: why its pod can't start, as of the last call of pilots(). */
  #reasons = new Map<string, string>();
  /** By pilot: in how many successive calls of pilots() it had no pod. */
  #withoutPod = new Map<string, number>();
  /** The node on which the pilot of the last whyEnded() call ran. */
  #ended: { schedulerJob: string; node: string } | undefined;

  /** `folder` holds requests on their way to kubectl. `isolation` says how pilots sandbox kernels and compilers. */
  constructor(file: KubernetesFile, folder: string, isolation: IsolationWanted) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    this.#file = file;
    this.#api = new Api(file, folder);
    this.#isolation = isolation;
    this.#gateway = gatewayId(join(folder, 'id'));
  }

  async submit(partition: string, token: string, avoid: readonly string[] = []): Promise<string> {
    const { jobs, secrets } = this.#api;
    // Without this pause every round would create Jobs, whose pods take GPUs, and delete them.
    if (this.#refusal && performance.now() < this.#refusal.untilMs) throw this.#refusal.error;
    const pilot = {
      name: `flashcore-pilot-${this.#gateway}-${randomBytes(5).toString('hex')}`,
      gateway: this.#gateway,
    };
    const { name } = pilot;
    const made = await this.#api.create(
      jobs,
      pilotJob(this.#file, partition, { ...pilot, isolation: this.#isolation, avoid }),
    );
    try {
      const { uid } = created.parse(made).metadata;
      await this.#api.create(secrets, secretOf(this.#file, { ...pilot, uid, token }));
      this.#refusal = undefined;
    } catch (error) {
      this.#refusal = { error: error as Error, untilMs: performance.now() + REFUSED_PAUSE_MS };
      await this.cancel([name]);
      throw error;
    }
    return name;
  }

  async pilots(): Promise<ReadonlySet<string>> {
    const { jobs, pods } = this.#api;
    const mine = { labelSelector: `${GATEWAY_LABEL}=${this.#gateway}` };
    const listed = jobList.parse(await this.#api.get(jobs, mine)).items.filter((job) => !isOver(job));
    const waiting = podList.parse(await this.#api.get(pods, { ...mine, fieldSelector: 'status.phase=Pending' }));
    this.#reasons = new Map(
      waiting.items.flatMap((pod) => {
        const reason = whyPending(pod);
        return reason === undefined ? [] : [[pod.metadata.labels['job-name'] ?? '', reason]];
      }),
    );
    const before = this.#withoutPod;
    this.#withoutPod = new Map(
      listed.flatMap(({ metadata: { name }, status }) =>
        status.active === 0 ? [[name, (before.get(name) ?? 0) + 1]] : [],
      ),
    );
    return new Set(listed.map(({ metadata }) => metadata.name));
  }

  whyStuck(schedulerJob: string): string | undefined {
    const reason = this.#reasons.get(schedulerJob);
    if (reason !== undefined)
      return plainLine(`Change the fleet file or the cluster: pilot ${schedulerJob} waits, Kubernetes says ${reason}`);
    if ((this.#withoutPod.get(schedulerJob) ?? 0) < ROUNDS_WITHOUT_POD) return undefined;
    return `Read its events (kubectl describe job ${schedulerJob} -n ${this.#file.namespace}): pilot ${schedulerJob} gets no pod`;
  }

  async cancel(schedulerJobs: readonly string[]): Promise<void> {
    for (let first = 0; first < schedulerJobs.length; first += SIDE_BY_SIDE) {
      const some = schedulerJobs.slice(first, first + SIDE_BY_SIDE);
      await Promise.all(some.map((name) => this.#api.delete(`${this.#api.jobs}/${name}`)));
    }
  }

  async whyEnded(schedulerJob: string): Promise<string | undefined> {
    const found = await this.#api.get(this.#api.pods, { labelSelector: `job-name=${schedulerJob}` });
    const [pod] = podList.parse(found).items;
    if (pod?.status.phase !== 'Failed') return undefined;
    const { namespace } = this.#file;
    const { nodeName } = pod.spec;
    this.#ended = nodeName === undefined ? undefined : { schedulerJob, node: nodeName };
    const node = nodeName ?? 'no node';
    return plainLine(
      `pilot ${schedulerJob} on ${node}: ${remedyOf(pod, this.#file)}; its log: kubectl logs -n ${namespace} job/${schedulerJob}`,
    );
  }

  nodeOf(schedulerJob: string): string | undefined {
    return this.#ended?.schedulerJob === schedulerJob ? this.#ended.node : undefined;
  }
}

/**
 * Checks kubectl, its permissions and the file's partitions: the API server validates a Job and its pod for each
 * partition, and creates nothing. Returns the reason if the API server does not answer, in which case jobs wait until
 * it does. Errors: UsageError with the server's refusal.
 */
export async function checkKubernetes(file: KubernetesFile): Promise<string | undefined> {
  requireReadable(file.tls_ca);
  const folder = mkdtempSync(join(tmpdir(), 'flashcore-kubernetes-'));
  const api = new Api(file, folder);
  const pilot = { name: 'flashcore-check', gateway: 'check' };
  try {
    for (const path of [api.jobs, api.pods]) await api.get(path, { limit: '1' });
    await api.create(api.secrets, secretOf(file, { ...pilot, uid: 'none', token: '' }), { dryRun: 'All' });
    for (const { partition } of file.partitions) {
      const job = pilotJob(file, partition, { ...pilot, isolation: 'auto' });
      const { metadata, spec } = job.spec.template;
      const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { ...metadata, name: pilot.name }, spec };
      await api.create(api.jobs, job, { dryRun: 'All' }).catch(withPlace(partition));
      await api.create(api.pods, pod, { dryRun: 'All' }).catch(withPlace(partition));
    }
    return undefined;
  } catch (error) {
    if (!(error instanceof SchedulerError)) throw error;
    // A quota that this gateway's own pilots use up refuses even a dry run.
    if (!error.refused || /exceeded quota/.test(error.message)) return error.message;
    throw new UsageError(`--kubernetes: ${error.message}`);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const withPlace = (partition: string) => (error: unknown) => {
  if (!(error instanceof SchedulerError)) throw error;
  throw new SchedulerError(`partition ${partition}: ${error.message}`, error);
};

function requireReadable(path: string | undefined): void {
  try {
    if (path !== undefined) readForeignText(path, HAND_WRITTEN_BYTES);
  } catch (error) {
    throw new UsageError(`--kubernetes: tls_ca ${path}: cannot be read (${whyUnreadable(error)})`);
  }
}

/** `name`: that of the pilot's Job and of its Secret; `gateway`: the gateway's id. */
interface PilotNames {
  name: string;
  gateway: string;
}

type Fields = Record<string, unknown>;
const listIn = (fields: Fields | undefined, key: string): Fields[] =>
  ((fields && entryOf(fields, key)) ?? []) as Fields[];

/** `avoid`: names of nodes on which the pilot should not run. */
interface PilotPlan extends PilotNames {
  isolation: IsolationWanted;
  avoid?: readonly string[];
}

/** A mapping of the fleet file, whose fields the API server checks; empty if it is not there. */
const fieldsIn = (fields: Fields | undefined, key: string): Fields =>
  ((fields && entryOf(fields, key)) ?? {}) as Fields;

/** The Job of a pilot. */
function pilotJob(file: KubernetesFile, partition: string, { name, gateway, isolation, avoid = [] }: PilotPlan) {
  const { image, reach, scratch, scratch_gib: gib, tls_ca: authority } = file;
  const settings = file.partitions.find((one) => one.partition === partition)!;
  const { pod, container, cpus, memory_mib: memory, gpu, device, time_limit_minutes: minutes } = settings;
  const labels = { [GATEWAY_LABEL]: gateway, 'flashcore/partition': partition };
  const amounts = {
    ...(cpus !== undefined && { cpu: String(cpus) }),
    ...(memory !== undefined && { memory: `${memory}Mi` }),
    ...(device !== EMULATOR_ID && { [gpu]: '1' }),
  };
  const hasScratch = listIn(pod, 'volumes').some((volume) => volume['name'] === 'scratch');
  const token = { secretKeyRef: { name, key: 'token' } };
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name, labels },
    spec: {
      backoffLimit: 0,
      ttlSecondsAfterFinished: KEEP_ENDED_SECONDS,
      template: {
        metadata: { labels },
        spec: {
          ...pod,
          ...(avoid.length > 0 && { affinity: awayFrom(avoid, pod) }),
          restartPolicy: 'Never',
          automountServiceAccountToken: false,
          // This limit begins when the pod is on its node; a Job's own limit would include the wait for a GPU.
          activeDeadlineSeconds: minutes * 60 + PULL_SECONDS,
          volumes: [
            ...listIn(pod, 'volumes'),
            ...(hasScratch ? [] : [{ name: 'scratch', emptyDir: {} }]),
            { name: 'flashcore', secret: { secretName: name } },
          ],
          containers: [
            {
              // The gateway then reads why a pilot ended in the pod's status.
              terminationMessagePolicy: 'FallbackToLogsOnError',
              ...container,
              name: PILOT_CONTAINER,
              image,
              args: [
                ...['pilot', '--gateway', reach],
                // A volume may belong to root, so the pilot makes its own folder in it.
                ...['--data', `${scratch}/pilot`, '--keep-artifacts-gib', String(gib), '--isolation', isolation],
                ...(authority === undefined ? [] : ['--tls-ca', `${SECRET_FOLDER}/ca.crt`]),
              ],
              env: [
                ...listIn(container, 'env'),
                { name: 'FLASHCORE_PILOT_TOKEN', valueFrom: token },
                { name: 'FLASHCORE_PILOT_MINUTES', value: String(minutes) },
              ],
              resources: { requests: amounts, limits: amounts },
              volumeMounts: [
                ...listIn(container, 'volumeMounts'),
                { name: 'scratch', mountPath: scratch },
                { name: 'flashcore', mountPath: SECRET_FOLDER, readOnly: true },
              ],
            },
          ],
        },
      },
    },
  };
}

/**
 * The affinity of the fleet file's pod, without the given nodes. Each of its terms is a choice of its own, so each
 * excludes them. A condition on a node's name has one value.
 */
function awayFrom(nodes: readonly string[], pod: Fields | undefined): Fields {
  const affinity = fieldsIn(pod, 'affinity');
  const node = fieldsIn(affinity, 'nodeAffinity');
  const terms = listIn(fieldsIn(node, REQUIRED), 'nodeSelectorTerms');
  const others = nodes.map((name) => ({ key: 'metadata.name', operator: 'NotIn', values: [name] }));
  const nodeSelectorTerms = (terms.length === 0 ? [{}] : terms).map((term) => ({
    ...term,
    matchFields: [...listIn(term, 'matchFields'), ...others],
  }));
  return { ...affinity, nodeAffinity: { ...node, [REQUIRED]: { nodeSelectorTerms } } };
}

const REQUIRED = 'requiredDuringSchedulingIgnoredDuringExecution';

/**
 * The Secret with a pilot's token and the certificate authority that the pilot trusts. Kubernetes deletes it with the
 * pilot's Job.
 */
function secretOf(
  { tls_ca: authority }: KubernetesFile,
  { name, uid, gateway, token }: PilotNames & { uid: string; token: string },
) {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: {
      name,
      labels: { [GATEWAY_LABEL]: gateway },
      ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', name, uid }],
    },
    immutable: true,
    stringData: { token, ...(authority !== undefined && { 'ca.crt': readForeignText(authority, HAND_WRITTEN_BYTES) }) },
  };
}

const created = z.object({ metadata: z.object({ uid: z.string() }) });
const condition = z.object({
  type: z.string(),
  status: z.string(),
  reason: z.string().default(''),
  message: z.string().default(''),
});
const conditions = z.array(condition).default([]);
const jobList = z.object({
  items: z.array(
    z.object({
      metadata: z.object({ name: z.string(), deletionTimestamp: z.string().optional() }),
      status: z.object({ active: z.number().default(0), conditions }).prefault({}),
    }),
  ),
});
const state = z.object({
  waiting: z.object({ reason: z.string().default(''), message: z.string().default('') }).optional(),
  terminated: z
    .object({ exitCode: z.number(), reason: z.string().default(''), message: z.string().default('') })
    .optional(),
});
const podList = z.object({
  items: z.array(
    z.object({
      metadata: z.object({ labels: z.record(z.string(), z.string()).default({}) }),
      spec: z.object({ nodeName: z.string().optional() }),
      status: z.object({
        phase: z.string().default(''),
        reason: z.string().default(''),
        message: z.string().default(''),
        conditions,
        containerStatuses: z.array(z.object({ name: z.string(), state: state.default({}) })).default([]),
      }),
    }),
  ),
});
type ListedJob = z.output<typeof jobList>['items'][number];
type ListedPod = z.output<typeof podList>['items'][number];

const isOver = ({ metadata, status }: ListedJob): boolean =>
  metadata.deletionTimestamp !== undefined ||
  status.conditions.some(({ type, status: is }) => (type === 'Complete' || type === 'Failed') && is === 'True');

/** Reasons for which a container does not start until somebody changes something. */
const STUCK = /^(?:ErrImage\w+|ImagePullBackOff|InvalidImageName|CreateContainer(?:Config)?Error|RunContainerError)$/;
/** The Secret is created just after the Job. */
const NO_SECRET_YET = /^secret "flashcore-pilot-[^"]*" not found$/;
/** How the scheduler says that all nodes are full at present. */
const FULL = /Insufficient|Too many pods/;

/** Why a pod can't start until somebody changes something; undefined if it can. */
function whyPending({ status }: ListedPod): string | undefined {
  const unscheduled = status.conditions.find(({ type, status: is }) => type === 'PodScheduled' && is === 'False');
  if (unscheduled) return FULL.test(unscheduled.message) ? undefined : textOf(unscheduled);
  const waiting = pilotIn(status)?.waiting;
  return waiting && STUCK.test(waiting.reason) && !NO_SECRET_YET.test(waiting.message) ? textOf(waiting) : undefined;
}

/** The state of the pilot's own container: an admission controller may add others to the pod. */
const pilotIn = ({ containerStatuses }: ListedPod['status']) =>
  containerStatuses.find(({ name }) => name === PILOT_CONTAINER)?.state;

const textOf = ({ reason, message }: { reason: string; message: string }): string => said([`${reason}: ${message}`]);

/** The remedy for a pilot that ended before it registered. */
function remedyOf({ status }: ListedPod, file: KubernetesFile): string {
  const ended = pilotIn(status)?.terminated;
  if (!ended || status.reason !== '') return `Look at its pod: Kubernetes says ${textOf(status)}`;
  const { exitCode, reason } = ended;
  if (reason === 'OOMKilled') return 'Give its partition more memory_mib: it was ended for the memory that it used';
  // The container's runtime could not start the program.
  if (exitCode >= 126 && exitCode <= 128)
    return `Give an image whose entry point is flashcore-runner (${file.image}): ${textOf(ended)}`;
  const words = ended.message
    .trimEnd()
    .split('\n')
    .at(-1)!
    .replace(/^flashcore-runner: /, '');
  return unreachableRemedy(exitCode, file) ?? said([words || `Read its log: it ended with exit code ${exitCode}`]);
}

/** The API of a cluster through kubectl, which only transports requests: the API server checks all fields. */
class Api {
  readonly #context: string | undefined;
  readonly #folder: string;
  #requests = 0;
  readonly jobs: string;
  readonly pods: string;
  readonly secrets: string;

  constructor({ context, namespace }: KubernetesFile, folder: string) {
    this.#context = context;
    this.#folder = folder;
    this.jobs = `/apis/batch/v1/namespaces/${namespace}/jobs`;
    this.pods = `/api/v1/namespaces/${namespace}/pods`;
    this.secrets = `/api/v1/namespaces/${namespace}/secrets`;
  }

  /** Errors: SchedulerError. */
  async get(path: string, query: Record<string, string>): Promise<unknown> {
    return JSON.parse(await this.#request('get', `${path}?${String(new URLSearchParams(query))}`));
  }

  /** Errors: SchedulerError, which names an unknown field. */
  async create(path: string, object: object, query: Record<string, string> = {}): Promise<unknown> {
    const file = join(this.#folder, `request-${process.pid}-${(this.#requests += 1)}.json`);
    writeFileSync(file, JSON.stringify(object), { mode: 0o600 });
    try {
      const asked = new URLSearchParams({ fieldValidation: 'Strict', ...query });
      return JSON.parse(await this.#request('create', `${path}?${String(asked)}`, '-f', file));
    } finally {
      rmSync(file);
    }
  }

  /** Does nothing if the object does not exist. Errors: SchedulerError. */
  async delete(path: string): Promise<void> {
    // Without a propagation policy, deleting a Job would leave its pods.
    await this.#request('delete', `${path}?propagationPolicy=Background`).catch((error: unknown) => {
      if (!(error instanceof SchedulerError) || !/\(NotFound\)/.test(error.message)) throw error;
    });
  }

  async #request(verb: string, path: string, ...rest: string[]): Promise<string> {
    const context = this.#context === undefined ? [] : [`--context=${this.#context}`];
    const end = await readProgram('kubectl', [...context, verb, `--raw=${path}`, ...rest], {
      limitMs: LIMIT_MS,
      signal: new AbortController().signal,
      maxBytes: MAX_OUTPUT_BYTES,
      environment: kubectlEnvironment(),
    });
    if (end.exitCode === 127) throw new SchedulerError('Install kubectl: there is none here', { refused: true });
    if (end.exitCode === 0 && end.output !== undefined) return end.output;
    const text = end.timedOut ? `did not answer within ${LIMIT_MS / 1000} s` : `said: ${said(end.lines)}`;
    const away = end.timedOut || end.lines.some((line) => AWAY.test(line) && !ABOUT_REQUEST.test(line));
    throw new SchedulerError(
      away
        ? `Look at the API server: kubectl ${verb} ${text}`
        : `Change the fleet file or the cluster's rules: kubectl ${verb} ${text}`,
      { refused: !away },
    );
  }
}

/** Matches kubectl's output if the API server is unreachable or overloaded. Any other error is about the request. */
const AWAY =
  /unable to connect|connection (?:to the server|refused|lost)|timed out|i\/o timeout|TLS handshake|EOF|stream error|etcdserver: |\((?:ServiceUnavailable|TooManyRequests|InternalError|Timeout|ServerTimeout)\)/i;
/** The API server's reasons for refusing a request. The rest of such a message may match AWAY by chance. */
const ABOUT_REQUEST = /\((?:Invalid|BadRequest|Forbidden|NotFound|AlreadyExists|Unauthorized)\)|is invalid:/;

/**
 * The environment without the gateway's own variables, which include secrets. kubectl's plugins for logging in may read
 * any other variable.
 */
const kubectlEnvironment = (): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('FLASHCORE_')));
