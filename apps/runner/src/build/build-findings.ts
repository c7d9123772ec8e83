import { create } from '@bufbuild/protobuf';
import { FindingKind, FindingSchema, type EntryResources, type Finding } from '@flashcore/shared/contract';
import { archLimits, registersPerCta } from '@flashcore/shared/kernels';
import { formatCount } from '@flashcore/shared/text';
import type { CompilerDiagnostic } from './diagnostics.ts';
import type { SmemExcess } from './ptxas-report.ts';
import { HOW_TO_GET_PTX } from './compilers.ts';
import type { SharedBuffer } from './shared-buffers.ts';

const kilobytes = (bytes: number): string => `${(bytes / 1024).toFixed(1)} KiB`;

/** Names the buffers that make up the static shared memory, and the bytes that half instead of float would save. */
export function smemLimitFinding({ entry, bytes, limitBytes }: SmemExcess, buffers: readonly SharedBuffer[]): Finding {
  const listed = buffers
    .map(
      ({ declaration, line, bytes: size }) =>
        `${declaration}${size === undefined ? '' : ` ${kilobytes(size)}`} (line ${line})`,
    )
    .join(', ');
  const floats = buffers
    .filter(({ type, bytes: size }) => type === 'float' && size !== undefined)
    .reduce((sum, { bytes: size }) => sum + size!, 0);
  const saving =
    floats > 0
      ? `Half instead of float would save ${kilobytes(floats / 2)}, leaving ${kilobytes(bytes - floats / 2)}. `
      : '';
  return create(FindingSchema, {
    kind: FindingKind.SMEM_LIMIT,
    message: `${entry} uses ${kilobytes(bytes)} of static shared memory, ${kilobytes(limitBytes)} is the most${listed ? `: ${listed}` : ''}`,
    remedy: `${saving}More than ${kilobytes(limitBytes)} is only possible as dynamic shared memory, which the manifest's shared_bytes asks for.`,
    ...(buffers[0] && { location: { file: buffers[0].file, line: buffers[0].line } }),
  });
}

/** For static plus dynamic shared memory above the architecture's opt-in limit for a CTA. */
export function dynamicSmemFinding(entry: EntryResources): Finding | undefined {
  const limit = archLimits(entry.arch)?.smemPerCtaOptinBytes;
  const bytes = entry.staticSmemBytes + entry.dynamicSmemBytes;
  if (limit === undefined || bytes <= limit) return undefined;
  return create(FindingSchema, {
    kind: FindingKind.SMEM_LIMIT,
    message: `${entry.entry} needs ${kilobytes(bytes)} of shared memory a CTA (${kilobytes(entry.staticSmemBytes)} static, ${kilobytes(entry.dynamicSmemBytes)} dynamic), ${entry.arch} allows ${kilobytes(limit)}`,
    remedy: 'Smaller tiles, fewer stages, or half instead of float for what is staged in shared memory',
  });
}

/** For a CTA that needs more registers than an SM has; the driver refuses such a launch. */
export function registerFileFinding(entry: EntryResources): Finding | undefined {
  const limit = archLimits(entry.arch)?.registersPerSm;
  const registers = registersPerCta(entry.registersPerThread, entry.threadsPerCta);
  if (limit === undefined || registers <= limit) return undefined;
  return create(FindingSchema, {
    kind: FindingKind.LAUNCH_FAILED,
    message: `${entry.entry} can't be launched on ${entry.arch}: ${entry.threadsPerCta} threads with ${entry.registersPerThread} registers take ${registers} registers a CTA, an SM has ${limit}`,
    remedy: `Declare the threads of a CTA with __launch_bounds__(${entry.threadsPerCta}), which limits the registers that the compiler uses, set maxrregcount, or launch fewer threads`,
  });
}

export function spillFinding(entry: EntryResources): Finding | undefined {
  if (entry.spillStoreBytes + entry.spillLoadBytes === 0) return undefined;
  return create(FindingSchema, {
    kind: FindingKind.REGISTER_SPILLS,
    message: `${entry.entry} spills on ${entry.arch}: ${formatCount(entry.spillStoreBytes)} bytes of stores, ${formatCount(entry.spillLoadBytes)} bytes of loads, with ${entry.registersPerThread} registers per thread`,
    remedy:
      'Shorten the live ranges of fragments, keep big arrays out of registers, raise maxrregcount or relax __launch_bounds__',
  });
}

export function compileFailedFinding(diagnostics: readonly CompilerDiagnostic[]): Finding {
  const errors = diagnostics.filter(({ severity }) => severity === 'error');
  const first = errors.find(({ line }) => line > 0) ?? errors[0];
  const more = errors.length > 1 ? `, and ${errors.length - 1} more` : '';
  return create(FindingSchema, {
    kind: FindingKind.COMPILE_FAILED,
    message: first
      ? `${place(first)}${first.message} (${first.tool}${more})`
      : 'The compiler failed without naming a place; its output is in the log',
    remedy: first ? remedyOf(first) : "Read the compiler's output in the log",
    ...(first && { location: { file: first.file, line: first.line } }),
  });
}

// Messages of the GNU assembler about PTX, of g++ about constraints ("=h", "f"), and of clang's own assembler.
const INLINE_ASSEMBLY =
  /impossible constraint in|output constraint \d+ must|invalid (?:input|output) constraint .* in asm|invalid instruction mnemonic/;
const MISSING_HEADER = /^'?([\w./+-]+)'?(?:: No such file or directory| file not found)$/;

/** Headers that every kernel may include; they are not in a kernel's own folder. */
const SHARED_HEADER = /^(?:mechanisms|primitives)\//;

function remedyOf({ tool, message, file }: CompilerDiagnostic): string {
  if (tool === 'as' || (tool === 'g++' && INLINE_ASSEMBLY.test(message))) {
    return `The emulator's fibre engine cannot run inline PTX: for the PTX engine, which does, ${HOW_TO_GET_PTX} and start the runner again, or give it a twin under #ifdef FLASHCORE_EMULATOR, as kernels/primitives do`;
  }
  const header = tool === 'g++' ? MISSING_HEADER.exec(message)?.[1] : undefined;
  if (header !== undefined) {
    return `Put ${header} into the kernel's folder if it is yours. Of CUDA's headers the fibre engine has the fp16, bf16, WMMA and pipeline ones (cuda_fp16.h, cuda_bf16.h, mma.h, cuda_pipeline.h): leave another out under #ifndef FLASHCORE_EMULATOR, or install the CUDA toolkit, with whose nvcc the emulator runs PTX and takes all of its headers`;
  }
  if (tool === 'nvrtc' && message.startsWith('cannot open source file')) {
    return "Put it into the kernel's folder if it is yours. NVRTC makes the PTX on this host and takes device code only, with CUDA's headers and a few of the C++ library's: leave host code and its headers out under #ifndef __CUDA_ARCH__, or install the toolkit, whose nvcc takes them";
  }
  const absent = tool === 'clang++' ? MISSING_HEADER.exec(message)?.[1] : undefined;
  if (absent !== undefined) {
    return `Put ${absent} into the kernel's folder if it is yours. Without a CUDA toolkit there are headers for device code only (libs/emulator/device_headers): leave host code and its headers out under #ifndef __CUDA_ARCH__, or install the toolkit, whose nvcc takes them`;
  }
  if (SHARED_HEADER.test(file))
    return `${file} is the runner's own and checks or computes with what the kernel gives it: change the kernel's code or constants; the compiler's output in the log names the lines that led there`;
  // A compiler notices a missing end of a statement at what follows it, which is often the next line.
  if (/^expected (?:a )?["'‘]?;/.test(message)) return 'End the statement here or on the line above, then build again';
  return tool === 'runner' ? "Fix the kernel's folder: nothing was compiled" : 'Fix this line, then build again';
}

export function compileTimedOutFinding(compiler: string, seconds: number): Finding {
  return create(FindingSchema, {
    kind: FindingKind.COMPILE_TIMED_OUT,
    message: `${compiler} was killed after ${seconds.toFixed(0)} s`,
    remedy: 'Look for templates or unrolled loops that grow without bound, and in Python for a loop that never ends',
  });
}

export function missingEntryFinding(missing: readonly string[], found: readonly string[]): Finding {
  return create(FindingSchema, {
    kind: FindingKind.MISSING_ENTRY,
    message: `The manifest launches ${missing.join(', ')}, but the compiled code has ${found.length > 0 ? `only ${found.join(', ')}` : 'no kernel'}`,
    remedy: `Declare it as extern "C" __global__, or name the right entry in kernel.yaml`,
  });
}

/** The number of characters of a file that are searched for kernels. */
const MOST_SEARCHED = 1 << 20;
const KERNEL_NAME =
  /__global__(?:[^;{}()]{0,300}?__launch_bounds__\s{0,9}\([^;{}()]{0,200}\))?[^;{}()]{0,300}?\b(\w{1,200})\s{0,9}\(/g;

/** For an entry whose C++ spelling the compiler rejects. */
export function wrongSpellingFinding(entry: string, said: string, files: readonly { text: string }[]): Finding {
  const kernels = new Set(
    files.flatMap(({ text }) => [...text.slice(0, MOST_SEARCHED).matchAll(KERNEL_NAME)].map(([, name]) => name!)),
  );
  return create(FindingSchema, {
    kind: FindingKind.MISSING_ENTRY,
    message: `The manifest launches ${entry}, and the compiler says: ${said}; the source has ${kernels.size > 0 ? [...kernels].slice(0, 20).join(', ') : 'no kernel'}`,
    remedy: 'Correct the spelling in kernel.yaml: it must name one kernel, with all template arguments',
  });
}

function place({ file, line, column }: CompilerDiagnostic): string {
  if (file === '') return '';
  return `${[file, line, column].filter((part) => part !== 0).join(':')}: `;
}
