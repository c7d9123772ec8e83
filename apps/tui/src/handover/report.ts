/** A page for people and programs. Its blocks are painted; --format json prints its data. */
import type { Block, Plot } from '../present/blocks.ts';
import type { TemplateName } from './report-formats.ts';

export interface Report {
  readonly template: TemplateName;
  readonly title: string;
  readonly blocks: readonly Block[];
  /** Plain data; the names of figures include their units. */
  readonly data: Readonly<Record<string, unknown>>;
  /** All plots for which there is data; `blocks` contains the most informative ones. */
  readonly plots: readonly Plot[];
}
