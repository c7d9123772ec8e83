/** What the end of a long job does to the terminal. */
export const END_NOTICES = ['none', 'bell', 'notification'] as const;
export type EndNotice = (typeof END_NOTICES)[number];
