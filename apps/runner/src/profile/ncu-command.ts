import { countersOf } from './counters.ts';

/** Wide CSV. `--page` is needed also with --export: without it ncu writes the report but prints nothing. */
const AS_CSV = ['--csv', '--page', 'raw', '--print-units', 'base'] as const;

export interface NcuCommand {
  arch: string;
  metricSet: string;
  /** Counters by Nsight Compute's own names, in addition to those of the set. */
  counters?: readonly string[];
  /** Path of the report, without ".ncu-rep". */
  report: string;
  /** The program that launches the kernel. */
  program: readonly string[];
}

/**
 * Arguments of ncu. The program says which launches to profile, by cuProfilerStart() and cuProfilerStop(). Clocks stay
 * as they are, because locking them changes a machine that others use. Caches stay as the previous launch left them, as
 * for a kernel called in a loop; each of ncu's passes is therefore like a launch of the hot mode.
 */
export function ncuArguments({ arch, metricSet, counters = [], report, program }: NcuCommand): string[] {
  return [
    '--export',
    report,
    '--force-overwrite',
    ...AS_CSV,
    '--clock-control',
    'none',
    '--cache-control',
    'none',
    '--profile-from-start',
    'off',
    ...(metricSet === 'full' ? ['--set', 'full'] : []),
    '--metrics',
    [...new Set([...countersOf(metricSet, arch), ...counters])].join(','),
    ...program,
  ];
}

/** Prints a report's counters as wide CSV. */
export function ncuImportArguments(report: string): string[] {
  return ['--import', `${report}.ncu-rep`, ...AS_CSV];
}

/**
 * ncu's progress from a line such as `==PROF== Profiling "flashcore_v6" - 1 (1/1): 0%....50%....100% - 12 passes`;
 * undefined for other lines.
 */
export function parseProgress(line: string): { kernel: string; passes: number } | undefined {
  const found = /==PROF== Profiling "([^"]+)".*?(?:- (\d+) pass(?:es)?)?\s*$/.exec(line);
  return found ? { kernel: found[1]!, passes: Number(found[2] ?? 0) } : undefined;
}

/** Why ncu read no counter, and what to do about it. */
export function explainFailure(lines: readonly string[], exitCode: number | undefined): string {
  if (lines.some((line) => line.includes('ERR_NVGPUCTRPERM'))) {
    return (
      'the driver permits hardware counters to administrators only (ERR_NVGPUCTRPERM): start the runner as root, or have an administrator load the driver with ' +
      'NVreg_RestrictProfilingToAdminUsers=0 (in /etc/modprobe.d, then reboot); in a container add CAP_SYS_ADMIN'
    );
  }
  const error =
    lines.find((line) => line.startsWith('==ERROR=='))?.replace('==ERROR== ', '') ??
    lines.findLast((line) => line.trim() !== '' && !line.startsWith('==PROF=='));
  return `ncu ${exitCode === undefined ? 'was killed' : `ended with exit status ${exitCode}`}${error ? `: ${error}` : ' and read no counter'}`;
}
