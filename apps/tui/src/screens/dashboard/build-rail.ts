/** The build's resources in two rows, each figure the maximum over all entries. */
import { JobState, Phase } from '@flashcore/shared/contract';
import { notice } from '../../present/blocks.ts';
import { noticeRows } from '../../present/cells/cells-painter.ts';
import { flowRows, run, wrapRows, type Row } from '../../present/cells/row.ts';
import { counted, formatBytes, formatPercent, formatSeconds } from '../../present/numbers.ts';
import type { VariantView } from '../../state/job-view.ts';
import { mostOf } from '../../state/pinned.ts';
import { attachedJob, busyHostText, clockOf, shownVariant } from '../../state/selectors.ts';
import { nothingYet } from '../pane/nothing.ts';
import type { View } from '../pane/view.ts';

export const buildRail: View = ({ state }, size) => {
  const job = attachedJob(state);
  const variant = shownVariant(state);
  const build = variant?.build;
  const title = `Build${build === undefined || build.arch === '' ? '' : ` ${build.arch}`}`;
  if (variant !== undefined && build !== undefined)
    return {
      title,
      ...(build.succeeded && { remark: '4: profile' }),
      body: (build.succeeded ? figures(variant, size.width) : failure(variant, size.width)).slice(0, size.height),
    };
  const phase = job?.phases.at(-1);
  if (job?.state === JobState.RUNNING && phase?.phase === Phase.BUILD && phase.endTime === undefined) {
    const busy = busyHostText(state);
    return {
      title,
      body: [
        [
          run('● ', 'accent'),
          run('compiling'),
          run(` ${formatSeconds((clockOf(state, job) - phase.startTime) / 1000)}`, 'dim'),
        ],
        ...(phase.note === undefined ? [] : wrapRows(phase.note, size.width, { role: 'dim' })),
        ...(busy === undefined ? [] : wrapRows(busy, size.width, { role: 'warn' })),
      ].slice(0, size.height),
    };
  }
  return { title, body: nothingYet(state, 'build', size).slice(0, size.height) };
};

function figures(variant: VariantView, width: number): Row[] {
  const { build } = variant;
  const registers = mostOf(variant, 'registers_per_thread');
  if (build === undefined || registers === undefined)
    return wrapRows(build?.entriesMissing || 'not measured', width, { role: 'dim' });
  const spills = mostOf(variant, 'spill_bytes') ?? 0;
  const smem = mostOf(variant, 'smem_bytes_per_cta') ?? 0;
  const launched = build.entries.filter(({ occupancyPercent }) => occupancyPercent > 0);
  const least = launched.toSorted((a, b) => a.occupancyPercent - b.occupancyPercent)[0];
  const figure = (value: string, unit: string, isBad = false): Row => [
    run(value, isBad ? 'bad' : 'title'),
    run(` ${unit}`, 'dim'),
  ];
  return [
    ...flowRows(
      [
        figure(String(registers), 'regs'),
        figure(String(spills), 'B spilled', spills > 0),
        figure(formatBytes(smem), 'SMEM'),
        ...(least === undefined
          ? []
          : [
              figure(formatPercent(least.occupancyPercent), 'occ'),
              figure(String(least.ctasPerSm), `CTAs/SM by ${least.occupancyLimiter}`),
            ]),
        [run(build.cacheHit ? 'cached' : `built in ${formatSeconds(build.seconds)}`, 'dim')],
      ],
      width,
    ),
  ];
}

function failure({ diagnostics }: VariantView, width: number): Row[] {
  const errors = diagnostics.filter(({ severity }) => severity === 'error');
  const [first] = errors;
  if (first === undefined) return noticeRows(notice('does not compile', 'bad'), width);
  const place = [first.file, first.line, first.column].filter((part) => part !== '' && part !== 0).join(':');
  return noticeRows(notice(`${counted(errors.length, 'error')}, the first at ${place}`, 'bad'), width);
}
