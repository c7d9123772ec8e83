/** A page for people and programs: its blocks are painted, its data is what --format json prints. */
import type { Block, Plot } from '../present/blocks.ts';
import type { TemplateName } from './report-formats.ts';

export interface Report {
  readonly template: TemplateName;
  readonly title: string;
  readonly blocks: readonly Block[];
  /** Plain data, figures in the units that their names say. */
  readonly data: Readonly<Record<string, unknown>>;
  /** Every plot that there is data for; `blocks` has the most telling of them. */
  readonly plots: readonly Plot[];
}
