/**
 * Ends a test run with a list of the tests that were skipped because a program is missing. In CI skips can make the run
 * fail: all skips with FLASHCORE_ALLOW_SKIPS=0, and with FLASHCORE_ALLOW_SKIPS=packages those whose reason names no
 * package to install.
 */
import { readFileSync } from 'node:fs';
import { missingIn } from '@flashcore/shared/testing';
import type { Reporter, TestCase, TestModule } from 'vitest/node';

/**
 * Neither npm nor Debian has nvcc, NVRTC, Triton or a cgroup. Everything else can be installed, so tests that need it
 * may not be skipped where no skips are allowed.
 */
const NOT_INSTALLABLE = /^(?:install (?:nvcc|triton)(?:; |$))+$|^no (?:NVRTC|cgroup) /;
const NAMES_PACKAGES = /\binstall [\w+-]+/;

/** The reasons that allow a skip, by the value of FLASHCORE_ALLOW_SKIPS. Without the variable any reason is allowed. */
const ALLOWED: Readonly<Record<string, RegExp>> = { 0: NOT_INSTALLABLE, packages: NAMES_PACKAGES };

interface Skipped {
  readonly tests: number;
  readonly reason: string;
}

export default class SkippedReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const wanted = process.env['FLASHCORE_ALLOW_SKIPS'] ?? '';
    const allowed = ALLOWED[wanted];
    const lines = modules.flatMap((module) => {
      const { tests, reason } = skippedIn(module);
      // A skip without a reason was either requested by the user (-t) or is of a test for another platform.
      const text = `  ${module.relativeModuleId}: ${tests}; ${reason}`;
      return tests > 0 && (reason !== '' || allowed) ? [{ text, reason }] : [];
    });
    if (lines.length === 0) return;
    console.log(`\nSkipped:\n${lines.map(({ text }) => text).join('\n')}`);
    const refused = allowed ? lines.filter(({ reason }) => !allowed.test(reason)) : [];
    if (refused.length === 0) return;
    console.log(
      `FLASHCORE_ALLOW_SKIPS=${wanted}: these may not be skipped\n${refused.map(({ text }) => text).join('\n')}`,
    );
    process.exitCode = 1;
  }
}

function skippedIn(module: TestModule): Skipped {
  const skipped = [...module.children.allTests('skipped')];
  const wanted = skipped.length === 0 ? [] : missingIn(readFileSync(module.moduleId, 'utf8'));
  const notes = new Set(skipped.map(noteOf).filter((note) => note !== ''));
  const reasons = [...wanted.map((name) => `install ${name}`), ...notes];
  return { tests: skipped.length, reason: reasons.join('; ') };
}

function noteOf(test: TestCase): string {
  const result = test.result();
  return (result.state === 'skipped' && result.note) || '';
}
