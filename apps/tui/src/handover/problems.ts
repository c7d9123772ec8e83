/** Compiler diagnostics, findings and failed gates of ended jobs, for SARIF and GitHub's annotations. */
import { createHash } from 'node:crypto';
import { FindingKind, Verdict, type GetJobResponse } from '@flashcore/shared/contract';

export interface Problem {
  readonly rule: string;
  readonly level: 'error' | 'warning' | 'note';
  readonly message: string;
  /** Relative to the kernel's folder; undefined: of no file. */
  readonly file: string | undefined;
  readonly line: number;
  readonly column: number;
}

export function problemsOf(jobs: readonly GetJobResponse[]): Problem[] {
  return jobs.flatMap(({ job, result }) =>
    (result?.variants ?? []).flatMap(({ build, findings, gates }) => [
      ...(build?.diagnostics ?? []).map(({ severity, file, line, column, message, tool }): Problem => ({
        rule: `${tool}-${severity}`,
        level: levelOf(severity),
        message,
        file: file === '' ? undefined : file,
        line,
        column,
      })),
      ...findings.map(({ kind, message, remedy }): Problem => ({
        rule: FindingKind[kind].toLowerCase().replaceAll('_', '-'),
        level: 'error',
        message: remedy === '' ? message : `${message}. ${remedy}`,
        ...NOWHERE,
      })),
      ...gates
        .filter(({ verdict, level }) => verdict === Verdict.FAIL && level !== 'off')
        .map(({ gateId, title, level, value, comparison, target, unit }): Problem => ({
          rule: `gate-${gateId}`,
          level: level === 'hard' ? 'error' : 'warning',
          message: `${job?.kernelId ?? ''}: ${title} is ${value ?? 'not known'} ${unit}: must be ${comparison} ${target} ${unit}`,
          ...NOWHERE,
        })),
    ]),
  );
}

const NOWHERE = { file: undefined, line: 0, column: 0 };

function levelOf(severity: string): Problem['level'] {
  if (severity === 'error') return 'error';
  return severity === 'warning' ? 'warning' : 'note';
}

/** SARIF 2.1.0 for code scanning; `prefix` is the kernel's folder in the repository. */
export function sarif(problems: readonly Problem[], prefix: string): unknown {
  const rules = [...new Set(problems.map(({ rule }) => rule))].sort();
  return {
    $schema: 'https://json.schemastore.org/sarif-2.1.0.json',
    version: '2.1.0',
    runs: [
      {
        tool: {
          driver: {
            name: 'flashcore',
            rules: rules.map((id) => ({ id, shortDescription: { text: id.replaceAll('-', ' ') } })),
          },
        },
        results: problems.map(({ rule, level, message, file, line, column }) => ({
          ruleId: rule,
          level,
          message: { text: message },
          // Code scanning wants a place: what is of no file is of the manifest.
          locations: [
            {
              physicalLocation: {
                artifactLocation: { uri: placeOf(prefix, file) },
                region: { startLine: Math.max(1, line), ...(column > 0 && { startColumn: column }) },
              },
            },
          ],
          partialFingerprints: {
            primaryLocationLineHash: createHash('sha256')
              .update(`${rule} ${file ?? ''} ${message}`)
              .digest('hex')
              .slice(0, 32),
          },
        })),
      },
    ],
  };
}

/** Workflow commands: GitHub shows ten of a kind a step. */
export const annotations = (problems: readonly Problem[], prefix: string): string[] =>
  problems.map(({ rule, level, message, file, line, column }) => {
    const place = {
      file: placeOf(prefix, file),
      line: Math.max(1, line),
      ...(column > 0 && { col: column }),
      title: rule,
    };
    const properties = Object.entries(place).map(([name, value]) => `${name}=${escaped(String(value), true)}`);
    return `::${level === 'note' ? 'notice' : level} ${properties.join(',')}::${escaped(message, false)}`;
  });

const placeOf = (prefix: string, file = 'kernel.yaml'): string => (prefix === '' ? file : `${prefix}/${file}`);

function escaped(text: string, property: boolean): string {
  const line = text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
  return property ? line.replaceAll(':', '%3A').replaceAll(',', '%2C') : line;
}
