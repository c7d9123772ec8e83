import type { Timestamp } from '@bufbuild/protobuf/wkt';
import { formatInstant } from '../present/numbers.ts';

/** A time such as "2026-11-21 10:46:03Z"; empty if there is none. */
export const instantOf = (time: Timestamp | undefined): string => (time === undefined ? '' : formatInstant(time));

export const secondsOf = (time: Timestamp | undefined): number =>
  time === undefined ? 0 : Number(time.seconds) + time.nanos / 1e9;
