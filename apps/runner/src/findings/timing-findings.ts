import { create } from '@bufbuild/protobuf';
import { FindingKind, FindingSchema, type Device, type Finding, type Shape } from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import { EMULATOR_TIMES } from '@flashcore/shared/text';
import type { LatencyReport } from '../../worker/messages/measuring.ts';
import { implausibleText, isImplausible, type TimedResult } from './least-time.ts';

export const MAX_DROPPED_SHARE = 0.1;

interface TimedOn {
  device: Device;
  timed: TimedResult;
  shortened?: string | undefined;
}

/** Reasons why a result may not be in a leaderboard; empty if it may. */
export function invalidReasons(report: LatencyReport, { device, timed, shortened }: TimedOn): string[] {
  const reasons: string[] = [];
  if (device.simulated) reasons.push(shortened ? `${EMULATOR_TIMES} (${shortened})` : EMULATOR_TIMES);
  else if (report.stopReason === 'TIMED_OUT')
    reasons.push('the time limit came before the interval of the median was narrow enough');
  const dropped = report.samplesUs.filter((us) => us === 0).length;
  if (dropped > MAX_DROPPED_SHARE * report.samplesUs.length)
    reasons.push(`${dropped} of ${report.samplesUs.length} samples were dropped, because the device slowed down`);
  if (report.throttled > MAX_DROPPED_SHARE * report.samplesUs.length)
    reasons.push(
      `in ${report.throttled} of ${report.samplesUs.length} samples the device was throttled by hardware or heat`,
    );
  if (!report.outputCheck.passed) reasons.push(`the output was wrong ${report.outputCheck.detail}`);
  if (isImplausible(timed)) reasons.push(`implausible: ${implausibleText(timed)}`);
  return reasons;
}

interface TimedShape {
  shape: Shape;
  /** Whether the problem is a user's own, whose symmetries may be wrong; default: false. */
  hasOwnReference?: boolean;
}

/** Findings about a kernel from the timed launches of a shape. */
export function timingFindings(
  reports: readonly LatencyReport[],
  results: readonly TimedResult[],
  { shape, hasOwnReference = false }: TimedShape,
): Finding[] {
  const of = (kind: FindingKind, message: string, remedy: string): Finding =>
    create(FindingSchema, { kind, message: `${formatShape(shape)}: ${message}`, remedy, shape });
  const wrong = reports.find(({ outputCheck }) => !outputCheck.passed);
  const implausible = results.find(isImplausible);
  return [
    ...(wrong
      ? [
          of(
            FindingKind.WRONG_RESULT,
            `right when verified, wrong when timed: ${wrong.outputCheck.detail}`,
            `The kernel must do all of its work in every launch, whatever its inputs: look for state that it keeps, and for a race${hasOwnReference ? '. If a kernel without either fails too, run fa-tui problem check, which tests the symmetries in problem.yaml' : ''}`,
          ),
        ]
      : []),
    ...(implausible
      ? [
          of(
            FindingKind.IMPLAUSIBLE_TIME,
            implausibleText(implausible),
            'Look for work that is left out, or done in fewer bits than fp16; if the kernel is right, the data sheet of the device is wrong (libs/shared/src/kernels/devices.ts)',
          ),
        ]
      : []),
  ];
}
