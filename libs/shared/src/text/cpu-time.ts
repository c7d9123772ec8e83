/**
 * Processor time of this process so far, in milliseconds. Unlike a clock, it does not advance while other processes
 * run.
 */
export function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
