import { create } from '@bufbuild/protobuf';
import { FindingKind, FindingSchema, type Device, type Finding, type Shape } from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import { EMULATOR_TIMES } from '@flashcore/shared/text';
import type { LatencyReport } from '../../worker/messages/measuring.ts';
import { implausibleText, isImplausible, type TimedResult } from './least-time.ts';

/**
 * Launches on new inputs may take so much longer than on inputs seen before: an H200 repeats its times within 1 %, the
 * emulator's host does not.
 */
export const MAX_FRESH_RATIO = { gpu: 1.1, simulated: 2 };
export const MAX_DROPPED_SHARE = 0.1;

interface TimedOn {
  device: Device;
  timed: TimedResult;
  shortened?: string | undefined;
}

/** Why a result may not stand in a leaderboard; none: it may. */
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
  if (skipsWork(report, device))
    reasons.push(
      `launches take ${report.freshRatio!.toFixed(2)} times as long on inputs that they have not seen before`,
    );
  if (isImplausible(timed)) reasons.push(`implausible: ${implausibleText(timed)}`);
  return reasons;
}

const skipsWork = ({ freshRatio }: LatencyReport, { simulated }: Device): boolean =>
  freshRatio !== undefined && freshRatio > MAX_FRESH_RATIO[simulated ? 'simulated' : 'gpu'];

/** What the timed launches of a shape tell against the kernel. */
export function timingFindings(
  reports: readonly LatencyReport[],
  results: readonly TimedResult[],
  { shape, device }: { shape: Shape; device: Device },
): Finding[] {
  const of = (kind: FindingKind, message: string, remedy: string): Finding =>
    create(FindingSchema, { kind, message: `${formatShape(shape)}: ${message}`, remedy, shape });
  const wrong = reports.find(({ outputCheck }) => !outputCheck.passed);
  const skipping = reports.find((report) => skipsWork(report, device));
  const implausible = results.find(isImplausible);
  return [
    ...(wrong
      ? [
          of(
            FindingKind.WRONG_RESULT,
            `right when verified, wrong when timed: ${wrong.outputCheck.detail}`,
            'The kernel must do all of its work in every launch: look for state that it keeps between launches',
          ),
        ]
      : []),
    ...(skipping
      ? [
          of(
            FindingKind.WORK_SKIPPED,
            `launches take ${skipping.freshRatio!.toFixed(2)} times as long on inputs that they have not seen before`,
            'The kernel must compute every launch anew: look for results that it keeps and finds again',
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
