import type { Violations } from './violations.ts';

const JOB_NAME = /^jobs\/[0-9A-Za-z-]{1,64}$/;
/** Kernel ids have letters, digits and _; a - is allowed here, so that the nearest names can be suggested. */
const KERNEL_ID = /^[\w-]{1,128}$/;
const SHOWN = 80;

/** Checks only the form; the store decides if the job exists. */
export function checkJobName(field: string, name: string, violations: Violations): void {
  if (!JOB_NAME.test(name)) violations.add(field, `must be a job's name such as jobs/123e4567, is ${shown(name)}`);
}

export function checkKernelId(field: string, id: string, violations: Violations): void {
  if (!KERNEL_ID.test(id)) violations.add(field, `must have 1 to 128 letters, digits, "_" and "-", is ${shown(id)}`);
}

const shown = (text: string): string => JSON.stringify(text.slice(0, SHOWN)) + (text.length > SHOWN ? '…' : '');
