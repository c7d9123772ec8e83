/**
 * Code of both flashcore-conformance and flashcore-primitives. On a host that lacks something they report what is
 * missing.
 */
import { parseArgs, type ParseArgsConfig } from 'node:util';

const EXIT_USAGE = 2;
const EXIT_CANNOT_RUN = 3;

/** Reads the command line. --help prints the usage and ends the program; a wrong option ends it with exit code 2. */
export function readArguments<const Options extends NonNullable<ParseArgsConfig['options']>>(
  options: Options,
  usage: string,
) {
  if (process.argv.includes('--help') || process.argv.includes('-h')) {
    console.log(usage);
    process.exit(0);
  }
  try {
    return parseArgs({ allowPositionals: true, options });
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    console.error(`error: ${error.message.split('. ')[0]}\n${usage}`);
    process.exit(EXIT_USAGE);
  }
}

/**
 * Returns the exit status of `run`. If it fails, prints what went wrong with the named library and a remedy, and
 * returns 3. Rethrows a TypeError or RangeError with its stack trace, because that is a bug of this program.
 */
export async function withPlainErrors(library: string | undefined, run: () => Promise<number>): Promise<number> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof Error) || error instanceof TypeError || error instanceof RangeError) throw error;
    const unloadable = /load shared library/i.test(error.message);
    console.error(
      `error: ${unloadable ? `Name the driver library of a host with a GPU (libcuda.so.1 comes with NVIDIA's driver): ${library} can't be loaded (${error.message})` : error.message}`,
    );
    return EXIT_CANNOT_RUN;
  }
}
