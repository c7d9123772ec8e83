import { spawnSync } from 'node:child_process';
import type { Device } from '@flashcore/shared';

const PROBE_LIMIT_MS = 20_000;
let pytorch: boolean | undefined;

/** Why no baseline is measured. A process that holds PyTorch and measures SDPA's backends takes this function's place when there is one. */
export function baselinesMissing(device: Device): string {
  if (device.simulated) return 'not measured: the emulator can\'t run PyTorch\'s SDPA';
  pytorch ??= hasPyTorch();
  return pytorch ? 'not measured: this version of the runner does not measure PyTorch\'s SDPA yet' : 'not measured: no PyTorch on this host';
}

function hasPyTorch(): boolean {
  const probe = 'import importlib.util, sys; sys.exit(0 if importlib.util.find_spec("torch") else 1)';
  return spawnSync('python3', ['-c', probe], { timeout: PROBE_LIMIT_MS, stdio: 'ignore' }).status === 0;
}
