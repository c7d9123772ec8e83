import { invalidRequest } from '@flashcore/shared/contract';
import { didYouMean } from '@flashcore/shared/text';

const SDPA_BACKENDS = ['flash', 'cudnn', 'efficient', 'math'];

/** Names with or without "sdpa/"; "sdpa" means all. Errors: INVALID_REQUEST naming the backends. */
export function sdpaBackendsOf(asked: readonly string[]): string[] {
  if (asked.includes('sdpa')) return [];
  return asked.map((text) => {
    const name = text.replace(/^sdpa\//, '');
    if (SDPA_BACKENDS.includes(name)) return name;
    throw invalidRequest({
      field: 'sdpa_backends',
      description: `must be some of ${SDPA_BACKENDS.join(', ')}, is "${text}"${didYouMean(name, SDPA_BACKENDS)}`,
    });
  });
}
