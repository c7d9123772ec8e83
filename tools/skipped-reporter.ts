/**
 * Ends a test run with a list of what was skipped for want of a program. With FLASHCORE_ALLOW_SKIPS=0, as .ci/run has
 * it, a skipped test fails the run.
 */
import { readFileSync } from 'node:fs';
import { missingIn } from '@flashcore/shared/testing';
import type { Reporter, TestCase, TestModule } from 'vitest/node';

/** Neither npm nor Debian has nvcc, NVRTC or a cgroup; all else can be installed where nothing may be skipped. */
const NOT_INSTALLABLE = /^(install nvcc$|no NVRTC |no cgroup )/;

interface Skipped {
  readonly tests: number;
  readonly reason: string;
}

export default class SkippedReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const strict = process.env['FLASHCORE_ALLOW_SKIPS'] === '0';
    const lines = modules.flatMap((module) => {
      const { tests, reason } = skippedIn(module);
      // Without a reason it was left out by the one who runs the tests (-t), or for another platform.
      const text = `  ${module.relativeModuleId}: ${tests}; ${reason}`;
      return tests > 0 && (reason !== '' || strict) ? [{ text, reason }] : [];
    });
    if (lines.length === 0) return;
    console.log(`\nSkipped:\n${lines.map(({ text }) => text).join('\n')}`);
    if (!strict || lines.every(({ reason }) => NOT_INSTALLABLE.test(reason))) return;
    console.log('FLASHCORE_ALLOW_SKIPS=0: nothing may be skipped');
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
