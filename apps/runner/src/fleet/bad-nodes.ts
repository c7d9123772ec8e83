/** How long a node gets no pilots after one failed on it. */
const AVOID_MS = 600_000;
/** A pilot reports its node's name itself. */
const NODE = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/**
 * Nodes on which a partition's pilots failed. A broken node is always idle, so a scheduler would give it every pilot,
 * and jobs would fail although other nodes are fine.
 */
export class BadNodes {
  /** By partition and node: until when the node is avoided. */
  readonly #untilMs = new Map<string, Map<string, number>>();

  add(partition: string, node: string, nowMs: number): void {
    if (!NODE.test(node)) return;
    const nodes = this.#untilMs.get(partition) ?? new Map<string, number>();
    this.#untilMs.set(partition, nodes.set(node, nowMs + AVOID_MS));
  }

  of(partition: string, nowMs: number): string[] {
    return [...(this.#untilMs.get(partition) ?? [])].flatMap(([node, untilMs]) => (untilMs > nowMs ? [node] : []));
  }

  /** Called when no other node is left. */
  forget(partition: string): void {
    this.#untilMs.delete(partition);
  }
}
