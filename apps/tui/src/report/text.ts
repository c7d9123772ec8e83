import { plainLine, plainText } from '@flashcore/shared/text';
import type { ReportFormat, StyleName } from './format.ts';

/** Text without control characters: compilers, kernels and manifests are foreign and must not steer the terminal. */
export function printable(text: string): string {
  return plainLine(text).replaceAll('\t', '    ');
}

/** Lines of at most `width` columns, broken at spaces; a longer word is broken where the line ends, or left whole. */
export function wrap(text: string, width: number, { uncut = false }: { readonly uncut?: boolean } = {}): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of plainText(text).split(/\s+/)) {
    let rest = word;
    if (line !== '' && line.length + 1 + rest.length <= width) {
      line += ` ${rest}`;
      continue;
    }
    if (line !== '') lines.push(line);
    for (; rest.length > width && !uncut; rest = rest.slice(width)) lines.push(rest.slice(0, width));
    line = rest;
  }
  if (line !== '') lines.push(line);
  return lines;
}

/** `wrap`, every line indented by `indent` columns and styled. */
export function paragraph(text: string, format: ReportFormat, indent: number, style?: StyleName): string[] {
  const lines = wrap(text, Math.max(20, format.width - indent), format);
  return lines.map((line) => ' '.repeat(indent) + (style ? format.style(style, line) : line));
}

/** Text of at most `width` columns, with "…" where something was cut off. */
export function truncate(text: string, width: number, format: ReportFormat): string {
  if (text.length <= width) return text;
  const mark = format.unicode ? '…' : '..';
  return text.slice(0, Math.max(0, width - mark.length)) + mark;
}

const LABEL_WIDTH = 11;

/** "  label      text", the text wrapped beside the label. */
export function labelled(label: string, text: string, format: ReportFormat, indent = 2): string[] {
  const lines = wrap(text, format.width - indent - LABEL_WIDTH, format);
  const head = ' '.repeat(indent) + format.style('dim', label.padEnd(LABEL_WIDTH));
  // A longer label has a line of its own.
  const first = label.length < LABEL_WIDTH ? [head + (lines.shift() ?? '')] : [head];
  return [...first, ...lines.map((line) => ' '.repeat(indent + LABEL_WIDTH) + line)];
}

/** A section's title in bold with a remark behind it; a remark that does not fit goes below. */
export function heading(title: string, remark: string, format: ReportFormat): string[] {
  if (title.length + 2 + remark.length > format.width)
    return [format.style('bold', title), ...paragraph(remark, format, 2, 'dim')];
  return [format.style('bold', title) + (remark === '' ? '' : `  ${format.style('dim', remark)}`)];
}
