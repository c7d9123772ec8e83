export const EMULATOR_ID = 'emulator';

/** "gpu:1" is "gpu1", "emulator:0" is "emulator". */
export const plainDeviceId = (text: string): string =>
  text
    .toLowerCase()
    .replace(/^([a-z]+):(\d+)$/, '$1$2')
    .replace(/^emulator0$/, EMULATOR_ID);
