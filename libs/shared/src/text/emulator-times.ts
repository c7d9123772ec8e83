/** Why no time of the emulator is judged, ranked or compared: in the same words wherever it is said. */
export const EMULATOR_TIMES = 'emulator times are not GPU times';
