/**
 * Checks whether sequential calls can explain a history of concurrent calls, if each call takes effect at one moment
 * between its start and its answer. The search is Wing and Gong's (1993), with Lowe's (2017) memory of states.
 */

/** A client's call with its answer. */
export interface Call<Operation, Answer> {
  readonly operation: Operation;
  readonly answer: Answer;
  readonly calledAt: bigint;
  readonly answeredAt: bigint;
}

/** The effects of calls made one after another. States are compared as JSON. */
export interface Model<State, Operation, Answer> {
  readonly initial: State;
  /** The state after the operation; undefined if the operation cannot have this answer in this state. */
  readonly step: (state: State, operation: Operation, answer: Answer) => State | undefined;
}

/** An order of the calls that the model explains; undefined if none exists. */
export function orderOf<State, Operation, Answer>(
  history: readonly Call<Operation, Answer>[],
  { initial, step }: Model<State, Operation, Answer>,
): Call<Operation, Answer>[] | undefined {
  const calls = history.toSorted((a, b) => (a.calledAt < b.calledAt ? -1 : 1));
  const seen = new Set<string>();
  const placed = new Set<number>();
  const order: Call<Operation, Answer>[] = [];

  const search = (state: State): boolean => {
    if (placed.size === calls.length) return true;
    const key = `${[...placed].toSorted((a, b) => a - b).join()} ${JSON.stringify(state)}`;
    if (seen.has(key)) return false;
    seen.add(key);
    const waiting = calls.flatMap((call, index) => (placed.has(index) ? [] : [{ call, index }]));
    const firstAnswer = waiting.reduce(
      (least, { call }) => (call.answeredAt < least ? call.answeredAt : least),
      waiting[0]!.call.answeredAt,
    );
    return waiting.some(({ call, index }) => {
      // Another call was answered before this call started, so this call cannot come first.
      if (call.calledAt > firstAnswer) return false;
      const next = step(state, call.operation, call.answer);
      if (next === undefined) return false;
      placed.add(index);
      order.push(call);
      if (search(next)) return true;
      placed.delete(index);
      order.pop();
      return false;
    });
  };
  return search(initial) ? order : undefined;
}
