/** What belongs to no view: copying, the mouse, the help, leaving. */
import type { CommandRow } from './command.ts';

export const PROGRAM_COMMANDS = [
  { id: 'copy', keys: ['y'], group: 'program', help: 'Copy this view: text, Markdown, JSON or SVG' },
  { id: 'copy-line', keys: ['Y'], group: 'program', help: 'Copy the line under the cursor' },
  { id: 'mouse', keys: ['m'], group: 'program', help: 'Mouse: wheel and clicks, or none (default)' },
  {
    id: 'help',
    keys: ['?', ':', 'ctrl+p'],
    group: 'program',
    help: 'Every command: type to search, Enter runs',
    hint: 'help',
  },
  { id: 'leave', keys: ['q', 'Q', 'ctrl+c'], group: 'program', help: 'Leave fa-tui; jobs go on', hint: 'detach' },
] as const satisfies readonly CommandRow[];
