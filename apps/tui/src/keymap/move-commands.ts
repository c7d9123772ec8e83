/** Moving the cursor of a view, or scrolling those that have none. */
import type { AppState } from '../state/app-state.ts';
import type { CommandRow } from './command.ts';

const hasDetails = ({ ui }: AppState): boolean =>
  ui.view === 'correct' || ui.view === 'latency' || ui.view === 'kernels';

const NO_DETAILS = 'Only 2, 3 and 7 have details with pages';

export const MOVE_COMMANDS = [
  { id: 'up', keys: ['k', 'up'], group: 'moving', help: 'Up; stops following the log' },
  { id: 'down', keys: ['j', 'down'], group: 'moving', help: 'Down', hint: 'move' },
  { id: 'half-page-up', keys: ['ctrl+u'], group: 'moving', help: 'Half a page up' },
  { id: 'half-page-down', keys: ['ctrl+d'], group: 'moving', help: 'Half a page down' },
  { id: 'page-up', keys: ['pageup'], group: 'moving', help: 'A page up' },
  { id: 'page-down', keys: ['pagedown', 'space'], group: 'moving', help: 'A page down' },
  {
    id: 'detail-down',
    keys: ['J'],
    group: 'moving',
    help: 'Next page of the details in 2, 3 and 7',
    when: hasDetails,
    whyNot: NO_DETAILS,
  },
  {
    id: 'detail-up',
    keys: ['K'],
    group: 'moving',
    help: 'Previous page of the details',
    when: hasDetails,
    whyNot: NO_DETAILS,
  },
  { id: 'first', keys: ['g', 'home'], group: 'moving', help: 'To the beginning' },
  { id: 'last', keys: ['G', 'end'], group: 'moving', help: 'To the end; follows the log again' },
] as const satisfies readonly CommandRow[];
