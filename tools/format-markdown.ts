import { format, resolveConfig } from 'prettier';

/** Markdown in the shape that `npm run lint` wants of the file at `path`: what a generator of a page ends with. */
export async function formatMarkdown(text: string, path: string): Promise<string> {
  return format(text, { ...(await resolveConfig(path)), filepath: path });
}
