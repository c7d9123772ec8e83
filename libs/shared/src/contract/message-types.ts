import { TimingMode } from '../generated/flashcore/runner/v1/result_pb.js';

/** Timing modes by the names that manifests, options and texts use. */
export const TIMING_MODES = { cold: TimingMode.COLD, hot: TimingMode.HOT } as const;

/** "cold" or "hot"; undefined for a mode that is not set or not known here. */
export const timingModeName = (mode: TimingMode): keyof typeof TIMING_MODES | undefined =>
  (['cold', 'hot'] as const).find((name) => TIMING_MODES[name] === mode);

/** The fields of a contract message. */
export type Plain<Message> = Omit<Message, '$typeName' | '$unknown'>;

/** The names of a contract enum. */
export type EnumName<Enum> = Exclude<keyof Enum & string, 'UNSPECIFIED'>;
