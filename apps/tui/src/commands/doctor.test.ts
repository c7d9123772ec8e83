import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { DeviceState, HostSchema, type Host } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { runnerChecks, type Check } from './doctor.ts';

const NOW_MS = 1_800_000_000_000;
const EMULATOR = { deviceId: 'emulator', name: 'CPU emulator', arch: 'sm_89', simulated: true };
const GPU = { deviceId: 'gpu0', name: 'NVIDIA L4', arch: 'sm_89' };

type HostFields = Omit<MessageInitShape<typeof HostSchema>, '$typeName'>;

/** The checks of a host that has everything except for `fields`. The host answers within a tenth of a second. */
function checksOf(fields: HostFields = {}) {
  const host: Host = create(HostSchema, {
    runnerVersion: packageJson.version,
    platform: 'linux x86-64',
    devices: [EMULATOR],
    tools: ['emulator', 'g++', 'bwrap'].map((name) => ({ name, version: '12' })),
    isolation: { kind: 'bubblewrap' },
    freeDiskBytes: 2n ** 40n,
    time: timestampFromMs(NOW_MS + 50),
    ...fields,
  });
  return runnerChecks({ host, askedMs: NOW_MS, answeredMs: NOW_MS + 100 }).filter(({ state }) => state !== 'ok');
}

const missing = (name: string) => ({ name, missing: `no ${name}` });

test('a host that lacks nothing passes every check', () => {
  expect(checksOf()).toEqual([]);
});

test.each<[what: string, fields: HostFields, expected: Partial<Record<keyof Check, string | RegExp>>]>([
  ['another version', { runnerVersion: '0.0.9' }, { name: 'runner', state: 'limited' }],
  ['no device', { devices: [] }, { name: 'device', state: 'failed', fix: /apt-get install/ }],
  [
    'a GPU that did not come back',
    { devices: [{ ...GPU, state: DeviceState.QUARANTINED, stateReason: 'it hangs' }] },
    { name: 'device gpu0', state: 'limited', found: /it hangs/ },
  ],
  [
    'no C++ compiler',
    { tools: [missing('g++')] },
    { name: /^g\+\+$/, state: 'failed', why: /^no g\+\+$/, fix: /^apt-get install g\+\+$/ },
  ],
  [
    'the same on a Mac',
    { platform: 'darwin aarch64', tools: [missing('g++')] },
    { state: 'failed', fix: 'xcode-select --install' },
  ],
  ['no engine and no GPU', { tools: [missing('emulator')] }, { name: 'emulator', state: 'failed' }],
  ['no engine beside a GPU', { devices: [GPU], tools: [missing('emulator')] }, { state: 'limited' }],
  ['no ncu', { tools: [missing('ncu')] }, { name: 'ncu', state: 'limited' }],
  [
    'no bwrap, with advice of the runner',
    { tools: [{ ...missing('bwrap'), missing: 'jobs run unboxed: install bubblewrap' }] },
    { name: 'bwrap', why: 'jobs run unboxed', fix: 'apt-get install bubblewrap' },
  ],
  ['a tool that this client does not know', { tools: [missing('x')] }, { fix: /docs\// }],
  ['no sandbox', { isolation: { kind: 'none', detail: 'none' } }, { name: 'sandbox', fix: /bubblewrap/ }],
  ['a full disk', { freeDiskBytes: 1000n }, { name: 'disk', found: /1000 B free/ }],
  ['a runner of before', { freeDiskBytes: undefined, time: undefined }, { name: 'disk', state: 'limited' }],
  ['a clock ahead', { time: timestampFromMs(NOW_MS + 3600_100) }, { found: "3,600 s ahead of the client's" }],
  ['a clock behind', { time: timestampFromMs(NOW_MS - 5000) }, { found: "5 s behind the client's" }],
])('reports what is wrong with %s', (_, fields, expected) => {
  const [first] = checksOf(fields);
  for (const [key, value] of Object.entries(expected))
    expect(first![key as keyof Check], key).toMatch(value instanceof RegExp ? value : new RegExp(`^${value}$`));
  expect([first!.why, first!.fix]).not.toContain('');
});
