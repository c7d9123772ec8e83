/** How to see a job again that goes on without the program, with the runner that has it. */
import { shortJobName } from '../report/list-reports.ts';

export function comeBack(job: string, { runner }: { readonly runner?: string | undefined }): string {
  const at = runner ? ` --runner ${runner}` : '';
  return `The job goes on. Watch it: fa-tui watch ${shortJobName(job)}${at}   Cancel it: fa-tui cancel ${shortJobName(job)}${at}`;
}
