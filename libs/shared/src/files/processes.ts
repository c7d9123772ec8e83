/** Whether any process has this id, whoever owns it. */
export function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // EPERM means that it runs as another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Kills a process and everything it started in its group. Does nothing if it never started. */
export function killProcessGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    // It has ended or belongs to another user, so it cannot be killed here.
    if (!['ESRCH', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}
