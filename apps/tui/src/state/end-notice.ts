/** How the terminal announces the end of a long job. */
export const END_NOTICES = ['none', 'bell', 'notification'] as const;
export type EndNotice = (typeof END_NOTICES)[number];
