import { setFlagsFromString } from 'node:v8';

// V8 doubles its young generation while many objects survive, to 48 MB and more, and never gives it back: fifty streams
// and a flood of events then look like a leak of 100 MB. Where it is when a daemon starts is enough for 60,000 events a
// second. Takes effect where it is imported first.
setFlagsFromString('--semi-space-growth-factor=1');
