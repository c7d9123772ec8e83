/** Markdown of `file` without links to files that are not there. */
export function withoutDeadLinks(markdown: string, file: string): string;
