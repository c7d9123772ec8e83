/**
 * The documents that a proposer reads on stdin and writes to stdout, both JSON. `fa-tui evolve --schema` and
 * docs/schemas publish them as JSON Schema.
 */
import * as z from 'zod';
import { errorText } from '@flashcore/shared/text';
import { MAX_SOURCE_BYTES } from './kernel-source.ts';

/** A proposer refuses a version that it does not know. Adding a field does not change the version. */
export const PROTOCOL = 'flashcore-proposer 1';

export const MAX_ANSWER_BYTES = 1024 * 1024;
export const MAX_FEEDBACK_BYTES = 4 * 1024;
const MAX_NAME = 80;
const MAX_THOUGHT = 2000;

const files = z.record(z.string(), z.string()).describe('Texts by path, relative to the kernel folder');
const parameters = z.record(z.string(), z.number().int()).describe('Build-time parameters, NAME to value');
const OPERATORS = ['init', 'crossover', 'mutation'] as const;
export type Operator = (typeof OPERATORS)[number];

const solution = z.object({
  trial: z.number().int().describe('Its number; 0 is the kernel that the search began with'),
  role: z.enum(['best', 'parent']),
  name: z.string(),
  thought: z.string(),
  score: z.number().describe('Times as fast as trial 0, by comparisons with its parents; 1 where nothing is timed'),
  metrics: z.record(z.string(), z.number()).describe('As of fa-tui evaluate'),
  parameters,
  files: files.optional().describe('Absent where the 100 kB of source were used up'),
});

const requestSchema = z.object({
  protocol: z.literal(PROTOCOL),
  search: z.string(),
  trial: z.number().int(),
  island: z
    .number()
    .int()
    .describe('From 1: islands evolve apart, so base, solutions and thoughts are those of the island and its guests'),
  seed: z
    .number()
    .int()
    .describe('Follows from the search’s seed and the trial: a deterministic proposer draws from it'),
  operator: z.enum(OPERATORS),
  task: z.object({
    kernel: z.string(),
    title: z.string(),
    objective: z.string(),
    device: z.object({
      name: z.string(),
      arch: z.string(),
      simulated: z.boolean().describe('True: the CPU emulator, whose times judge nothing'),
      multiprocessors: z.number(),
      smem_optin_bytes: z.number(),
      smem_per_multiprocessor_bytes: z.number(),
      registers_per_multiprocessor: z.number(),
    }),
    cases: z.array(z.string()).describe('Shapes that must be right, BxHxSxD, c appended when causal'),
    shapes: z.array(z.string()).describe('Shapes that are timed; empty: the canonical one'),
    gates: z.array(z.string()),
    limits: z.array(z.string()),
    parameters: z.array(
      z.object({ name: z.string(), values: z.array(z.number()), default: z.number(), about: z.string() }),
    ),
    headers: z.array(z.object({ path: z.string(), about: z.string() })).describe('What a source may include'),
    rules: z.array(z.string()),
  }),
  base: z
    .object({ trial: z.number().int(), parameters, files })
    .describe('What a patch applies to, what files are laid over, and what the candidate must beat'),
  solutions: z.array(solution),
  thoughts: z.array(z.string()).describe('Of solutions drawn at random (configurations insight and full)'),
  insights: z.object({
    feedback: z.string().describe('At most 4 kB: what the last trial came to, compiler and profiler about the base'),
    notes: z.string().describe('At most 4 kB: what people tried and measured'),
    tried: z.array(
      z.object({
        trial: z.number().int(),
        parents: z.array(z.number().int()),
        name: z.string(),
        parameters,
        outcome: z.string(),
      }),
    ),
  }),
  limits: z.object({ answer_bytes: z.number(), source_bytes: z.number(), seconds: z.number() }),
});
export type ProposalRequest = z.output<typeof requestSchema>;

const line = (most: number) => z.string().min(1).max(most);

const answerSchema = z.object({
  name: line(MAX_NAME).describe('A few words'),
  thought: line(MAX_THOUGHT).describe('Why it should be faster'),
  files: files.optional().describe('Whole files, laid over those of the base'),
  patch: z
    .string()
    .max(MAX_SOURCE_BYTES)
    .optional()
    .describe('Unified diff of the base’s files, paths as a/x.cu and b/x.cu'),
  parameters: parameters.optional().describe('Laid over those of the base; values that the manifest lists'),
  tokens: z.object({ input: z.number().nonnegative(), output: z.number().nonnegative() }).optional(),
  cost_usd: z.number().nonnegative().optional(),
});
export type Answer = z.output<typeof answerSchema>;

/** The JSON Schemas of a proposer's request and answer. */
export const protocolSchemas = (): Record<string, unknown> => ({
  protocol: PROTOCOL,
  request: z.toJSONSchema(requestSchema),
  answer: z.toJSONSchema(answerSchema),
});

/** A trial without a candidate, because the proposer failed or its answer is invalid. */
export class NoProposal extends Error {
  override readonly name = 'NoProposal';
}

/**
 * Reads the proposer's output: one JSON document, or text followed by a document that starts on its own line. Errors:
 * NoProposal.
 */
export function readAnswer(stdout: string): Answer {
  const from = Math.max(0, stdout.trimStart().startsWith('{') ? 0 : stdout.lastIndexOf('\n{'));
  let json: unknown;
  try {
    json = JSON.parse(stdout.slice(from));
  } catch (error) {
    throw new NoProposal(`The answer is not a JSON document: ${errorText(error)}`);
  }
  const parsed = answerSchema.safeParse(json);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues
    .slice(0, 5)
    .map(({ path, message }) => `${path.join('.') || 'the document'}: ${message}`);
  throw new NoProposal(`The answer does not follow ${PROTOCOL}: ${issues.join('; ')}`);
}
