import * as z from 'zod';
import { FlashcoreError, UsageError } from '@flashcore/shared/contract';
import { HAND_WRITTEN_BYTES, readForeignText, whyUnreadable } from '@flashcore/shared/files';
import { yamlFile } from '@flashcore/shared/kernels';

const { strict, text, integer, matching, oneOf, listOf } = yamlFile;

/** A name of a partition, account and the like that Slurm accepts and can't mistake for an option. */
const name = () =>
  matching(/^[A-Za-z0-9][A-Za-z0-9._,:+-]{0,63}$/, 'a name as Slurm has it: letters, digits, "._,:+-"');
const absolutePath = () => matching(/^\/[^\n]{1,200}$/, 'an absolute path');

/** sbatch options that the gateway itself gives, or that would make a job do something other than run a pilot. */
const OWN_OPTIONS = [
  ...['job-name', 'partition', 'gres', 'time', 'signal', 'output', 'error', 'input', 'chdir', 'export', 'export-file'],
  ...['parsable', 'requeue', 'no-requeue', 'wrap', 'array', 'nodes', 'ntasks', 'wait', 'test-only', 'get-user-env'],
  ...['uid', 'gid', 'help', 'usage', 'version', 'quiet', 'verbose', 'hold', 'begin', 'clusters', 'nodelist'],
  ...['account', 'qos', 'constraint', 'cpus-per-task', 'mem', 'reservation', 'exclude'],
];
const MOST_FREE_OPTIONS = 32;

/** Slurm accepts any unambiguous beginning of an option's name. */
const isFree = (option: string): boolean => {
  const [own = ''] = option.slice(2).split('=');
  return !OWN_OPTIONS.some((one) => one.startsWith(own));
};

const freeOption = () =>
  matching(/^--[a-z][a-z-]{1,40}(?:=[^\n]{1,200})?$/, 'an option of sbatch as --name or --name=value').refine(isFree, {
    error: ({ input }) =>
      `wanted an option that flashcore does not give itself and the file has no key for, found ${String(input)}`,
  });

const partition = strict({
  partition: name().describe("Slurm's name of it"),
  device: text().describe('The model of its GPUs as the driver names it, "NVIDIA H200"; emulator: nodes without one'),
  gres: name().default('gpu:1').describe('What a pilot asks for, with a type where the partition has several'),
  min: integer(0, 10_000).default(0).describe('Minimum number of pilots'),
  max: integer(1, 10_000).describe('Maximum number of pilots'),
  idle_seconds: integer(1, 86_400).default(120).describe('A pilot ends after this long without a job'),
  time_limit_minutes: integer(2, 43_200).default(60).describe("A pilot's time limit"),
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

export const DEFAULT_SCRATCH_GIB = 20;

const fleet = strict({
  listen: text().describe('host:port where pilots register'),
  reach: matching(/^(?:unix:\/[\w./-]{1,100}|[\w.[\]:-]{1,200}:\d{1,5})$/, 'host:port').describe(
    'How nodes reach it: host:port, by a name in the certificate',
  ),
  bundle: absolutePath().describe("Folder of the runner's bundle on every node; must be the gateway's own build"),
  scratch: absolutePath()
    .default(() => `/tmp/flashcore-pilot-${process.getuid?.() ?? 0}`)
    .describe("Folder on every node for what pilots keep between jobs, this user's own; default: in /tmp"),
  scratch_gib: integer(1, 100_000)
    .default(DEFAULT_SCRATCH_GIB)
    .describe("Cap on a pilot's cache folder in it; a node has one such folder for each GPU"),
  tls_ca: absolutePath()
    .optional()
    .describe("Certificate of the authority that signed the gateway's, by its path on every node; needed with TLS"),
  setup: absolutePath()
    .optional()
    .describe('A script on every node that /bin/sh reads before a pilot: modules, PATH, LD_LIBRARY_PATH'),
  builds: strict({
    at: oneOf(['gateway', 'pilots'])
      .default('gateway')
      .describe("Where kernels are compiled: by the gateway before a GPU is taken, or on the pilots' nodes"),
    at_once: integer(1, 1_024)
      .optional()
      .describe('Jobs that the gateway builds at once; default: one less than its processors'),
  }).prefault({}),
  partitions: listOf(partition).describe('Parts of the cluster with GPUs of one model'),
});

/** A cluster as the gateway's owner describes it. */
export type FleetFile = z.output<typeof fleet>;
export type PartitionSettings = z.output<typeof partition>;

/** JSON Schema of the file, for editors. */
export const fleetSchema = (): unknown => ({
  title: 'A cluster for flashcore-runner gateway',
  ...z.toJSONSchema(fleet, {
    io: 'input',
    // The default of `scratch` contains this user's name.
    override: ({ jsonSchema, path }) => {
      if (path.at(-1) === 'scratch') delete jsonSchema.default;
    },
  }),
});

/** Reads a fleet file. Errors: UsageError, which names file, line, key, the wanted value and the value found. */
export function readFleetFile(path: string): FleetFile {
  try {
    return parseFleet(readForeignText(path, HAND_WRITTEN_BYTES), path);
  } catch (error) {
    if (error instanceof FlashcoreError) throw new UsageError(`--slurm ${error.message}`);
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new UsageError(`--slurm ${path}: cannot be read (${whyUnreadable(error)})`);
  }
}

/** Errors: INVALID_MANIFEST. */
export function parseFleet(source: string, path: string): FleetFile {
  const file = yamlFile.parseYamlFile(source, path, fleet);
  const { value } = file;
  if (value.partitions.length === 0)
    throw file.refuse([{ key: ['partitions'], message: 'wanted at least one partition, found none' }]);
  const names = value.partitions.map(({ partition: one }) => one.toLowerCase());
  const faults = value.partitions.flatMap(({ partition: one, min, max }, index) => [
    ...(names.indexOf(one.toLowerCase()) < index
      ? [{ key: ['partitions', index, 'partition'], message: `wanted each partition once, found ${one} twice` }]
      : []),
    ...(min > max ? [{ key: ['partitions', index, 'min'], message: `wanted at most max (${max}), found ${min}` }] : []),
  ]);
  if (faults.length > 0) throw file.refuse(faults);
  return value;
}
