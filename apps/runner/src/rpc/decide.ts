import { create, type DescMessage, type MessageShape } from '@bufbuild/protobuf';
import {
  DecisionKind,
  FlashcoreError,
  AcceptResponseSchema,
  NoteResponseSchema,
  RejectResponseSchema,
  UndoResponseSchema,
  AcceptRequestSchema,
  NoteRequestSchema,
  RejectRequestSchema,
  UndoRequestSchema,
  type AcceptRequest,
  type AcceptResponse,
  type Champion,
  type Job,
  type NoteRequest,
  type NoteResponse,
  type RejectRequest,
  type RejectResponse,
  type UndoRequest,
  type UndoResponse,
  ListChampionsResponseSchema,
  type ListChampionsRequest,
  type ListChampionsResponse,
} from '@flashcore/shared/contract';
import { requirePermission } from '../access/roles.ts';
import { NO_CHAMPION } from '../store/decisions.ts';
import { championOf, evidenceOf } from '../acceptance/champion-of.ts';
import { replacedChampions, sharesPlace } from '../acceptance/current-champion.ts';
import { requireOverruling, requireReplacing } from '../acceptance/overruling.ts';
import type { RepeatableRequest } from '../store/decisions.ts';
import type { CallContext, UnaryHandler } from './call.ts';
import type { Services } from './services.ts';
import { checkRequestId, requestDigest } from './start-job.ts';
import { checkJobName, checkKernelId } from './validate/names.ts';
import { Violations } from './validate/violations.ts';

const MAX_NOTE = 4096;

/**
 * Accepts the build of a passed ranked run as champion of its kernel, device model, shapes, dtype and protocol,
 * replacing the champion that it was compared with. Errors: NOT_ACCEPTABLE if the build is already champion, or if the
 * champion has changed since; PERMISSION_DENIED if the caller may not replace that champion.
 */
export const accept =
  (services: Services): UnaryHandler<AcceptRequest, AcceptResponse> =>
  (request, context) => {
    const repeatable = checkDecision(services, request, { context, what: 'accept', schema: AcceptRequestSchema });
    const { jobs, decisions } = services;
    const { job, result, id } = jobs.ended(request.job);
    return decisions.once(repeatable, AcceptResponseSchema, () => {
      const champion = championOf(job, result);
      const champions = decisions.champions();
      const held = champions.filter((other) => sharesPlace(other, champion));
      refuseAgain(job, held.length === 1 && championEverywhere(champion, held[0]!) ? 'the champion' : undefined);
      const { over } = request;
      const [replaced] = replacedChampions({ job, result: result!, wanted: champion, champions, over });
      if (replaced) {
        const verdict = result!.variants[0]!.comparison?.verdict;
        requireReplacing(context.caller, replaced, { job: job.name, buildId: champion.buildId, verdict });
      }
      const decision = decisions.add({
        kind: DecisionKind.ACCEPTED,
        job: { id, name: job.name, label: job.label },
        client: context.caller.name,
        role: context.caller.role,
        note: request.note,
        champion,
        evidence: evidenceOf(job, result!),
      });
      const now = decisions.champions().find(({ decision: made }) => made?.number === decision.number);
      const response = create(AcceptResponseSchema, { ...(now && { champion: now }), ...(replaced && { replaced }) });
      return { number: Number(decision.number), response };
    });
  };

/** Records that a result is not wanted, and ends its championship. Errors: NOT_ACCEPTABLE if rejected already. */
export const reject =
  (services: Services): UnaryHandler<RejectRequest, RejectResponse> =>
  (request, context) => {
    const repeatable = checkDecision(services, request, { context, what: 'reject', schema: RejectRequestSchema });
    const { jobs, decisions } = services;
    const { job, id } = jobs.ended(request.job);
    return decisions.once(repeatable, RejectResponseSchema, () => {
      requireOverruling(context.caller, decisions.latestOf(id), `reject ${job.label}`);
      refuseAgain(job, decisions.latestOf(id)?.kind === DecisionKind.REJECTED ? 'rejected' : undefined);
      const removed = decisions.champions().filter((champion) => champion.job === job.name);
      const decision = decisions.add({
        kind: DecisionKind.REJECTED,
        job: { id, name: job.name, label: job.label },
        client: context.caller.name,
        role: context.caller.role,
        note: request.note,
      });
      const response = create(RejectResponseSchema, { decision, removed });
      return { number: Number(decision.number), response };
    });
  };

/** Takes back the latest decision about an experiment. Errors: NOT_ACCEPTABLE if there is none. */
export const undo =
  (services: Services): UnaryHandler<UndoRequest, UndoResponse> =>
  (request, context) => {
    const repeatable = checkDecision(services, request, { context, what: 'decide about', schema: UndoRequestSchema });
    const { jobs, decisions } = services;
    const { job, id } = jobs.ended(request.job);
    return decisions.once(repeatable, UndoResponseSchema, () => {
      const latest = decisions.latestOf(id);
      if (!latest)
        throw new FlashcoreError(
          'NOT_ACCEPTABLE',
          { job: job.name },
          `Nothing to undo: ${job.name} was neither accepted nor rejected, or that was undone already`,
        );
      requireOverruling(context.caller, latest, `take back the decision about ${job.label}`);
      const decision = decisions.add({
        kind: DecisionKind.UNDONE,
        job: { id, name: job.name, label: job.label },
        client: context.caller.name,
        role: context.caller.role,
        note: request.note,
        undoes: Number(latest.number),
      });
      const champions = decisions.champions().filter(({ kernelId }) => kernelId === job.kernelId);
      return { number: Number(decision.number), response: create(UndoResponseSchema, { decision, champions }) };
    });
  };

/** Adds a note to an experiment. */
export const note =
  (services: Services): UnaryHandler<NoteRequest, NoteResponse> =>
  (request, context) => {
    const repeatable = checkDecision(services, request, { context, what: 'note', schema: NoteRequestSchema });
    const { jobs, decisions } = services;
    const { job, id } = jobs.ended(request.job);
    return decisions.once(repeatable, NoteResponseSchema, () => {
      const decision = decisions.add({
        kind: DecisionKind.NOTED,
        job: { id, name: job.name, label: job.label },
        client: context.caller.name,
        role: context.caller.role,
        note: request.note,
      });
      return { number: Number(decision.number), response: create(NoteResponseSchema, { decision }) };
    });
  };

type DecisionMessage = MessageShape<DescMessage> & { job: string; note: string; requestId: string; over?: string };

interface DecisionCall {
  context: CallContext;
  what: string;
  schema: DescMessage;
}

/** Checks permission and request; a note must have text. */
function checkDecision(
  { jobs }: Services,
  request: DecisionMessage,
  { context, what, schema }: DecisionCall,
): RepeatableRequest {
  const violations = new Violations();
  checkJobName('job', request.job, violations);
  if (schema === AcceptRequestSchema && request.over === '')
    violations.add(
      'over',
      `must be the champion that the result was compared with, as its acceptability names it: a job, or "${NO_CHAMPION}"`,
    );
  else if (schema === AcceptRequestSchema && request.over !== NO_CHAMPION)
    checkJobName('over', request.over ?? '', violations);
  // A note may have several lines, but no other control characters.
  violations.text('note', request.note.replaceAll('\n', ' '), MAX_NOTE);
  if (schema === NoteRequestSchema && request.note.trim() === '') violations.add('note', 'must not be empty');
  const id = checkRequestId('request_id', request.requestId, violations);
  violations.throwIfAny();
  const { owner } = jobs.get(request.job).job;
  if (owner !== context.caller.name)
    requirePermission(context.caller, 'decide-any', `${what} a result of ${owner || 'nobody known'}`);
  // The same id in upper case counts as the same request.
  request.requestId = id;
  return { id, client: context.caller.name, digest: requestDigest(schema.typeName, schema, request) };
}

/** A decision that would change nothing is refused and not recorded. */
function refuseAgain({ name }: Job, already: string | undefined): void {
  if (already === undefined) return;
  const short = name.replace(/^jobs\//, '').slice(0, 8);
  const text = `${short} is ${already} already: fa-tui undo ${short} takes that back, fa-tui note adds a note`;
  throw new FlashcoreError('NOT_ACCEPTABLE', { job: name }, text);
}

/** Whether a job already holds every place that accepting it would give; if it lost some, it may regain them. */
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
