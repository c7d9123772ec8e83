/** The events of a job as log lines: tools' output, and one line for each event worth reading. */
import {
  ComparisonVerdict,
  Outcome,
  Phase,
  Verdict,
  type CaseResult,
  type GateResult,
  type Diagnostic,
  type JobEvent,
  type PhaseStarted,
} from '@flashcore/shared/contract';
import { builtText } from './build.ts';
import { sdpaLine } from './sdpa-alone.ts';
import { knowsPercentile } from '@flashcore/shared/statistics';
import { counted, formatError, formatMicroseconds } from '../numbers.ts';
import { sanitize, frameLines } from '../cells/cell-text.ts';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import {
  MODE_WORDS,
  PHASE_WORDS,
  VERDICT_MARKS,
  comparisonAnswer,
  findingWord,
  notMeasured,
  outcomeWord,
  caseText,
  summaryText,
  variantWord,
  reasonText,
} from '../words.ts';
import { hasFinite } from './cases.ts';
import { gateTitle, gateValue, gateReason } from './gates.ts';
import type { Role } from '../roles.ts';
import { gateTarget, gateMark } from '../gate-marks.ts';

/** `routine` is for lines that say that all is well, so that findings stand out between them. */
export type LogTone = 'plain' | 'routine' | 'phase' | 'good' | 'bad' | 'warn';

/** Source of the lines about the job itself. */
export const OWN_SOURCE = 'job';

export interface LogLine {
  /** Milliseconds since 1970. */
  readonly time: number;
  /** Tool names such as "nvcc", "g++", "kernel" or "runner"; OWN_SOURCE for lines made from other events. */
  readonly source: string;
  readonly text: string;
  readonly tone: LogTone;
}

/** The lines for `event`; none for events that only advance a progress bar. */
export function logLinesOf(event: JobEvent): LogLine[] {
  const time = event.time === undefined ? 0 : timestampMs(event.time);
  return describe(event).map(({ text, tone = 'plain', source = OWN_SOURCE }) => ({
    time,
    source,
    tone,
    text: sanitize(text),
  }));
}

// Width of a source frame in the log.
const FRAME_CELLS = 120;

interface Described {
  readonly text: string;
  readonly tone?: LogTone;
  readonly source?: string;
}

function describe({ payload }: JobEvent): Described[] {
  switch (payload.case) {
    case 'created':
      return [{ text: `queued: ${payload.value.job?.label ?? ''}`, tone: 'routine' }];
    case 'started':
      return [{ text: `running on ${payload.value.device?.name ?? 'its device'}`, tone: 'routine' }];
    case 'attemptStarted': {
      const { attempt, node, reason } = payload.value;
      return attempt <= 1
        ? [{ text: `on node ${node}`, tone: 'routine' }]
        : [
            {
              text: `attempt ${attempt} on node ${node}; previous attempt: ${reason ?? 'did not finish'}`,
              tone: 'warn',
            },
          ];
    }
    case 'phaseStarted':
      return [{ text: phaseText(payload.value), tone: 'phase' }];
    case 'logLine':
      return [{ text: payload.value.text, source: payload.value.source, tone: toneOfToolLine(payload.value.text) }];
    case 'diagnostic':
      return [
        {
          text: diagnosticText(payload.value),
          source: payload.value.tool,
          tone: payload.value.severity === 'error' ? 'bad' : 'warn',
        },
        ...frameText(payload.value).map((text): Described => ({ text, source: payload.value.tool })),
      ];
    // Shown before the run spends minutes of device time on a result that can't be accepted.
    case 'gatePlan': {
      const { ranking } = payload.value;
      return ranking && !ranking.ranked ? [{ text: `not ranked: ${ranking.reasons.join(', ')}`, tone: 'warn' }] : [];
    }
    case 'precheck': {
      const { check, verdict, detail } = payload.value;
      return [{ text: `${check}: ${VERDICT_MARKS[verdict].word}, ${detail}`, tone: verdictTone(verdict) }];
    }
    case 'buildResult': {
      const { succeeded } = payload.value;
      return [
        {
          text: succeeded ? builtText(payload.value) : 'does not compile',
          tone: succeeded ? 'routine' : 'bad',
        },
      ];
    }
    case 'caseResult':
      return [caseLine(payload.value)];
    case 'benchmarkResult': {
      const { shape, mode, simulated, latency } = payload.value;
      const time =
        latency === undefined
          ? 'no samples'
          : `p50 ${formatMicroseconds(latency.p50Us)},${knowsPercentile(latency.samples, 0.99) ? ` p99 ${formatMicroseconds(latency.p99Us, latency.p50Us)},` : ''} n ${latency.samples}`;
      return [
        {
          text: `${caseText(shape)} ${MODE_WORDS[mode]}: ${time}${simulated ? ' (simulated)' : ''}`,
          tone: simulated ? 'plain' : 'good',
        },
      ];
    }
    case 'sdpaBenchmark':
      return [{ text: sdpaLine(payload.value), tone: payload.value.backends.length > 0 ? 'good' : 'warn' }];
    case 'shapeComparison':
      return [
        {
          text: `${caseText(payload.value.shape)} ${MODE_WORDS[payload.value.mode]}: ${comparisonAnswer(payload.value)}`,
          tone: comparisonTone(payload.value.verdict),
        },
      ];
    case 'comparisonResult':
      return [
        {
          text: `against ${payload.value.champion?.label ?? 'the champion'}: ${comparisonAnswer(payload.value)}`,
          tone: comparisonTone(payload.value.verdict),
        },
      ];
    case 'profileResult':
      return payload.value.verdict === Verdict.NOT_MEASURED
        ? [{ text: `profile ${notMeasured(payload.value.reason)}` }]
        : [{ text: `${payload.value.metrics.length} counters read`, tone: 'routine' }];
    case 'profileProgress':
      return [{ text: payload.value.message, tone: 'routine' }];
    case 'gateResult':
      // Gates that could not be evaluated are not logged. The panes next to the log show their number and the reasons.
      return payload.value.verdict === Verdict.NOT_MEASURED || payload.value.verdict === Verdict.NOT_JUDGED
        ? []
        : [gateLine(payload.value)];
    case 'finding':
      return [
        { text: `${findingWord(payload.value.kind)}: ${payload.value.message}`, tone: 'bad' },
        ...(payload.value.remedy === '' ? [] : [{ text: payload.value.remedy }]),
      ];
    case 'warning':
      return [{ text: payload.value.message, tone: 'warn' }];
    case 'finished': {
      const { outcome, summary, error } = payload.value;
      const text = `${outcomeWord({ outcome, summary })}: ${summaryText({ summary, outcome }) || error?.message || 'no summary'}`;
      return [{ text, tone: outcome === Outcome.PASSED ? 'good' : 'bad' }];
    }
    default:
      return [];
  }
}

/** The items that a phase processes one by one. */
const STEPS: Partial<Record<Phase, string>> = {
  [Phase.PRECHECK]: 'check',
  [Phase.VERIFY]: 'case',
  [Phase.BENCHMARK]: 'measurement',
};

function phaseText({ phase, variant, steps }: PhaseStarted): string {
  const name = [PHASE_WORDS[phase], variantWord(variant)].filter(Boolean).join(' ');
  // The number of gates is left out, because the gates are logged one by one.
  return steps <= 1 || phase === Phase.GATES ? name : `${name}: ${counted(steps, STEPS[phase] ?? 'step')}`;
}

/** The source around a diagnostic, if it has any. */
const frameText = ({ frame }: Pick<Diagnostic, 'frame'>): string[] =>
  frame === undefined ? [] : frameLines(frame, FRAME_CELLS).map(({ gutter, text }) => `${gutter}${text}`);

export function diagnosticText({ severity, file, line, column, message }: Diagnostic): string {
  const place = [file, line > 0 ? line : '', column > 0 ? column : ''].filter((part) => part !== '').join(':');
  return `${place === '' ? '' : `${place}: `}${severity}: ${message}`;
}

function caseLine(result: CaseResult): Described {
  const { shape, verdict, reason, maxAbsError, meanAbsError } = result;
  const errors = `max ${formatError(maxAbsError)}, mean ${formatError(meanAbsError)}`;
  const hasErrors = verdict !== Verdict.NOT_MEASURED && hasFinite(result);
  return {
    text: `${caseText(shape)}: ${VERDICT_MARKS[verdict].word}, ${hasErrors ? errors : reasonText(reason ?? 'no error known')}`,
    tone: verdictTone(verdict),
  };
}

function comparisonTone(verdict: ComparisonVerdict): LogTone {
  if (verdict === ComparisonVerdict.FASTER) return 'good';
  return verdict === ComparisonVerdict.SLOWER ? 'bad' : 'plain';
}

function verdictTone(verdict: Verdict): LogTone {
  return verdict === Verdict.FAIL ? 'bad' : 'routine';
}

function toneOfToolLine(text: string): LogTone {
  if (/\b(error|fatal)\b/i.test(text)) return 'bad';
  return /\bwarning\b/i.test(text) ? 'warn' : 'plain';
}

/** A failed gate of level "warn" is a warning; only failed hard gates look like rejections. */
function gateLine(gate: GateResult): Described {
  const { word, role } = gateMark(gate);
  const value = `${word}, ${gateValue(gate).text} (target ${gateTarget(gate)})`;
  const answer = gate.value === undefined ? gateReason(gate) : `${value}${rejectionText(gate)}`;
  return { text: `gate ${gateTitle(gate)}: ${answer}`, tone: GATE_TONES[role] ?? 'plain' };
}

/** The problem that a rejecting gate found, because "1 part (target = 0 parts)" does not say which part. */
function rejectionText({ verdict, level, detail, source }: GateResult): string {
  const [what = ''] = detail.split('; ');
  return verdict !== Verdict.FAIL || level !== 'hard' || what === '' || what.startsWith(source) ? '' : `: ${what}`;
}

const GATE_TONES: Partial<Record<Role, LogTone>> = { good: 'routine', bad: 'bad', warn: 'warn' };
