export const EMULATOR_ID = 'emulator';

/** Normalizes a device id: "gpu:1" becomes "gpu1", "emulator:0" becomes "emulator". */
export const plainDeviceId = (text: string): string =>
  text
    .toLowerCase()
    .replace(/^([a-z]+):(\d+)$/, '$1$2')
    .replace(/^emulator0$/, EMULATOR_ID);
