/** The tables of a results folder, as Markdown. */
export function resultsTables(folder: string): string;
