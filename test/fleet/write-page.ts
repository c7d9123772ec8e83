/** Makes the figures of docs/fleet.md of what the measuring programs stored. */
import { writePage } from './page.ts';

writePage();
