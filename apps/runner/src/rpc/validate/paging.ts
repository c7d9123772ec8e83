import type { Violations } from './violations.ts';

const DEFAULT_PAGE_SIZE = 50;
const MAX_PAGE_SIZE = 1000;

export interface Page {
  size: number;
  /** Continue with ids below this one. */
  before: number | undefined;
}

/** Reads page_size and page_token; `filter` is the rest of the request, which the token is bound to. */
export function checkPage(
  { pageSize, pageToken }: { pageSize: number; pageToken: string },
  filter: string,
  violations: Violations,
): Page {
  violations.range('page_size', pageSize, { least: 0, most: MAX_PAGE_SIZE });
  const before = pageToken === '' ? undefined : readToken(pageToken, filter);
  if (pageToken !== '' && before === undefined)
    violations.add('page_token', 'must be the next_page_token of an answer to the same request');
  return { size: pageSize || DEFAULT_PAGE_SIZE, before };
}

/** The next page's token: the last id of this one, bound to the filter. Empty if the page is not full. */
export function nextPageToken(ids: readonly number[], size: number, filter: string): string {
  const last = ids.at(-1);
  return last === undefined || ids.length < size ? '' : Buffer.from(`${last} ${filter}`).toString('base64url');
}

function readToken(token: string, filter: string): number | undefined {
  const [, id, bound] = /^(\d{1,15}) (.*)$/s.exec(Buffer.from(token, 'base64url').toString()) ?? [];
  return id !== undefined && bound === filter ? Number(id) : undefined;
}
