/** Metrics of the kernel folder itself. */
import type { Measure } from './answer.ts';

export const measureManifest: Measure = ({ undocumented }) => ({
  value: undocumented.length,
  detail:
    undocumented.length === 0 ? 'title, lesson and NOTES.md are there' : `not filled in: ${undocumented.join(', ')}`,
  source: 'the kernel folder',
});
