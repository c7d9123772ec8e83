/** Jobs of one client that wait, in the order in which they came; none is looked for one by one. */
export class WaitingList<Run extends { jobId: number }> {
  /** By rising id. Those before #first are gone. */
  #runs: Run[] = [];
  #first = 0;

  get length(): number {
    return this.#runs.length - this.#first;
  }

  push(run: Run): void {
    this.#runs.push(run);
  }

  /** Takes the first. */
  shift(): Run | undefined {
    const run = this.#runs[this.#first];
    if (!run) return undefined;
    this.#first += 1;
    // Now and then, so that each costs the same in the long run.
    if (this.#first > this.#runs.length / 2) {
      this.#runs = this.#runs.slice(this.#first);
      this.#first = 0;
    }
    return run;
  }

  /** How many come before a run; -1 when it is not here. */
  indexOf({ jobId }: Run): number {
    let [low, high] = [this.#first, this.#runs.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#runs[middle]!.jobId < jobId) low = middle + 1;
      else high = middle;
    }
    return this.#runs[low]?.jobId === jobId ? low - this.#first : -1;
  }

  /** Whether it was here. */
  remove(run: Run): boolean {
    const index = this.indexOf(run);
    if (index >= 0) this.#runs.splice(this.#first + index, 1);
    return index >= 0;
  }
}
