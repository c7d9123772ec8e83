import { expect, test } from 'vitest';
import { compileFailedFinding } from './build-findings.ts';
import { parseGnuDiagnostics } from './diagnostics.ts';

/** The finding for output of g++ or clang++. */
const findingFor = (...lines: string[]) => compileFailedFinding(parseGnuDiagnostics(lines));

test.each([
  ["k.cu:168: Error: no such instruction: `bar.sync 0'", "k.cu:168: no such instruction: `bar.sync 0' (as)"],
  ["k.cu:12:39: error: impossible constraint in 'asm'", "k.cu:12:39: impossible constraint in 'asm' (g++)"],
  [
    "k.cu:3:16: error: invalid instruction mnemonic 'bar.sync'",
    "k.cu:3:16: invalid instruction mnemonic 'bar.sync' (g++)",
  ],
])('an error in inline PTX on the emulator has a remedy about inline PTX: %s', (line, message) => {
  expect(findingFor(line)).toMatchObject({
    message,
    remedy: expect.stringContaining(
      'cannot run inline PTX: for the PTX engine, which does, install clang 16',
    ) as string,
  });
});

test.each([
  'k.cu:1:10: fatal error: cooperative_groups.h: No such file or directory',
  "k.cu:1:10: fatal error: 'cooperative_groups.h' file not found",
])('a header that the emulator lacks is reported along with the headers that it has: %s', (line) => {
  expect(findingFor(line).remedy).toMatch(/^Put cooperative_groups\.h into .*cuda_fp16\.h.*install the CUDA toolkit/);
});

test('the remedy for an error in the source is to fix its line', () => {
  expect(findingFor('k.cu:8:17: error: unknown type').remedy).toBe('Fix this line, then build again');
});

test.each(["expected ';' before 'int'", 'expected a ";"'])('a semicolon may be missing a line above: %s', (message) => {
  expect(findingFor(`k.cu:8:17: error: ${message}`).remedy).toBe(
    'End the statement here or on the line above, then build again',
  );
});

test("the remedy for an error in the runner's own header is to change the kernel, not the header", () => {
  expect(findingFor('mechanisms/register_rows.cuh:256:3: error: static assertion failed').remedy).toMatch(
    /^mechanisms\/register_rows\.cuh is the runner's own .*change the kernel's code or constants/,
  );
});

test('a folder refused before compilation gets a finding with a file but no line', () => {
  const refused = {
    severity: 'error' as const,
    file: 'kernel.yaml',
    line: 0,
    column: 0,
    message: "the source k.cu is not in the kernel's folder",
    tool: 'runner' as const,
  };
  expect(compileFailedFinding([refused])).toMatchObject({
    message: "kernel.yaml: the source k.cu is not in the kernel's folder (runner)",
    remedy: "Fix the kernel's folder: nothing was compiled",
  });
});
