import * as z from 'zod';
import { FlashcoreError, UsageError } from '@flashcore/shared/contract';
import { HAND_WRITTEN_BYTES, readForeignText, whyUnreadable } from '@flashcore/shared/files';
import { yamlFile } from '@flashcore/shared/kernels';

const { strict, text, integer, matching, oneOf, listOf } = yamlFile;

/** A name of a partition or account that Slurm accepts and can't mistake for an option. */
const name = () =>
  matching(/^[A-Za-z0-9][A-Za-z0-9._,:+-]{0,63}$/, 'a name as Slurm has it: letters, digits, "._,:+-"');
const absolutePath = () => matching(/^\/[^\n]{1,200}$/, 'an absolute path');

/** Options of sbatch that the gateway sets, or that would make a job do something other than run a pilot. */
const OWN_OPTIONS = [
  ...['job-name', 'partition', 'gres', 'time', 'signal', 'output', 'error', 'input', 'chdir', 'export', 'export-file'],
  ...['parsable', 'requeue', 'no-requeue', 'wrap', 'array', 'nodes', 'ntasks', 'wait', 'test-only', 'get-user-env'],
  ...['uid', 'gid', 'help', 'usage', 'version', 'quiet', 'verbose', 'hold', 'begin', 'clusters', 'nodelist'],
  ...['account', 'qos', 'constraint', 'cpus-per-task', 'mem', 'reservation', 'exclude'],
];
const MOST_FREE_OPTIONS = 32;

/**
 * Whether the fleet file may give an option. Slurm accepts any unambiguous beginning of an option's name, so beginnings
 * of OWN_OPTIONS are refused too.
 */
const isFree = (option: string): boolean => {
  const [own = ''] = option.slice(2).split('=');
  return !OWN_OPTIONS.some((one) => one.startsWith(own));
};

const freeOption = () =>
  matching(/^--[a-z][a-z-]{1,40}(?:=[^\n]{1,200})?$/, 'an option of sbatch as --name or --name=value').refine(isFree, {
    error: ({ input }) =>
      `must be an option that flashcore does not give itself and the file has no key for, got ${String(input)}`,
  });

/** The keys of a partition, whatever the scheduler. */
const pilots = {
  device: text().describe('The model of its GPUs as the driver names it, "NVIDIA H200"; emulator: nodes without one'),
  min: integer(0, 10_000).default(0).describe('Minimum number of pilots'),
  max: integer(1, 10_000).describe('Maximum number of pilots'),
  idle_seconds: integer(1, 86_400).default(120).describe('A pilot ends after this long without a job'),
  time_limit_minutes: integer(2, 43_200).default(60).describe("A pilot's time limit"),
};

const slurmPartition = strict({
  partition: name().describe("Slurm's name of it"),
  ...pilots,
  gres: name().default('gpu:1').describe('What a pilot asks for, with a type where the partition has several'),
  cpus: integer(1, 1_024).optional().describe('Processors for a pilot (--cpus-per-task)'),
  memory_mib: integer(256, 16_777_216).optional().describe('Memory for a pilot (--mem)'),
  account: name().optional().describe('As sbatch has it'),
  qos: name().optional().describe('As sbatch has it'),
  constraint: name().optional().describe('As sbatch has it'),
  reservation: name().optional().describe('As sbatch has it'),
  exclude: matching(/^[A-Za-z0-9][A-Za-z0-9._,[\]-]{0,400}$/, 'nodes as Slurm has them, for example gpu[1-4],gpu9')
    .optional()
    .describe('Nodes that get no pilot'),
  sbatch: listOf(freeOption(), MOST_FREE_OPTIONS)
    .optional()
    .describe('Further options of sbatch, for example [--licenses=cuda, --comment=flashcore]'),
});

/** A name that the API server accepts, even as part of a longer name. */
const label = () =>
  matching(
    /^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$/,
    'a name of at most 40 characters: lower-case letters, digits, "-"',
  );
/** Fields to whose elements the gateway adds its own. */
const LISTS: readonly string[] = ['volumes', 'volumeMounts', 'env'];
const isListOfMappings = (value: unknown): boolean =>
  Array.isArray(value) && value.every((each) => typeof each === 'object' && each !== null && !Array.isArray(each));
/** Fields of an object of the API that the fleet file may set; `own`: the fields that the gateway sets. */
const partOf = (object: string, own: readonly string[]) =>
  z
    .record(z.string(), z.unknown())
    .refine(
      (part) => Object.entries(part).every(([field, value]) => !LISTS.includes(field) || isListOfMappings(value)),
      {
        error: `must have lists of mappings for ${LISTS.join(', ')}`,
      },
    )
    .refine((part) => own.every((field) => !Object.hasOwn(part, field)), {
      error: `must be fields of a ${object} other than ${own.join(', ')}, which the gateway gives`,
    })
    .optional();

const kubernetesPartition = strict({
  partition: label().describe('A name for it'),
  ...pilots,
  gpu: matching(/^[a-z0-9][a-z0-9./-]{0,100}$/, 'a resource such as nvidia.com/gpu')
    .default('nvidia.com/gpu')
    .describe('The resource of which a pilot takes one; ignored for the emulator'),
  cpus: integer(1, 1_024).optional().describe('Processors for a pilot: requested, and its limit'),
  memory_mib: integer(256, 16_777_216).optional().describe('Memory for a pilot: requested, and its limit'),
  pod: partOf('PodSpec', [
    'containers',
    'restartPolicy',
    'automountServiceAccountToken',
    'activeDeadlineSeconds',
  ]).describe(
    'Further fields of the PodSpec: nodeSelector, tolerations, priorityClassName, imagePullSecrets, volumes, …',
  ),
  container: partOf('Container', ['name', 'image', 'args', 'resources']).describe(
    "Further fields of the pilot's container: securityContext, env, volumeMounts, …",
  ),
});

export const DEFAULT_SCRATCH_GIB = 20;

/** The keys of a cluster, whatever the scheduler. */
const cluster = {
  listen: text().describe('host:port where pilots register'),
  reach: matching(/^(?:unix:\/[\w./-]{1,100}|[\w.[\]:-]{1,200}:\d{1,5})$/, 'host:port').describe(
    'How nodes reach it: host:port, by a name in the certificate',
  ),
  scratch_gib: integer(1, 100_000)
    .default(DEFAULT_SCRATCH_GIB)
    .describe("Cap on a pilot's cache folder in it; a node has one such folder for each GPU"),
  builds: strict({
    at: oneOf(['gateway', 'pilots'])
      .default('gateway')
      .describe("Where kernels are compiled: by the gateway before a GPU is taken, or on the pilots' nodes"),
    at_once: integer(1, 1_024)
      .optional()
      .describe('Jobs that the gateway builds at once; default: one less than its processors'),
  }).prefault({}),
};

const slurm = strict({
  ...cluster,
  bundle: absolutePath().describe("Folder of the runner's bundle on every node; must be the gateway's own build"),
  scratch: absolutePath()
    .default(() => `/tmp/flashcore-pilot-${process.getuid?.() ?? 0}`)
    .describe("Folder on every node for what pilots keep between jobs, this user's own; default: in /tmp"),
  tls_ca: absolutePath()
    .optional()
    .describe("Certificate of the authority that signed the gateway's, by its path on every node; needed with TLS"),
  setup: absolutePath()
    .optional()
    .describe('A script on every node that /bin/sh reads before a pilot: modules, PATH, LD_LIBRARY_PATH'),
  partitions: listOf(slurmPartition).describe('Parts of the cluster with GPUs of one model'),
});

const kubernetes = strict({
  ...cluster,
  image: matching(/^[\w./:@-]{1,300}$/, 'an image').describe(
    "The runner's image (tools/docker/Dockerfile) by name and tag or digest; must be the gateway's own build",
  ),
  namespace: matching(/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/, 'a namespace')
    .default('default')
    .describe('Namespace of the pilots'),
  context: matching(/^[\w.@:/-]{1,200}$/, 'a context')
    .optional()
    .describe("kubectl's context; default: its current one"),
  scratch: absolutePath()
    .default('/var/lib/flashcore')
    .describe('Where a pilot has a volume "scratch": an emptyDir, or the volume of that name in pod'),
  tls_ca: absolutePath()
    .optional()
    .describe(
      "Certificate of the authority that signed the gateway's, a file here; pilots get a copy; needed with TLS",
    ),
  partitions: listOf(kubernetesPartition).describe('Parts of the cluster with GPUs of one model'),
});

const SCHEDULERS = { slurm, kubernetes };
export type SchedulerName = keyof typeof SCHEDULERS;

type Parsed<Name extends SchedulerName> = z.output<(typeof SCHEDULERS)[Name]>;
type FileOf<Name extends SchedulerName> = Omit<Parsed<Name>, 'partitions'> & {
  scheduler: Name;
  /** `deviceId`: the id of the partition as one of the gateway's devices. */
  partitions: (Parsed<Name>['partitions'][number] & { deviceId: string })[];
};
export type SlurmFile = FileOf<'slurm'>;
export type KubernetesFile = FileOf<'kubernetes'>;
/** A cluster as the gateway's owner describes it. */
export type FleetFile = SlurmFile | KubernetesFile;
/** The part of a partition's settings that does not depend on the scheduler. */
export type PartitionSettings = Pick<FleetFile['partitions'][number], 'partition' | 'deviceId' | keyof typeof pilots>;

/** JSON Schema of the file, for editors. */
export const fleetSchema = (scheduler: SchedulerName): unknown => ({
  title: `A ${scheduler === 'slurm' ? 'Slurm' : 'Kubernetes'} cluster for flashcore-runner gateway`,
  ...z.toJSONSchema(SCHEDULERS[scheduler], {
    io: 'input',
    // Leaves out the default of `scratch`, which contains this user's name.
    override: ({ jsonSchema, path }) => {
      if (path.at(-1) === 'scratch') delete jsonSchema.default;
    },
  }),
});

/** Reads a fleet file. Errors: UsageError, which names file, line, key, the wanted value and the value found. */
export function readFleetFile(path: string, scheduler: SchedulerName): FleetFile {
  try {
    return parseFleet(readForeignText(path, HAND_WRITTEN_BYTES), path, scheduler);
  } catch (error) {
    if (error instanceof FlashcoreError) throw new UsageError(`--${scheduler} ${error.message}`);
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new UsageError(`--${scheduler} ${path}: cannot be read (${whyUnreadable(error)})`);
  }
}

/** Errors: INVALID_MANIFEST. */
export function parseFleet(source: string, path: string, scheduler?: 'slurm'): SlurmFile;
export function parseFleet(source: string, path: string, scheduler: 'kubernetes'): KubernetesFile;
export function parseFleet(source: string, path: string, scheduler: SchedulerName): FleetFile;
export function parseFleet(source: string, path: string, scheduler: SchedulerName = 'slurm'): FleetFile {
  const schema: z.ZodType<Parsed<SchedulerName>> = SCHEDULERS[scheduler];
  const file = yamlFile.parseYamlFile(source, path, schema);
  const all: readonly Omit<PartitionSettings, 'deviceId'>[] = file.value.partitions;
  if (all.length === 0)
    throw file.refuse([{ key: ['partitions'], message: 'must have at least one partition, got none' }]);
  const names = all.map(({ partition }) => partition.toLowerCase());
  const faults = all.flatMap(({ partition, min, max }, index) => [
    ...(names.indexOf(names[index]!) < index
      ? [{ key: ['partitions', index, 'partition'], message: `must be listed once, got ${partition} twice` }]
      : []),
    ...(min > max ? [{ key: ['partitions', index, 'min'], message: `must be at most max (${max}), got ${min}` }] : []),
  ]);
  if (faults.length > 0) throw file.refuse(faults);
  const partitions = all.map((one, index) => ({ ...one, deviceId: `${scheduler}:${names[index]!}` }));
  return { ...file.value, scheduler, partitions } as FleetFile;
}
