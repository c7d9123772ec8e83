import { TimingMode } from '@flashcore/shared/contract';
import type { TimingModeName } from '../../worker/messages/measuring.ts';

/** Timing modes as the contract names them. */
export const MODES: Record<TimingModeName, TimingMode> = { cold: TimingMode.COLD, hot: TimingMode.HOT };
