import { expect, test } from 'vitest';
import { chooseDevice } from '../spec/choose-device.ts';
import { parseFleet } from './fleet-file.ts';
import { expectedDevice } from './partition-devices.ts';

const { partitions } = parseFleet(
  `
listen: 127.0.0.1:1
reach: login:1
bundle: /opt/flashcore
partitions:
  - { partition: gpu, device: NVIDIA H200, max: 4 }
  - { partition: Night, device: NVIDIA H200, max: 4 }
  - { partition: small, device: NVIDIA L4, max: 4 }
`,
  'fleet.yaml',
);
/** Number of jobs of each partition. */
const LOAD: Readonly<Record<string, number>> = { 'slurm:gpu': 5, 'slurm:night': 2, 'slurm:small': 0 };

test.each([
  ['slurm:gpu', 'slurm:gpu'],
  ['slurm:Night', 'slurm:night'],
  ['h200', 'slurm:night'],
  ['NVIDIA L4', 'slurm:small'],
  // "any" selects only partitions that have the same device as the first partition, because another device would judge
  // differently.
  ['any', 'slurm:night'],
  ['', 'slurm:gpu'],
])('--device "%s" selects the partition %s, the least loaded if several match', (asked, wanted) => {
  const devices = partitions.map(expectedDevice);
  expect(chooseDevice({ devices, load: (id) => LOAD[id]! }, asked).deviceId).toBe(wanted);
});

test('an unknown partition or model is refused, and the message lists the known ones', () => {
  const devices = partitions.map(expectedDevice);
  for (const asked of ['slurm:gpux', 'h100'])
    expect(() => chooseDevice({ devices, load: () => 0 }, asked)).toThrow(
      /one of this host's devices \(slurm:gpu, slurm:night, slurm:small\), a model of theirs, or "any"/,
    );
});
