import { expect, test } from 'vitest';
import { smemLimitFinding } from './build-findings.ts';
import { sharedBuffers } from './shared-buffers.ts';

const FILES = [
  {
    path: 'kernel/k.cu',
    text: '#include "sizes.h"\n__shared__ float K_smem[ROWS * HEAD_DIM];\n__shared__ __align__(16) half Q_smem[ROWS][HEAD_DIM];\n__shared__ Thing odd[3];\n',
  },
  { path: 'kernel/sizes.h', text: 'constexpr int HEAD_DIM = 64;\nconstexpr int ROWS = BLOCK_Q + 2;\n' },
];

test('sharedBuffers() evaluates sizes over constants and parameters', () => {
  expect(
    sharedBuffers(FILES, { BLOCK_Q: 90 }).map(({ declaration, bytes, line }) => [declaration, bytes, line]),
  ).toEqual([
    ['float K_smem[ROWS * HEAD_DIM]', 92 * 64 * 4, 2],
    ['half Q_smem[ROWS][HEAD_DIM]', 92 * 64 * 2, 3],
    ['Thing odd[3]', undefined, 4],
  ]);
});

test('smemLimitFinding() names the buffers and the bytes that half instead of float would save', () => {
  const finding = smemLimitFinding(
    { entry: 'k', bytes: 70_656, limitBytes: 49_152 },
    sharedBuffers(FILES.slice(0, 2), { BLOCK_Q: 90 }).slice(0, 1),
  );
  expect([finding.message, finding.remedy]).toEqual([
    'k uses 69.0 KiB of static shared memory, 48.0 KiB is the most: float K_smem[ROWS * HEAD_DIM] 23.0 KiB (line 2)',
    "Half instead of float would save 11.5 KiB, leaving 57.5 KiB. More than 48.0 KiB is only possible as dynamic shared memory, which the manifest's shared_bytes asks for.",
  ]);
});
