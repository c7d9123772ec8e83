interface RowKernel {
  /** What the source has before its kernel. */
  readonly before?: string;
  /** More keys of the manifest, a line each. */
  readonly keys?: string;
  /** The body of ROW_KERNEL (kernels/faulty/attend_row.cuh). */
  readonly body: string;
}

/** The files of a kernel with one thread per row of O, for head dimension 64. */
export const rowKernel = <Id extends string>(id: Id, { before = '', keys = '', body }: RowKernel) =>
  ({
    'kernel.yaml': `id: ${id}
title: "${id}"
lesson: "a fixture of a test"
source: ${id}.cu
min_arch: sm_80
math: { inputs: fp16, accumulate: fp32 }
${keys}
launches:
  - { entry: ${id}, grid: ["ceil(S / 64)", "B * H", 1], block: [64, 1, 1], arguments: [Q, K, V, O, S, scale, causal] }
`,
    [`${id}.cu`]: `#include "faulty/attend_row.cuh"
${before}
ROW_KERNEL(${id}) {
  ${body}
}
`,
  }) as Record<'kernel.yaml' | `${Id}.cu`, string>;
