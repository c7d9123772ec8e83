/** Commands that this program starts for itself, on the host and here. They stand in no help. */

/** On the host: stdin and stdout become the connection to the runner there. */
export const DIAL = '__dial';

/** Here: watches a host for idleness, and stops it. */
export const IDLE = '__idle';
