/** A handler for each command of the table. */
import type { CommandId } from '../keymap/commands.ts';
import { COPY_HANDLERS } from './copy-keys.ts';
import type { Handler } from './handler.ts';
import { JOB_HANDLERS } from './job-keys.ts';
import { LOG_HANDLERS } from './log-keys.ts';
import { MOVE_HANDLERS } from './move-keys.ts';
import { PROGRAM_HANDLERS } from './program-keys.ts';
import { editSource } from './source-keys.ts';
import { LATENCY_HANDLERS, MAP_HANDLERS, SHOW_HANDLERS, VIEW_HANDLERS } from './view-keys.ts';

export const HANDLERS: Record<CommandId, Handler> = {
  ...SHOW_HANDLERS,
  ...MAP_HANDLERS,
  ...VIEW_HANDLERS,
  ...LATENCY_HANDLERS,
  ...MOVE_HANDLERS,
  ...LOG_HANDLERS,
  ...JOB_HANDLERS,
  'edit-source': (context) => void editSource(context),
  ...COPY_HANDLERS,
  ...PROGRAM_HANDLERS,
};
