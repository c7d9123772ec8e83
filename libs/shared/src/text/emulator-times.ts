/** Why the emulator's times are never judged, ranked or compared. Every message uses these words. */
export const EMULATOR_TIMES = 'emulator times are not GPU times';
