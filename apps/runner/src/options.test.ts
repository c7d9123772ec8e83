import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { defaultLimits } from './sandbox/groups.ts';
import { temporaryFolder } from './testing/test-runner.ts';
import { parseOptions } from './options.ts';
import { formatAddress, parseListenAddress } from './rpc/address.ts';
import { UsageError } from '@flashcore/shared/contract';

const parse = (...argv: string[]) =>
  parseOptions(argv, { version: '1.2.3', repositoryRoot: '/repo', environment: { FLASHCORE_HOME: '/home/data' } });

test('every option has a default', () => {
  expect(parse('serve')).toEqual({
    address: { kind: 'tcp', host: '127.0.0.1', port: 50051 },
    dataDirectory: '/home/data',
    kernelsDirectory: '/repo/kernels',
    problemFolders: [],
    embedded: false,
    idleExitSeconds: 30,
    graceSeconds: 10,
    maxQueued: 64,
    maxStreamsPerClient: 256,
    isolation: 'auto',
    boxLimits: defaultLimits(),
    emulator: true,
    emulatorEngine: 'auto',
    headers: [],
    allowRoot: false,
    security: undefined,
    reflection: true,
    quotas: { jobs: 16, callsPerSecond: 50, uploadMibPerHour: 256, deviceHoursPerDay: 24 },
    rates: new Map(),
    heldOut: undefined,
    metrics: undefined,
    retention: { eventsDays: Infinity, filesDays: Infinity, artifactsGib: Infinity },
    logLevel: 'info',
    host: { libraryCache: undefined, buildCache: undefined, python: 'python3', vectors: 'auto', emulatedDevices: 1 },
  });
});

test('default limits of a gateway grow with the pilots that its file allows', () => {
  using folder = temporaryFolder();
  const file = join(folder.path, 'fleet.yaml');
  const partitions = [5, 3].map((max, index) => `  - { partition: p${index}, device: NVIDIA H200, max: ${max} }`);
  writeFileSync(file, `listen: 127.0.0.1:1\nreach: a:1\nbundle: /b\npartitions:\n${partitions.join('\n')}\n`);
  const limits = (...given: string[]) => {
    const { maxQueued, quotas } = parse('gateway', '--slurm', file, ...given)!;
    return [maxQueued, quotas.jobs, quotas.deviceHoursPerDay, quotas.callsPerSecond];
  };
  expect(limits()).toEqual([512, 128, 192, 50]);
  expect(limits('--max-queued', '7')).toEqual([7, 128, 192, 50]);
});

test('an unknown command is refused with the nearest command', () => {
  expect(() => parse('bogus')).toThrow(new UsageError('Unknown command "bogus"; --help lists them'));
  expect(() => parse('serv')).toThrow(/Unknown command "serv" \(did you mean "serve"/);
});

test('the help names each default once, in words', () => {
  const written = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  expect([parse('serve', '--help'), parse('gc', '--help')]).toEqual([undefined, undefined]);
  const text = written.mock.calls
    .map(([piece]) => String(piece))
    .join('')
    .replace(/\s+/g, ' ');
  written.mockRestore();
  expect(text).toContain('jobs, artifacts and sources (default: $FLASHCORE_HOME, or ~/.flashcore) --');
  expect(text.match(/default: forever/g)).toHaveLength(3);
  expect(text).not.toMatch(/default: (null|false)/);
});

test('device rates come from the flag or, without it, from the environment', () => {
  const rates = (flags: string[], environment: Record<string, string> = {}) =>
    parseOptions(['serve', ...flags], { version: '1', repositoryRoot: '/repo', environment })?.rates;
  expect(rates([], { FLASHCORE_USD_PER_HOUR: 'NVIDIA L4=0.7;NVIDIA H200=3.5' })).toEqual(
    new Map([
      ['NVIDIA L4', 0.7],
      ['NVIDIA H200', 3.5],
    ]),
  );
  expect(rates(['--usd-per-hour', 'NVIDIA H200=4'], { FLASHCORE_USD_PER_HOUR: 'NVIDIA H200=3.5' })).toEqual(
    new Map([['NVIDIA H200', 4]]),
  );
  expect(() => rates(['--usd-per-hour', 'cheap'])).toThrow(UsageError);
});

test('the error about a bad value names its flag or variable and says what the value must be', () => {
  const from = (flags: string[], environment: Record<string, string> = {}) =>
    parseOptions(['serve', ...flags], { version: '1', repositoryRoot: '/repo', environment });
  expect(() => from(['--grace-seconds', 'x'])).toThrow(
    '--grace-seconds: must be a number from 0.001 to 86400, got "x"',
  );
  expect(() => from([], { FLASHCORE_LOG_LEVEL: 'loud' })).toThrow(/^FLASHCORE_LOG_LEVEL: must be one of trace, /);
  const vectors = 'must be one of auto, avx512, avx2, neon, portable, got "mmx"';
  expect(() => from(['--emulator-vectors', 'mmx'])).toThrow(`--emulator-vectors: ${vectors}`);
  expect(() => from([], { FLASHCORE_EMULATOR_VECTORS: 'mmx' })).toThrow(`FLASHCORE_EMULATOR_VECTORS: ${vectors}`);
  const flagWins = from(['--emulator-vectors', 'portable'], { FLASHCORE_EMULATOR_VECTORS: 'auto' });
  expect(flagWins?.host.vectors).toBe('portable');
});

test('an embedded runner chooses its own socket unless it is given one', () => {
  expect(parse('serve', '--embedded')?.address).toBeUndefined();
  expect(parse('serve', '--embedded', '--address', 'unix:/run/fc.sock')?.address).toEqual({
    kind: 'unix',
    path: '/run/fc.sock',
  });
});

test.for([
  ['--port', '1'],
  ['--idle-exit-seconds', '-1'],
  ['--grace-seconds', 'x'],
  ['--max-queued', '0'],
  ['--metrics', '0.0.0.0:1'],
  ['--metrics', 'unix:/m'],
  ['--log-level', 'loud'],
  ['--keep-files-days', 'x'],
  ['--address'],
])('%j is a usage error', (flags) => {
  expect(() => parse('serve', ...flags)).toThrow(UsageError);
});

test.for([
  ['--clients', 'token'],
  ['--clients', 'certificate'],
  ['--max-jobs-per-client', '1'],
  ['--max-calls-per-second', '1'],
  ['--max-upload-mib-per-hour', '1'],
])('%j is refused without TLS, because it could not work', (flags) => {
  for (const where of [[], ['--address', 'unix:/run/fc.sock'], ['--embedded']])
    expect(() => parse('serve', ...where, ...flags)).toThrow(
      new RegExp(`${flags[0]}.*: without TLS .* is the client "local", .*: give --tls <folder> too`),
    );
  expect(
    parse('serve', '--tls', '/tls', ...flags.with(1, flags[1] === 'token' ? 'certificate' : flags[1]!))?.security,
  ).toEqual({ folder: '/tls', clients: 'certificate' });
});

describe('addresses', () => {
  test.for([
    ['127.0.0.1:50051', '127.0.0.1:50051'],
    ['localhost:1', '127.0.0.1:1'],
    ['127.1.2.3:0', '127.1.2.3:0'],
    ['[::1]:50051', '[::1]:50051'],
    ['unix:/tmp/a', 'unix:/tmp/a'],
    ['unix:///tmp/a', 'unix:/tmp/a'],
  ])('%s is parsed as %s', ([text, address]) => {
    expect(formatAddress(parseListenAddress(text!))).toBe(address);
  });

  test.for(['0.0.0.0:50051', '[::]:50051', '10.0.0.1:50051', 'gpu-host:50051', '[2001:db8::1]:1'])(
    '%s is refused without certificates, because other machines could reach it',
    (text) => {
      expect(() => parse('serve', '--address', text)).toThrow(
        /is open to other machines, .*there is no TLS certificate/,
      );
    },
  );

  test.for(['', '127.0.0.1', '127.0.0.1:99999', '50051', 'unix:relative', `unix:/${'x'.repeat(100)}`])(
    '%j is refused',
    (text) => {
      expect(() => parseListenAddress(text)).toThrow(UsageError);
    },
  );
});

test("parseOptions() reads the host's settings from the environment", () => {
  const environment = {
    FLASHCORE_LIBRARY_CACHE: '/cache',
    FLASHCORE_BUILD_CACHE: '/builds',
    FLASHCORE_PYTHON: '/opt/python',
    FLASHCORE_RIVALS: '/rivals',
    FLASHCORE_EMULATOR_DEVICES: '99',
    FLASHCORE_EMULATOR_VECTORS: 'auto',
    FLASHCORE_LOG_LEVEL: 'warn',
  };
  const options = parseOptions(['serve'], { version: '1', repositoryRoot: '/repo', environment });
  expect([options?.host, options?.logLevel]).toEqual([
    {
      ...{ libraryCache: '/cache', buildCache: '/builds', python: '/opt/python', rivals: '/rivals' },
      ...{ vectors: 'auto', emulatedDevices: 8 },
    },
    'warn',
  ]);
});
