/** How to see a job again that goes on without the program, with the runner that has it. */
import { shortName } from '../present/words.ts';

export function comeBack(job: string, { runner }: { readonly runner?: string | undefined }): string {
  const at = runner ? ` --runner ${runner}` : '';
  return `The job goes on. Watch it: fa-tui watch ${shortName(job)}${at}   Cancel it: fa-tui cancel ${shortName(job)}${at}`;
}
