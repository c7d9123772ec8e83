/**
 * Seconds that jobs of the given lengths take on `gpus` GPUs. Each job starts in order on the first free GPU, and
 * nothing but the jobs takes time.
 */
export function listSchedule(seconds: readonly number[], gpus: number): number {
  // Times at which the GPUs are free, as a binary heap.
  const free = Array.from({ length: gpus }, () => 0);
  let end = 0;
  for (const job of seconds) {
    const at = free[0]! + job;
    end = Math.max(end, at);
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child + 1 < gpus && free[child + 1]! < free[child]!) child += 1;
      if (child >= gpus || free[child]! >= at) break;
      free[index] = free[child]!;
      index = child;
    }
    free[index] = at;
  }
  return end;
}
