/** What a thrown value says of itself. */
export const errorText = (error: unknown): string => (error instanceof Error ? error.message : String(error));
