import { create } from '@bufbuild/protobuf';
import {
  FindingKind,
  FindingSchema,
  type Finding,
  type LineProfile,
  type ProfileResult,
} from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';

/** Above this, conflicts are reported; the gate in gates.yaml decides whether they reject the kernel. */
const MAX_CONFLICT_PERCENT = 5;

/** Problems of a kernel that its counters show. */
export function profileFindings({ metrics, shape, lines }: ProfileResult): Finding[] {
  const valueOf = (name: string): number | undefined => metrics.find((metric) => metric.name === name)?.value;
  const share = valueOf('smem_bank_conflict_percent');
  if (share === undefined || share < MAX_CONFLICT_PERCENT || !shape) return [];
  const wavefronts = valueOf('smem_wavefronts_per_request');
  const worst = lines.reduce<LineProfile | undefined>(
    (most, line) => (line.bankConflicts > (most?.bankConflicts ?? 0n) ? line : most),
    undefined,
  );
  return [
    create(FindingSchema, {
      kind: FindingKind.BANK_CONFLICTS,
      message: `${formatShape(shape)}: bank conflicts are ${share.toFixed(1)} % of the shared-memory wavefronts${wavefronts === undefined ? '' : `, and a request takes ${wavefronts.toFixed(1)} of them`}${worst === undefined ? '' : `; most of them at ${worst.file}:${worst.line}`}`,
      remedy:
        'Swizzle the rows of shared-memory tiles by XOR, or pad them, so that the lanes of an access fall into different banks',
      shape,
      ...(worst && { location: { file: worst.file, line: worst.line } }),
    }),
  ];
}
