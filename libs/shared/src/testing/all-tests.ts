/** Whether this run is `npm run test:all`. */
export const ALL_TESTS = process.env['FLASHCORE_TESTS'] === 'all';

/** The cases of a test: all of them in `npm run test:all`, and those that `inShort` picks in `npm test`. */
export const inFull = <Each>(all: readonly Each[], inShort: (each: Each) => boolean): Each[] =>
  ALL_TESTS ? [...all] : all.filter(inShort);
