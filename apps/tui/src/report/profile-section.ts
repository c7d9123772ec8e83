import { Verdict, type Metric, type ProfileResult } from '@flashcore/shared/contract';
import { artifactText } from './build-section.ts';
import type { ReportFormat } from './format.ts';
import { figure, shapeText } from './numbers.ts';
import { table } from './table.ts';
import { heading, labelled, paragraph } from './text.ts';
import { notMeasured } from '../present/words.ts';

/** Hardware counters, what bounds the kernel and what to try; or why there are none. */
export function profileSection(profile: ProfileResult, format: ReportFormat): string[] {
  if (profile.verdict === Verdict.NOT_MEASURED)
    return [...heading('Profile', '', format), ...paragraph(notMeasured(profile.reason), format, 2, 'yellow')];
  return [
    ...heading('Profile', shapeText(profile.shape), format),
    ...metrics(profile.metrics, 'counter', format),
    ...metrics(profile.stalls, 'stall', format),
    ...labelled('intensity', `${figure(profile.arithmeticIntensity)} FLOP/B`, format),
    ...(profile.bottleneck ? labelled('bound by', profile.bottleneck, format) : []),
    ...profile.advice.flatMap((advice) => labelled('try', `${advice.text} (${advice.evidence})`, format)),
    ...profile.artifacts.flatMap((artifact) => labelled('report', artifactText(artifact), format)),
  ];
}

function metrics(list: readonly Metric[], title: string, format: ReportFormat): string[] {
  if (list.length === 0) return [];
  const columns = [
    { title },
    { title: 'value', align: 'right' as const },
    { title: 'unit' },
    { title: 'source', shrinks: true },
  ];
  return table(
    columns,
    list.map((metric) => [metric.name, figure(metric.value), metric.unit, metric.source]),
    format,
  );
}
