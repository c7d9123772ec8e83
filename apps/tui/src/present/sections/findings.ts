/** Findings about a kernel: kind, place, threads and remedy. */
import { bytesText } from '@flashcore/shared/text';
import { FindingKind, type FaultLocation, type FaultThread, type Finding } from '@flashcore/shared/contract';
import { fact, facts, heading, type Block, type FindingBlock } from '../blocks.ts';
import { findingWord, caseText } from '../words.ts';

export const findingsBlocks = (findings: readonly Finding[]): Block[] =>
  findings.length === 0 ? [] : [heading('Findings'), ...findings.map(findingBlock)];

const findingBlock = (finding: Finding): FindingBlock => ({
  kind: 'finding',
  word: findingWord(finding.kind),
  message: finding.message,
  facts: facts(
    fact('where', finding.location ? locationText(finding.location) : ''),
    ...threadGroups(finding).map((text) => fact('threads', text)),
    fact('case', finding.shape ? caseText(finding.shape) : ''),
    fact(finding.inputs.length > 1 ? 'inputs' : 'input', inputsText(finding)),
    fact('CUDA', namesItself(finding) ? '' : (finding.cudaError ?? '')),
  ).facts,
  remedy: finding.remedy,
  frame: finding.frame,
  otherFrames: finding.otherFrames,
});

const MOST_INPUTS = 3;

/** The distributions of a finding's inputs, and the options that repeat them; empty if it is about no input. */
export function inputsText({ inputs }: Pick<Finding, 'inputs'>): string {
  if (inputs.length === 0) return '';
  const named = inputs.slice(0, MOST_INPUTS);
  const more = inputs.length > named.length ? ` and ${inputs.length - named.length} more` : '';
  const names = [...new Set(named.map(({ distribution }) => distribution))].join(', ');
  return `${names}${more}: ${named.map(({ seed, distribution }) => `--seed ${seed}@${distribution}`).join(' ')}`;
}

/** The emulator stops a launch at such a finding, so the launch's own error says nothing more. */
const namesItself = ({ kind }: Finding): boolean =>
  kind === FindingKind.RACE || kind === FindingKind.UNINITIALISED_READ;

/**
 * A location such as "out_of_bounds.cu:31, block (3, 0, 0), thread (17, 0, 0), write of 2 bytes at 0x7f12, 16 bytes
 * past the end of O".
 */
export function locationText(location: FaultLocation): string {
  return [
    location.file ? `${location.file}${location.line > 0 ? `:${location.line}` : ''}` : '',
    location.block.length > 0 ? `block ${triple(location.block)}` : '',
    location.thread.length > 0 ? `thread ${triple(location.thread)}` : '',
    accessText(location),
    location.buffer,
  ]
    .filter(Boolean)
    .join(', ');
}

function accessText({ access, accessBytes, address }: FaultLocation): string {
  const width = accessBytes > 0 ? ` of ${bytesText(accessBytes)}` : '';
  const at = address ? ` at ${address}` : '';
  return access || address ? `${access || 'access'}${width}${at}` : '';
}

// Threads of one block that do the same at the same place share a line, with neighbors joined to ranges.
function threadGroups(finding: Finding): string[] {
  const groups = new Map<string, { block: string; place: string; threads: FaultThread[] }>();
  for (const thread of finding.threads) {
    const block = thread.block.length > 0 ? `block ${triple(thread.block)} ` : '';
    const key = `${block}\n${thread.place}`;
    const group = groups.get(key) ?? { block, place: thread.place, threads: [] };
    group.threads.push(thread);
    groups.set(key, group);
  }
  const lines = [...groups.values()].map(({ block, place, threads }) => `${block}${ranges(threads)} ${place}`.trim());
  const hidden = finding.threadCount - finding.threads.length;
  return hidden > 0 && finding.threads.length > 0
    ? [...lines, `and ${hidden} more, ${finding.threadCount} in all`]
    : lines;
}

function ranges(threads: readonly FaultThread[]): string {
  const flat = threads.every(({ thread }) => (thread[1] ?? 0) === 0 && (thread[2] ?? 0) === 0);
  if (!flat) return threads.map(({ thread }) => triple(thread)).join(' ');
  const lanes = threads.map(({ thread }) => thread[0] ?? 0).sort((a, b) => a - b);
  const runs: [number, number][] = [];
  for (const lane of lanes) {
    const last = runs.at(-1);
    if (last && lane === last[1] + 1) last[1] = lane;
    else runs.push([lane, lane]);
  }
  return runs.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join(', ');
}

const triple = (indices: readonly number[]): string => `(${indices.join(', ')})`;
