import { format, resolveConfig } from 'prettier';

/** Formats Markdown the way that `npm run lint` requires for the file at `path`. Page generators call it last. */
export async function formatMarkdown(text: string, path: string): Promise<string> {
  return format(text, { ...(await resolveConfig(path)), filepath: path });
}
