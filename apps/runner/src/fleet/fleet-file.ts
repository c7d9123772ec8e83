import * as z from 'zod';
import { FlashcoreError } from '@flashcore/shared/contract';
import { HAND_WRITTEN_BYTES, readForeignText, whyUnreadable } from '@flashcore/shared/files';
import { yamlFile } from '@flashcore/shared/kernels';
import { UsageError } from '../usage-error.ts';

const { strict, text, integer, matching, oneOf, listOf } = yamlFile;

/** As Slurm takes names of partitions, accounts and the like; none can be mistaken for an option. */
const name = () =>
  matching(/^[A-Za-z0-9][A-Za-z0-9._,:+-]{0,63}$/, 'a name as Slurm has it: letters, digits, "._,:+-"');

const partition = strict({
  /** The scheduler's name of it. */
  partition: name(),
  /** The model of its GPUs as the driver names it, for example "NVIDIA H200"; "emulator" for nodes without one. */
  device: text(),
  /** What a pilot asks for. */
  gres: name().default('gpu:1'),
  /** Fewest and most pilots at a time. */
  min: integer(0, 10_000).default(0),
  max: integer(1, 10_000),
  /** A pilot that had no job for so long ends. */
  idle_seconds: integer(1, 86_400).default(120),
  time_limit_minutes: integer(2, 43_200).default(60),
  cpus: integer(1, 1_024).optional(),
  memory_mib: integer(256, 16_777_216).optional(),
  account: name().optional(),
  qos: name().optional(),
  constraint: name().optional(),
});

export const DEFAULT_SCRATCH_GIB = 20;

const fleet = strict({
  /** Where pilots register. */
  listen: text(),
  /** How nodes reach it; it stands in the pilots' script. */
  reach: matching(/^(?:unix:\/[\w./-]{1,100}|[\w.[\]:-]{1,200}:\d{1,5})$/, 'host:port'),
  /** Folder of the runner's bundle on every node. */
  bundle: matching(/^\/[^\n]{1,200}$/, 'an absolute path'),
  /** Folder on every node for what pilots keep between jobs. */
  scratch: matching(/^\/[^\n]{1,200}$/, 'an absolute path').default(
    () => `/tmp/flashcore-pilot-${process.getuid?.() ?? 0}`,
  ),
  /** Most that a pilot's folder in it keeps of what was built and measured; a node has one for each GPU. */
  scratch_gib: integer(1, 100_000).default(DEFAULT_SCRATCH_GIB),
  /** Certificate of the authority that signed the gateway's, by its path on every node; needed with TLS. */
  tls_ca: matching(/^\/[^\n]{1,200}$/, 'an absolute path').optional(),
  /** Where kernels are compiled. */
  builds: strict({
    /** The gateway's own processors, before a GPU is taken; or the pilots' nodes. */
    at: oneOf(['gateway', 'pilots']).default('gateway'),
    /** Jobs that the gateway builds at once; default: a processor less than it has. */
    at_once: integer(1, 1_024).optional(),
  }).prefault({}),
  partitions: listOf(partition),
});

/** A cluster as the gateway's owner describes it. */
export type FleetFile = z.output<typeof fleet>;
export type PartitionSettings = z.output<typeof partition>;

/** Reads a fleet file. Errors: UsageError, which names file, line, key, what was wanted and what came. */
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
