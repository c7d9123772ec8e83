/** The command that shows a job again, with its runner, if the job continues after the program exits. */
import type { GlobalOptions } from './options.ts';
import { shortName } from '../present/words.ts';

export function comeBack(job: string, { runner, startRunner }: Pick<GlobalOptions, 'runner' | 'startRunner'>): string {
  const at = `${runner ? ` --runner ${runner}` : ''}${startRunner ? ' --start-runner' : ''}`;
  return `The job goes on. Watch it: fa-tui watch ${shortName(job)}${at}   Cancel it: fa-tui cancel ${shortName(job)}${at}`;
}
