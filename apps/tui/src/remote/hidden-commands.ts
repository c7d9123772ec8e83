/** Commands that this program starts by itself, on the host and here. They are not in the help. */

/** On the host: connects stdin and stdout to the runner there. */
export const DIAL = '__dial';

/** Here: watches a host for idleness and stops it. */
export const IDLE = '__idle';
