import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { fleetSchema, parseFleet } from './fleet-file.ts';

const GOOD = `
listen: 127.0.0.1:50052
reach: gateway:50052
bundle: /opt/flashcore
partitions:
  - { partition: gpu, device: NVIDIA H200, max: 4 }
`;

test('every key that a file may omit has a default', () => {
  expect(parseFleet(GOOD, 'fleet.yaml')).toMatchObject({
    scratch: `/tmp/flashcore-pilot-${process.getuid!()}`,
    scratch_gib: 20,
    partitions: [{ partition: 'gpu', gres: 'gpu:1', min: 0, max: 4, idle_seconds: 120, time_limit_minutes: 60 }],
  });
});

test.each([
  ['an unknown key', 'max: 4', 'max: 4, mx: 2', 'fleet.yaml:6: partitions[0]: unknown key "mx" (did you mean "max"'],
  ['a minimum above the maximum', 'max: 4', 'max: 4, min: 5', 'partitions[0].min: must be at most max (4), got 5'],
  [
    'a partition whose name sbatch would read as an option',
    'partition: gpu',
    'partition: --wrap=x',
    'must be a name as Slurm has it',
  ],
  [
    'an option of sbatch that the gateway sets',
    'max: 4',
    'max: 4, sbatch: [--comment=x, --wra=reboot]',
    'partitions[0].sbatch[1]: must be an option that flashcore does not give itself',
  ],
  [
    'a word that is not an option',
    'max: 4',
    'max: 4, sbatch: [reboot]',
    'must be an option of sbatch as --name or --name=value',
  ],
  [
    'a path with a line break, which would add a line to the pilots’ script',
    '/opt/flashcore',
    '"/opt/a\\nreboot"',
    'bundle: must be an absolute path',
  ],
])('%s is refused with its line or key', (_, good, bad, wanted) => {
  expect(() => parseFleet(GOOD.replace(good, bad), 'fleet.yaml')).toThrow(wanted);
});

test('a file without a partition is refused', () => {
  expect(() => parseFleet(GOOD.replace(/partitions:[^]*/, 'partitions: []'), 'fleet.yaml')).toThrow(
    'partitions: must have at least one partition, got none',
  );
});

test('a partition that is listed twice is refused', () => {
  const twice = `${GOOD}  - { partition: GPU, device: NVIDIA H200, max: 1 }\n`;
  expect(() => parseFleet(twice, 'fleet.yaml')).toThrow('partitions[1].partition: must be listed once');
});

test.each([
  ['slurm', 'fleet.json'],
  ['kubernetes', 'fleet-kubernetes.json'],
] as const)("the published schema of a %s file equals the program's", (scheduler, name) => {
  const published = readFileSync(new URL(`../../../../docs/schemas/${name}`, import.meta.url), 'utf8');
  expect(JSON.parse(published)).toEqual(JSON.parse(JSON.stringify(fleetSchema(scheduler))));
});

test('the files shown in docs/fleet.md are valid', () => {
  const page = readFileSync(new URL('../../../../docs/fleet.md', import.meta.url), 'utf8');
  const [slurm, kubernetes] = [...page.matchAll(/^```yaml\n([^]*?)^```$/gm)].map(([, text]) => text!);
  expect(parseFleet(slurm!, 'slurm').partitions[0]!.deviceId).toBe('slurm:gpu');
  expect(parseFleet(kubernetes!, 'kubernetes', 'kubernetes').partitions[0]!.deviceId).toBe('kubernetes:h200');
});
