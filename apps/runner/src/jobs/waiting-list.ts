/** Waiting jobs of one client, in order of arrival; looked up by binary search. */
export class WaitingList<Run extends { jobId: number }> {
  /** By ascending id. Entries before #first are gone. */
  #runs: Run[] = [];
  #first = 0;

  get length(): number {
    return this.#runs.length - this.#first;
  }

  push(run: Run): void {
    this.#runs.push(run);
  }

  /** Removes and returns the first job. */
  shift(): Run | undefined {
    const run = this.#runs[this.#first];
    if (!run) return undefined;
    this.#first += 1;
    // Compacts only now and then, so the amortized cost is constant.
    if (this.#first > this.#runs.length / 2) {
      this.#runs = this.#runs.slice(this.#first);
      this.#first = 0;
    }
    return run;
  }

  /** How many jobs come before a run; -1 if it is not in the list. */
  indexOf({ jobId }: Run): number {
    let [low, high] = [this.#first, this.#runs.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#runs[middle]!.jobId < jobId) low = middle + 1;
      else high = middle;
    }
    return this.#runs[low]?.jobId === jobId ? low - this.#first : -1;
  }

  /** Removes a run; returns whether it was in the list. */
  remove(run: Run): boolean {
    const index = this.indexOf(run);
    if (index >= 0) this.#runs.splice(this.#first + index, 1);
    return index >= 0;
  }
}
