/** Compiler diagnostics, findings and failed gates of ended jobs, for SARIF and GitHub's annotations. */
import { createHash } from 'node:crypto';
import { isAbsolute, normalize } from 'node:path/posix';
import { COST_FINDINGS, FindingKind, Verdict, type Diagnostic, type GetJobResponse } from '@flashcore/shared/contract';
import { plainText } from '@flashcore/shared/text';
import { formatInUnit } from '../present/numbers.ts';

export interface Problem {
  readonly rule: string;
  readonly level: 'error' | 'warning' | 'note';
  readonly message: string;
  /** Path relative to the kernel's folder; undefined if the problem is in no file. */
  readonly file: string | undefined;
  readonly line: number;
  readonly column: number;
}

export const problemsOf = (jobs: readonly GetJobResponse[]): Problem[] =>
  toldIn(jobs).map((problem) => ({ ...problem, message: plainText(problem.message) }));

function toldIn(jobs: readonly GetJobResponse[]): Problem[] {
  return jobs.flatMap(({ job, result }) =>
    (result?.variants ?? []).flatMap(({ build, findings, gates }) => [
      ...(build?.diagnostics ?? []).map((diagnostic): Problem => ({
        rule: `${diagnostic.tool}-${diagnostic.severity}`,
        level: levelOf(diagnostic.severity),
        ...placeIn(diagnostic),
      })),
      ...findings.map(({ kind, message, remedy }): Problem => ({
        rule: FindingKind[kind].toLowerCase().replaceAll('_', '-'),
        level: COST_FINDINGS.has(kind) ? 'warning' : 'error',
        message: remedy === '' ? message : `${message}. ${remedy}`,
        ...NOWHERE,
      })),
      ...gates
        .filter(({ verdict, level }) => verdict === Verdict.FAIL && level !== 'off')
        .map(({ gateId, title, level, value, comparison, target, unit, modelled }): Problem => ({
          rule: `gate-${gateId}`,
          level: level === 'hard' ? 'error' : 'warning',
          message: `${job?.kernelId ?? ''}: ${title} is ${value === undefined ? 'not known' : formatInUnit(value, unit)}${modelled ? ' (modelled)' : ''}: must be ${comparison} ${formatInUnit(target, unit)}`,
          ...NOWHERE,
        })),
    ]),
  );
}

/** A compiler's header is not in the kernel's folder, so its place is put into the message. */
function placeIn({ file, line, column, message }: Diagnostic): Pick<Problem, 'message' | keyof typeof NOWHERE> {
  if (file === '') return { message, ...NOWHERE };
  const isOutside = isAbsolute(file) || normalize(file).startsWith('..');
  return isOutside ? { message: `${file}:${line}: ${message}`, ...NOWHERE } : { message, file, line, column };
}

const NOWHERE = { file: undefined, line: 0, column: 0 };

function levelOf(severity: string): Problem['level'] {
  if (severity === 'error') return 'error';
  return severity === 'warning' ? 'warning' : 'note';
}

/** GitHub's limit on results per run. */
const MOST_RESULTS = 25_000;

/** Escapes "[", because SARIF messages interpret "[text](address)" as a link. */
const withoutLinks = (message: string): string => message.replaceAll('[', '\\[');

/** Removes figures, so that a gate that is missed again with another value is the same alert. */
const withoutFigures = (message: string): string => message.replaceAll(/\d+(?:\.\d+)?(?:e[+-]?\d+)?/gi, '#');

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
        results: problems.slice(0, MOST_RESULTS).map(({ rule, level, message, file, line, column }) => ({
          ruleId: rule,
          level,
          message: { text: withoutLinks(message) },
          // Code scanning requires a place, so a problem without a file is reported at the manifest.
          locations: [
            {
              physicalLocation: {
                artifactLocation: { uri: encodeURI(placeOf(prefix, file)) },
                region: { startLine: Math.max(1, line), ...(column > 0 && { startColumn: column }) },
              },
            },
          ],
          partialFingerprints: {
            primaryLocationLineHash: createHash('sha256')
              .update(`${rule} ${file ?? ''} ${withoutFigures(message)}`)
              .digest('hex')
              .slice(0, 32),
          },
        })),
      },
    ],
  };
}

/** Workflow commands, one per problem. GitHub shows ten of each kind per step. */
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
