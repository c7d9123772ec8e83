/** Processor time of this process so far, milliseconds: unlike a clock it stands still while others have their turn. */
export function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
