/** The meaning of a piece of text; the theme defines how the meaning looks. */
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

/** Text with a single meaning. */
export interface Piece {
  readonly text: string;
  readonly role?: Role;
  /** True if the text begins with a mark and a space, and only the mark has the role's color. */
  readonly isMarked?: boolean;
}

export const marked = (mark: string, text: string, role: Role): Piece => ({
  text: `${mark} ${text}`,
  role,
  isMarked: true,
});

/** The colored part and the part after it. */
export function colouredParts({ text, role, isMarked }: Piece): Piece[] {
  if (!isMarked) return [piece(text, role)];
  const end = text.indexOf(' ');
  return end < 0 ? [piece(text, role)] : [piece(text.slice(0, end), role), piece(text.slice(end))];
}

export const piece = (text: string, role?: Role): Piece => (role === undefined ? { text } : { text, role });
