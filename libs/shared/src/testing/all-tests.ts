/** Whether this is `npm run test:all`. */
export const ALL_TESTS = process.env['FLASHCORE_TESTS'] === 'all';

/** What a test goes through: all of it in `npm run test:all`, in `npm test` what `inShort` picks. */
export const inFull = <Each>(all: readonly Each[], inShort: (each: Each) => boolean): Each[] =>
  ALL_TESTS ? [...all] : all.filter(inShort);
