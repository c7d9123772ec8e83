import { create } from '@bufbuild/protobuf';
import {
  FindingKind,
  FindingSchema,
  type FaultLocation,
  type FaultThread,
  type Finding,
  type Shape,
} from '@flashcore/shared/contract';
import { bytesText, entryOf, formatCount } from '@flashcore/shared/text';
import type { CudaFault, EmulatorFault } from '../../worker/messages/channel.ts';
import { describeOutcome } from '../workers/device-worker.ts';
import type { WorkerOutcome } from '../workers/worker-process.ts';

const MAX_THREADS = 64;

/** The emulator's names of faults; any name that is not in the table is a failed launch. */
const EMULATOR_KINDS: Record<string, FindingKind> = {
  OUT_OF_BOUNDS: FindingKind.OUT_OF_BOUNDS,
  MISALIGNED_ADDRESS: FindingKind.MISALIGNED_ADDRESS,
  DEADLOCK: FindingKind.DEADLOCK,
  RACE: FindingKind.RACE,
  UNINITIALISED_READ: FindingKind.UNINITIALISED_READ,
  INVALID_WARP_MASK: FindingKind.INVALID_WARP_MASK,
  TRAP: FindingKind.TRAP,
  INVALID_BARRIER: FindingKind.TRAP,
  INVALID_COPY: FindingKind.TRAP,
  UNFINISHED_PRODUCT: FindingKind.RACE,
  UNFENCED_PRODUCT: FindingKind.RACE,
  ASSERT: FindingKind.TRAP,
  TIMED_OUT: FindingKind.TIMED_OUT,
  STATIC_SHARED_TOO_LARGE: FindingKind.SMEM_LIMIT,
};

const CUDA_KINDS: Record<string, FindingKind> = {
  CUDA_ERROR_ILLEGAL_ADDRESS: FindingKind.OUT_OF_BOUNDS,
  CUDA_ERROR_MISALIGNED_ADDRESS: FindingKind.MISALIGNED_ADDRESS,
  CUDA_ERROR_INVALID_ADDRESS_SPACE: FindingKind.OUT_OF_BOUNDS,
  CUDA_ERROR_INVALID_PC: FindingKind.OUT_OF_BOUNDS,
  CUDA_ERROR_ASSERT: FindingKind.TRAP,
  CUDA_ERROR_ILLEGAL_INSTRUCTION: FindingKind.TRAP,
  CUDA_ERROR_LAUNCH_TIMEOUT: FindingKind.TIMED_OUT,
  CUDA_ERROR_OUT_OF_MEMORY: FindingKind.OUT_OF_MEMORY,
};

const REMEDIES: Partial<Record<FindingKind, string>> = {
  [FindingKind.OUT_OF_BOUNDS]:
    "Check this index against the tensor's extent (guards of ragged tiles, strides), and the launch in kernel.yaml: its grid and the order of its arguments",
  [FindingKind.MISALIGNED_ADDRESS]:
    'A vector access needs an address that is a multiple of its width: align row strides and offsets, or use narrower loads',
  [FindingKind.DEADLOCK]: 'All threads that a barrier counts must reach it, or none: move it out of the branch',
  [FindingKind.RACE]:
    'Put a __syncthreads() between the two accesses; a __syncwarp() is enough only if no thread of another warp reads or writes there',
  [FindingKind.UNINITIALISED_READ]:
    'Write it first, or do not read it: rows past the end of a ragged tile and a first iteration that reads what the second one writes are the usual suspects',
  [FindingKind.INVALID_WARP_MASK]:
    'Every lane that calls a warp operation must be in its mask: remove __activemask(), or call it before the branch',
  [FindingKind.TRAP]: 'Find out why the condition of the assertion or trap does not hold',
  [FindingKind.TIMED_OUT]: 'Look for a loop or a wait whose condition never changes',
  [FindingKind.OUT_OF_MEMORY]: 'Use a smaller shape, or a smaller workspace',
  [FindingKind.MISSING_ENTRY]: 'Declare it as extern "C" __global__, or name the right entry in kernel.yaml',
  [FindingKind.SMEM_LIMIT]: 'Smaller tiles, fewer stages, or half instead of float for what is staged in shared memory',
  [FindingKind.CRASHED]: 'The worker process itself died; the log has its last lines',
  [FindingKind.LAUNCH_FAILED]:
    'Compare grid, block, shared memory and arguments in kernel.yaml with what the kernel expects',
};

const CUDA_REMEDIES: Record<string, string | undefined> = {
  CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
    'Launch at most as many CTAs as the device keeps resident, and let each take several tiles; or wait for no other CTA and leave `cooperative` out of kernel.yaml',
};

const EMULATOR_REMEDIES: Record<string, string | undefined> = {
  INVALID_BARRIER:
    'Initialize the mbarrier for as many arrivals as a phase has, in one thread, and put a barrier of the block (of the cluster, if other blocks use it) before its first use',
  INVALID_COPY:
    'A bulk copy needs a multiple of 16 bytes, a tensor map from cuTensorMapEncodeTiled with as many dimensions as it names coordinates, and an initialized mbarrier that counts its bytes',
  UNFINISHED_PRODUCT: 'Put a wgmma.wait_group between the product and the first use of its accumulators',
  UNFENCED_PRODUCT:
    'Put a wgmma.fence between the instructions that change the registers of the product and the product itself',
  UNSUPPORTED_INSTRUCTION:
    "The emulator's PTX engine does not support this instruction (docs/emulator.md lists those that it supports): run the kernel on a GPU",
};

/** The finding about a kernel whose run failed; undefined if the run ended well or the runner is at fault. */
export function findingOf(outcome: WorkerOutcome<unknown>, shape: Shape): Finding | undefined {
  switch (outcome.status) {
    case 'done':
    case 'failed':
      return undefined;
    case 'fault':
      return faultFinding(outcome.fault, shape);
    case 'time-limit':
      return simpleFinding(
        FindingKind.TIMED_OUT,
        `The launch did not end within ${(outcome.limitMs / 1000).toFixed(1)} s, a limit that grows with the FLOPs of the shape, and was killed`,
        shape,
      );
    case 'crashed':
      return simpleFinding(
        FindingKind.CRASHED,
        `${describeOutcome(outcome)}${isUnexplained(outcome) ? UNKNOWN : ''}`,
        shape,
      );
  }
}

/**
 * Whether nobody can tell who killed the process: the system kills a process that takes too much memory, and a process
 * can kill itself with the same exit status.
 */
const isUnexplained = ({ signalName, lastWords }: Extract<WorkerOutcome<unknown>, { status: 'crashed' }>): boolean =>
  signalName === 'SIGKILL' && lastWords === '';
const UNKNOWN = '. Either the kernel did that, or the host for lack of memory: run it again';

function simpleFinding(kind: FindingKind, message: string, shape: Shape): Finding {
  return create(FindingSchema, { kind, message, remedy: REMEDIES[kind] ?? '', shape });
}

function faultFinding(fault: CudaFault, shape: Shape): Finding {
  const kind = kindOf(fault);
  const { emulator } = fault;
  return create(FindingSchema, {
    kind,
    message: emulator
      ? messageOf(emulator, fault.buffer)
      : `${fault.call} failed with ${fault.name}${fault.description ? `: ${fault.description}` : ''}`,
    remedy: remedyOf(kind, fault),
    ...(emulator && {
      location: locationOf(emulator, fault.buffer),
      threads: threadsOf(emulator),
      threadCount: emulator.threads_total ?? emulator.threads?.length ?? 0,
    }),
    cudaError: fault.name,
    shape,
  });
}

const OF_ARRAYS =
  "Check this index against the array's extent: strides, tile extents and the number of threads decide it";

// For a load whose value is only stored, compilers record the line of the store.
const OF_READS = '; a read may be reported at the line that stores its value';

function remedyOf(kind: FindingKind, { emulator, name }: CudaFault): string {
  const known = emulator ? entryOf(EMULATOR_REMEDIES, emulator.kind) : entryOf(CUDA_REMEDIES, name);
  const inArray = kind === FindingKind.OUT_OF_BOUNDS && /\bshared (?:array|memory)\b/.test(emulator?.message ?? '');
  const remedy = known ?? (inArray ? OF_ARRAYS : (REMEDIES[kind] ?? ''));
  return kind === FindingKind.OUT_OF_BOUNDS && emulator?.access === 'read' && emulator.place !== undefined
    ? `${remedy}${OF_READS}`
    : remedy;
}

function kindOf(fault: CudaFault): FindingKind {
  if (fault.call === 'cuModuleGetFunction' && fault.name === 'CUDA_ERROR_NOT_FOUND') return FindingKind.MISSING_ENTRY;
  if (fault.call === 'cuFuncSetAttribute') return FindingKind.SMEM_LIMIT;
  if (fault.emulator) return entryOf(EMULATOR_KINDS, fault.emulator.kind) ?? FindingKind.LAUNCH_FAILED;
  return entryOf(CUDA_KINDS, fault.name) ?? FindingKind.LAUNCH_FAILED;
}

/**
 * Whether the emulator gives the address relative to a variable of the module. A tensor near this address is then there
 * by chance.
 */
const isVariable = ({ buffer }: EmulatorFault): boolean => buffer?.includes('__device__') ?? false;

const OWN_WORDS = ['RACE', 'UNINITIALISED_READ'];

const ACCESSES: Record<string, string> = { read: 'read', write: 'wrote' };

/** The emulator names allocations; the message names the tensor instead. */
function messageOf(fault: EmulatorFault, buffer: string | undefined): string {
  // Keeps the emulator's own text, which names both threads of a race, and replaces only the allocation's name.
  if (!buffer || isVariable(fault) || !fault.thread || !fault.block || OWN_WORDS.includes(fault.kind))
    return inWords(
      shorten(
        buffer && fault.buffer && !isVariable(fault) ? fault.message.replace(fault.buffer, buffer) : fault.message,
      ),
      fault.bytes,
    );
  const width = fault.bytes ? ` ${bytesText(fault.bytes)}` : '';
  // Gives "read 16 bytes, 384 bytes past the end of K", but "read 4 bytes at V + 2 bytes".
  const where = /^\d/.test(buffer) ? `, ${buffer}` : ` at ${buffer}`;
  const place = fault.place ? `, at ${shorten(fault.place)}` : '';
  const why = fault.kind === 'MISALIGNED_ADDRESS' ? ', an address that is not a multiple of its width' : '';
  const lanes = lanesOf(fault);
  return `Thread ${triple(fault.thread)} of block ${triple(fault.block)}${lanes} ${entryOf(ACCESSES, fault.access ?? '') ?? 'accessed'}${width}${where}${why}${place}`;
}

const MOST_ELEMENT_BYTES = 8;

/**
 * The emulator's text for people: "wrote 1152 bytes past the end" becomes "wrote 2 bytes, 1,152 bytes past the end",
 * and "byte 1728 of V_smem (static shared memory)" names the element too.
 */
function inWords(text: string, width = 0): string {
  const accessed = width > 0 ? ` ${bytesText(width)},` : ' at';
  return text
    .replace(/\b(read|wrote|accessed) (?=\d+ bytes (?:past|before) )/, `$1${accessed} `)
    .replace(/\bbyte (\d+) of (\w+) \(static shared memory\)/, (all, byte: string, name: string) =>
      width > 0 && width <= MOST_ELEMENT_BYTES && Number(byte) % width === 0
        ? `byte ${byte} of ${name} (element ${formatCount(Number(byte) / width)} of ${bytesText(width)}, static shared memory)`
        : all,
    )
    .replace(/\bbyte (\d{4,})\b/g, (_, byte: string) => `byte ${formatCount(Number(byte))}`)
    .replace(/, which has (\d+)(?=:|$)/, (_, bytes: string) => `, which has ${formatCount(Number(bytes))} bytes`)
    .replace(/\b\d{4,}(?= bytes\b)/g, (count) => formatCount(Number(count)));
}

/** For example " (warp 1, lanes 8 to 31)", if the emulator reports the lanes. */
function lanesOf({ warp, lanes }: EmulatorFault): string {
  if (warp === undefined || !lanes) return '';
  const numbers = Array.from({ length: 32 }, (_, lane) => lane).filter((lane) => (lanes >>> lane) & 1);
  const first = numbers[0]!;
  const last = numbers.at(-1)!;
  if (first === last) return ` (warp ${warp}, lane ${first})`;
  const inARow = last - first === numbers.length - 1;
  return ` (warp ${warp}, lanes ${inARow ? `${first} to ${last}` : numbers.join(', ')})`;
}

function locationOf(fault: EmulatorFault, buffer: string | undefined): Omit<FaultLocation, '$typeName'> {
  const [, file = '', line = '0'] = /^(.*):(\d+)$/.exec(shorten(fault.place ?? '')) ?? [];
  return {
    file,
    line: Number(line),
    block: fault.block ?? [],
    thread: fault.thread ?? [],
    address: fault.address,
    buffer: isVariable(fault) ? fault.buffer : (buffer ?? fault.buffer),
    access: fault.access,
    accessBytes: fault.bytes ?? 0,
  };
}

/** The first few threads at each place where threads wait, so that every such place is shown. */
function threadsOf(fault: EmulatorFault): Omit<FaultThread, '$typeName'>[] {
  const threads = fault.threads ?? [];
  const byPlace = Map.groupBy(threads, ({ waits_at }) => waits_at);
  const share = Math.max(1, Math.floor(MAX_THREADS / Math.max(1, byPlace.size)));
  const chosen = [...byPlace.values()].flatMap((group) => group.slice(0, share)).slice(0, MAX_THREADS);
  return chosen.map(({ thread, waits_at }) => ({ thread, block: fault.block ?? [], place: placeText(waits_at) }));
}

/** "waits at __syncthreads, k.cu:31", or for an access "writes at k.cu:39". */
const placeText = (place: string): string => shorten(place).replace(/^(read|write)(?= at )/, '$1s');

const triple = (index: readonly number[]): string => `(${index.join(',')})`;
/** Removes the "./" of the build folder. */
const shorten = (text: string): string => text.replace(/(^|\s)(?:\.\/)+/g, '$1');
