import type { RunnerClient } from '@flashcore/shared/client';
import { FlashcoreError } from '@flashcore/shared/contract';
import * as z from 'zod';
import { resolveJobName } from '../session/job-name.ts';
import { UsageError } from '../usage-error.ts';
import { Refused } from './answers.ts';

export const jobNameField = z.string().describe('as submit gave it, or its first digits');

/** The full name of a job. Errors: Refused, naming the tools that list jobs. */
export async function jobNamed(client: RunnerClient, text: string, field = 'job'): Promise<string> {
  try {
    return await resolveJobName(client, text);
  } catch (error) {
    if (error instanceof FlashcoreError && error.reason === 'JOB_NOT_FOUND')
      throw new Refused(`${field}: no job's name begins with ${text}: the tools jobs and history list them`);
    if (error instanceof UsageError) throw new Refused(`${field}: ${error.message}`);
    throw error;
  }
}
