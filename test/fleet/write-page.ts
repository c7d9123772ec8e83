/** Writes the figures of docs/fleet.md from the results of the measuring programs. */
import { writePage } from './page.ts';

writePage();
