import type { Violations } from './violations.ts';

const JOB_NAME = /^jobs\/[0-9A-Za-z-]{1,64}$/;
/** A kernel's is letters, digits and _; one typed with a - still gets the nearest names. */
const KERNEL_ID = /^[\w-]{1,128}$/;
const SHOWN = 80;

/** Whether there is such a job is for the store to say. */
export function checkJobName(field: string, name: string, violations: Violations): void {
  if (!JOB_NAME.test(name)) violations.add(field, `must be a job's name such as jobs/123e4567, is ${shown(name)}`);
}

export function checkKernelId(field: string, id: string, violations: Violations): void {
  if (!KERNEL_ID.test(id)) violations.add(field, `must have 1 to 128 letters, digits, "_" and "-", is ${shown(id)}`);
}

const shown = (text: string): string => JSON.stringify(text.slice(0, SHOWN)) + (text.length > SHOWN ? '…' : '');
