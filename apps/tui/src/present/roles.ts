/** What a piece of text means; the theme says how that looks. */
export const ROLES = [
  'text',
  'dim',
  'title',
  'accent',
  'good',
  'bad',
  'warn',
  'border',
  'focus',
  'key',
  'match',
  'simulated',
  'bar',
  'barAlternative',
  'axis',
] as const;
export type Role = (typeof ROLES)[number];

/** Text of one meaning. */
export interface Piece {
  readonly text: string;
  readonly role?: Role;
}

export const piece = (text: string, role?: Role): Piece => (role === undefined ? { text } : { text, role });
