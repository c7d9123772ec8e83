/** `fa-tui export --wheel DIR`: the PyTorch file as a package that pip installs, without a build. */
import { createHash } from 'node:crypto';
import { crc32, deflateRawSync } from 'node:zlib';
import type { ExportedKernel } from './exported-kernel.ts';
import { unverifiedNotice, verdictText } from './exported-kernel.ts';
import { torchFile } from './torch-file.ts';

/** Files of the folder: one wheel, whose module has the kernel's id as its name. */
export function wheelFiles(kernel: ExportedKernel): Record<string, Uint8Array> {
  const { manifest, origin, backward } = kernel;
  const kernels = backward ? [kernel, backward] : [kernel];
  const notices = kernels.flatMap((each) => unverifiedNotice(each) ?? []);
  // If the kernels have different licenses, the wheel does not name one.
  const license = kernels.every((each) => each.license === kernel.license) ? kernel.license : undefined;
  const project = `${manifest.id.startsWith('flashcore') ? '' : 'flashcore-'}${manifest.id.replaceAll('_', '-')}`;
  // Each build has its own version (PEP 440's local label).
  const builds = kernels.map((each) => each.origin.buildId.slice(0, 12)).join('.');
  const version = `${origin.runner.match(/^\d+(?:\.\d+)*/)?.[0] ?? '0'}+${builds}`;
  const stem = `${project.replaceAll('-', '_')}-${version}`;
  const info = `${stem}.dist-info`;
  const files: Record<string, string> = {
    [`${manifest.id}.py`]: torchFile(kernel),
    [`${info}/METADATA`]: [
      'Metadata-Version: 2.1',
      `Name: ${project}`,
      `Version: ${version}`,
      `Summary: ${oneLine([...notices, manifest.title].join('. '))}`,
      ...(license === undefined ? [] : [`License: ${license}`]),
      'Requires-Python: >=3.9',
      'Requires-Dist: torch>=2.4',
      '',
      ...kernels.map(
        (each) =>
          `${each.manifest.id}: build ${each.origin.buildId} for ${each.arch}, ${each.dtype}; verdict: ${oneLine(verdictText(each))}.`,
      ),
      '',
    ].join('\n'),
    [`${info}/WHEEL`]: 'Wheel-Version: 1.0\nGenerator: flashcore\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
    [`${info}/top_level.txt`]: `${manifest.id}\n`,
  };
  const record = Object.entries(files).map(
    ([path, text]) => `${path},sha256=${digest(text)},${Buffer.byteLength(text)}`,
  );
  files[`${info}/RECORD`] = [...record, `${info}/RECORD,,`, ''].join('\n');
  return { [`${stem}-py3-none-any.whl`]: zip(files) };
}

const oneLine = (text: string): string => text.replaceAll(/\s+/g, ' ').slice(0, 500);
const digest = (text: string): string => createHash('sha256').update(text).digest('base64url');

const LOCAL_HEADER = 0x04034b50;
const CENTRAL_HEADER = 0x02014b50;
const END_OF_DIRECTORY = 0x06054b50;
const VERSION = 20;
const NAMES_ARE_UTF8 = 1 << 11;
const DEFLATED = 8;
/** 1980-01-01, the format's first day, so that equal exports are equal byte by byte. */
const DATE = (1 << 5) | 1;
const REGULAR_FILE_644 = (0o100644 << 16) >>> 0;

/** A zip archive (APPNOTE.TXT of PKWARE) of files by their paths. */
function zip(files: Readonly<Record<string, string>>): Uint8Array {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const [path, text] of Object.entries(files)) {
    const name = Buffer.from(path);
    const bytes = Buffer.from(text);
    const packed = deflateRawSync(bytes, { level: 9 });
    const common = Buffer.concat([
      shorts(VERSION, NAMES_ARE_UTF8, DEFLATED, 0, DATE),
      longs(crc32(bytes), packed.length, bytes.length),
      shorts(name.length, 0),
    ]);
    parts.push(longs(LOCAL_HEADER), common, name, packed);
    directory.push(
      longs(CENTRAL_HEADER),
      shorts((3 << 8) | VERSION), // made on Unix: the upper half of the attributes contains the mode
      common,
      shorts(0, 0, 0),
      longs(REGULAR_FILE_644, offset),
      name,
    );
    offset += 4 + common.length + name.length + packed.length;
  }
  const count = Object.keys(files).length;
  const size = directory.reduce((sum, { length }) => sum + length, 0);
  const end = [longs(END_OF_DIRECTORY), shorts(0, 0, count, count), longs(size, offset), shorts(0)];
  return Buffer.concat([...parts, ...directory, ...end]);
}

const shorts = (...values: number[]): Buffer => Buffer.from(Uint16Array.from(values).buffer);
const longs = (...values: number[]): Buffer => Buffer.from(Uint32Array.from(values).buffer);
