import { TimingMode, type Shape } from '@flashcore/shared/contract';
import { shapeShort } from '../present/words.ts';

/** Names a series of samples: "2x8x512x64 HOT candidate". */
export const benchmarkKey = (shape: Shape | undefined, mode: TimingMode, subject: string): string =>
  `${shapeShort(shape)} ${TimingMode[mode]} ${subject}`;
