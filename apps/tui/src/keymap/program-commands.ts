/** Commands that belong to no view: copying, the mouse, the help, redrawing, suspending, leaving. */
import type { CommandRow } from './command.ts';

export const PROGRAM_COMMANDS = [
  { id: 'copy', keys: ['y'], group: 'program', help: 'Copy this view: text, Markdown, JSON or SVG' },
  { id: 'copy-line', keys: ['Y'], group: 'program', help: 'Copy the line under the cursor' },
  { id: 'mouse', keys: ['m'], group: 'program', help: 'Mouse on or off: wheel scrolls, a click selects' },
  {
    id: 'help',
    keys: ['?', ':', 'ctrl+p'],
    group: 'program',
    help: 'All commands: type to search, Enter runs one',
    hint: 'help',
  },
  { id: 'redraw', keys: ['ctrl+l'], group: 'program', help: 'Redraw the screen' },
  { id: 'suspend', keys: ['ctrl+z'], group: 'program', help: 'Suspend fa-tui; fg in the shell brings it back' },
  {
    id: 'leave',
    keys: ['q', 'Q', 'ctrl+c'],
    group: 'program',
    help: 'Leave fa-tui; jobs keep running',
    hint: 'detach',
  },
] as const satisfies readonly CommandRow[];
