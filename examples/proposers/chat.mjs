// A proposer that asks a model behind any chat-completions endpoint.
//
//   CHAT_URL=http://127.0.0.1:8000/v1 CHAT_MODEL=some-model CHAT_KEY=... \
//     fa-tui evolve flashcore_v8 --config insight --proposer "node examples/proposers/chat.mjs"
//
// CHAT_TEMPERATURE (default 0.8) and CHAT_MAX_TOKENS (default 16000) are passed on. The key goes only to the endpoint;
// flashcore's runner never sees it.
import { readFileSync } from 'node:fs';

const { CHAT_URL, CHAT_MODEL, CHAT_KEY, CHAT_TEMPERATURE = '0.8', CHAT_MAX_TOKENS = '16000' } = process.env;
for (const [name, value] of Object.entries({ CHAT_URL, CHAT_MODEL })) if (!value) fail(`${name} must be set`);

function fail(text) {
  console.error(text);
  process.exit(1);
}

const request = JSON.parse(readFileSync(0, 'utf8'));
if (request.protocol !== 'flashcore-proposer 1')
  fail(`this proposer speaks flashcore-proposer 1, not ${request.protocol}`);

const fence = (path, text) => `### ${path}\n\`\`\`\n${text}\n\`\`\``;
const solutionText = ({ trial, role, name, thought, score, metrics, parameters, files }) =>
  [
    `## ${role === 'best' ? 'BEST SO FAR' : 'PARENT'}: trial ${trial} ${name}`,
    `**Score:** ${score} x trial 0. **Approach:** ${thought || 'the kernel that the search began with'}`,
    `**Metrics:** ${JSON.stringify(metrics)} **Parameters:** ${JSON.stringify(parameters)}`,
    ...Object.entries(files ?? {}).map(([path, text]) => fence(path, text)),
  ].join('\n');

const STRATEGY = {
  init: 'Propose a change of the best kernel that reduces its latency while its output stays right.',
  crossover: 'Combine the best features of the parents in one kernel.',
  mutation: 'Apply a significant change to the parent that explores a new direction.',
};

const { task, solutions, thoughts, insights, operator, base } = request;
const prompt = [
  `# CUDA KERNEL ${operator === 'init' ? 'OPTIMIZATION' : operator.toUpperCase()} TASK`,
  task.objective,
  `Device: ${JSON.stringify(task.device)}`,
  `Cases that must be right: ${task.cases.join(', ')}`,
  `Limits: ${task.limits.join('; ')}`,
  `Parameters: ${JSON.stringify(task.parameters)}`,
  `Headers that may be included: ${task.headers.map(({ path, about }) => `${path} (${about})`).join('; ')}`,
  ...task.rules.map((rule) => `- ${rule}`),
  ...solutions.map(solutionText),
  ...(thoughts.length > 0 ? ['## OPTIMIZATION INSIGHTS', ...thoughts.map((thought) => `- ${thought}`)] : []),
  ...(insights.feedback ? ['## FEEDBACK', insights.feedback] : []),
  ...(insights.notes ? ['## NOTES', insights.notes] : []),
  '## ALREADY TRIED (do not propose these again)',
  ...insights.tried.map(({ trial, name, outcome }) => `- ${trial} ${name}: ${outcome}`),
  '## STRATEGY',
  STRATEGY[operator],
  '## ANSWER',
  `One JSON object and nothing after it: {"name": a few words, "thought": why it is faster, "files": {path: whole text of each file that changes}, "parameters": {NAME: integer}}. Files are laid over those of trial ${base.trial}.`,
].join('\n\n');

const response = await fetch(`${CHAT_URL.replace(/\/$/, '')}/chat/completions`, {
  method: 'POST',
  headers: { 'content-type': 'application/json', ...(CHAT_KEY && { authorization: `Bearer ${CHAT_KEY}` }) },
  body: JSON.stringify({
    model: CHAT_MODEL,
    temperature: Number(CHAT_TEMPERATURE),
    max_tokens: Number(CHAT_MAX_TOKENS),
    messages: [
      { role: 'system', content: 'You optimise CUDA kernels. You answer with one JSON object.' },
      { role: 'user', content: prompt },
    ],
  }),
});
const body = await response.text();
if (!response.ok) fail(`${CHAT_URL} answered ${response.status}: ${body.slice(0, 500)}`);
const completion = JSON.parse(body);
const content = completion.choices?.[0]?.message?.content ?? '';
// Models wrap JSON in a code fence and write text before it.
const [first, last] = [content.indexOf('{'), content.lastIndexOf('}')];
if (first < 0 || last < first) fail(`the model answered no JSON object: ${content.slice(0, 500)}`);
let answer;
try {
  answer = JSON.parse(content.slice(first, last + 1));
} catch (error) {
  fail(`the model's object is not JSON: ${error.message}`);
}
const { prompt_tokens: input, completion_tokens: output } = completion.usage ?? {};
const tokens = input === undefined || output === undefined ? {} : { tokens: { input, output } };
console.log(JSON.stringify({ ...answer, ...tokens }));
