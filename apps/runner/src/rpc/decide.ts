import { create, type MessageInitShape, type MessageShape } from '@bufbuild/protobuf';
import {
  DecisionKind,
  FlashcoreError,
  KernelRunnerService,
  type Champion,
  type Decision,
  type Job,
  ListChampionsResponseSchema,
  type ListChampionsRequest,
  type ListChampionsResponse,
} from '@flashcore/shared/contract';
import { MAX_ACCEPTED_NOTES } from '@flashcore/shared/kernels';
import type { Caller } from '../access/caller.ts';
import { requirePermission } from '../access/roles.ts';
import { NO_CHAMPION, type DecisionStore, type NewDecision, type RepeatableRequest } from '../store/decisions.ts';
import { championOf, evidenceOf, requireCurrentRules } from '../acceptance/champion-of.ts';
import { replacedChampions, sharesPlace, requireOverruling, requireReplacing } from '../acceptance/current-champion.ts';
import type { UnaryHandler, Services } from './call.ts';
import { checkRequestId, requestDigest } from './start-job.ts';
import { checkJobName, checkKernelId, Violations } from './validate/violations.ts';

const MAX_NOTE = 4096;

type DecisionName = 'accept' | 'reject' | 'undo' | 'note';
type Methods = typeof KernelRunnerService.method;
type DecisionMessage<Name extends DecisionName = DecisionName> = MessageShape<Methods[Name]['input']>;
type ResponseSchema<Name extends DecisionName> = Methods[Name]['output'];

interface DecisionRpc<Name extends DecisionName> {
  /** The client's action, for the text of a refusal. */
  what: string;
  decide: (about: Deciding<DecisionMessage<Name>>) => {
    decision: Decision;
    answer: MessageInitShape<ResponseSchema<Name>>;
  };
}

/** The ended job that a request is about. */
interface Deciding<Request> extends ReturnType<Services['jobs']['ended']> {
  decisions: DecisionStore;
  planner: Services['planner'];
  caller: Caller;
  request: Request;
  /** Records the decision. */
  add: (entry: Pick<NewDecision, 'kind' | 'champion' | 'evidence' | 'undoes'>) => Decision;
}

/** Checks a decision, and makes it once per request. */
const decisionRpc =
  <Name extends DecisionName>(name: Name, { what, decide }: DecisionRpc<Name>) =>
  (services: Services): UnaryHandler<DecisionMessage<Name>, MessageShape<ResponseSchema<Name>>> =>
  (request, { caller }) => {
    const response: ResponseSchema<Name> = KernelRunnerService.method[name].output;
    const repeatable = checkDecision(services, request, { caller, what, name });
    const { jobs, decisions, planner } = services;
    const ended = jobs.ended(request.job);
    const { id, job } = ended;
    return decisions.once(repeatable, response, () => {
      const add: Deciding<DecisionMessage<Name>>['add'] = (entry) =>
        decisions.add({
          ...entry,
          job: { id, name: job.name, label: job.label },
          client: caller.name,
          role: caller.role,
          note: request.note,
        });
      const { decision, answer } = decide({ ...ended, decisions, planner, caller, request, add });
      return { number: Number(decision.number), response: create(response, answer) };
    });
  };

/**
 * Accepts the build of a passed ranked run as champion of its kernel, device model, shapes, dtype and protocol,
 * replacing the champion that it was compared with. Errors: NOT_ACCEPTABLE if the build is already champion, or if the
 * champion or the owner's rules have changed since; PERMISSION_DENIED if the caller may not replace that champion, or
 * overrule the last decision about the result.
 */
export const accept = decisionRpc('accept', {
  what: 'accept',
  decide: ({ job, id, result, decisions, planner, caller, request: { over, notes }, add }) => {
    const champion = championOf(job, result, notes);
    const champions = decisions.champions();
    const held = champions.filter((other) => sharesPlace(other, champion));
    refuseAgain(job, held.length === 1 && championEverywhere(champion, held[0]!) ? 'the champion' : undefined);
    // If an admin rejected the result or undid its acceptance, only a caller who may overrule the admin can accept it.
    requireOverruling(caller, decisions.lastAbout(id), `change the decision about ${job.label}`);
    requireCurrentRules(job, result!, planner);
    const [replaced] = replacedChampions({ job, result: result!, wanted: champion, champions, over });
    if (replaced) {
      const verdict = result!.variants[0]!.comparison?.verdict;
      requireReplacing(caller, replaced, { job: job.name, buildId: champion.buildId, verdict });
    }
    const decision = add({ kind: DecisionKind.ACCEPTED, champion, evidence: evidenceOf(job, result!, notes) });
    const now = decisions.champions().find(({ decision: made }) => made?.number === decision.number);
    return { decision, answer: { ...(now && { champion: now }), ...(replaced && { replaced }) } };
  },
});

/** Records that a result is not wanted, and ends its championship. Errors: NOT_ACCEPTABLE if rejected already. */
export const reject = decisionRpc('reject', {
  what: 'reject',
  decide: ({ job, id, decisions, caller, add }) => {
    requireOverruling(caller, decisions.latestOf(id), `reject ${job.label}`);
    refuseAgain(job, decisions.latestOf(id)?.kind === DecisionKind.REJECTED ? 'rejected' : undefined);
    const removed = decisions.champions().filter((champion) => champion.job === job.name);
    const decision = add({ kind: DecisionKind.REJECTED });
    return { decision, answer: { decision, removed } };
  },
});

/** Takes back the latest decision about an experiment. Errors: NOT_ACCEPTABLE if there is none. */
export const undo = decisionRpc('undo', {
  what: 'decide about',
  decide: ({ job, id, decisions, caller, add }) => {
    const latest = decisions.latestOf(id);
    if (!latest)
      throw new FlashcoreError(
        'NOT_ACCEPTABLE',
        { job: job.name },
        `Nothing to undo: ${job.name} was neither accepted nor rejected, or that was undone already`,
      );
    requireOverruling(caller, latest, `take back the decision about ${job.label}`);
    const decision = add({ kind: DecisionKind.UNDONE, undoes: Number(latest.number) });
    const champions = decisions.champions().filter(({ kernelId }) => kernelId === job.kernelId);
    return { decision, answer: { decision, champions } };
  },
});

/** Adds a note to an experiment. */
export const note = decisionRpc('note', {
  what: 'note',
  decide: ({ add }) => {
    const decision = add({ kind: DecisionKind.NOTED });
    return { decision, answer: { decision } };
  },
});

interface DecisionCall {
  caller: Caller;
  what: string;
  name: DecisionName;
}

/** Checks permission and request; a note must have text. */
function checkDecision(
  { jobs }: Services,
  request: DecisionMessage,
  { caller, what, name }: DecisionCall,
): RepeatableRequest {
  const violations = new Violations();
  checkJobName('job', request.job, violations);
  if ('over' in request && request.over === '')
    violations.add(
      'over',
      `must be the champion that the result was compared with, as its acceptability names it: a job, or "${NO_CHAMPION}"`,
    );
  else if ('over' in request && request.over !== NO_CHAMPION) checkJobName('over', request.over, violations);
  // A note may have several lines, but no other control characters.
  violations.text('note', request.note.replaceAll('\n', ' '), MAX_NOTE);
  if ('notes' in request) violations.text('notes', request.notes.replaceAll(/[\t\n]/g, ' '), MAX_ACCEPTED_NOTES);
  if (name === 'note' && request.note.trim() === '') violations.add('note', 'must not be empty');
  const id = checkRequestId('request_id', request.requestId, violations);
  violations.throwIfAny();
  const { owner } = jobs.get(request.job).job;
  if (owner !== caller.name) requirePermission(caller, 'decide-any', `${what} a result of ${owner || 'nobody known'}`);
  // The same id in upper case is the same request.
  request.requestId = id;
  const schema = KernelRunnerService.method[name].input;
  return { id, client: caller.name, digest: requestDigest(schema.typeName, schema, request) };
}

/** A decision that would change nothing is refused and not recorded. */
function refuseAgain({ name }: Job, already: string | undefined): void {
  if (already === undefined) return;
  const short = name.replace(/^jobs\//, '').slice(0, 8);
  const text = `${short} is ${already} already: fa-tui undo ${short} takes that back, fa-tui note adds a note`;
  throw new FlashcoreError('NOT_ACCEPTABLE', { job: name }, text);
}

/**
 * Whether a job is already champion in every place that accepting it would give. If it was replaced in some of these
 * places, accepting it again is not refused.
 */
const championEverywhere = (wanted: Champion, held: Champion): boolean =>
  held.job === wanted.job && held.shapes.length === wanted.shapes.length;

const MAX_DECISIONS = 1000;

/**
 * Lists the champions by device and, on request, every decision. Errors: KERNEL_NOT_FOUND if the runner neither has the
 * kernel nor ever ran it.
 */
export const listChampions =
  ({ decisions, history, kernels }: Services): UnaryHandler<ListChampionsRequest, ListChampionsResponse> =>
  ({ deviceName, kernelId, includeDecisions }) => {
    const violations = new Violations();
    violations.text('device_name', deviceName);
    if (kernelId !== '') checkKernelId('kernel_id', kernelId, violations);
    violations.throwIfAny();
    // An uploaded kernel is known only by its runs.
    if (kernelId !== '' && history.list({ limit: 1, kernelId }).length === 0) kernels.requireKnown(kernelId);
    const champions = decisions
      .champions()
      .filter(
        (champion) =>
          (deviceName === '' || champion.deviceName === deviceName) &&
          (kernelId === '' || champion.kernelId === kernelId),
      )
      .toSorted((a, b) => a.deviceName.localeCompare(b.deviceName));
    return create(ListChampionsResponseSchema, {
      champions,
      decisions: includeDecisions ? decisions.list({ limit: MAX_DECISIONS }) : [],
    });
  };
