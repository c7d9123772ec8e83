import type { EndNotice } from '../state/end-notice.ts';
import type { ThemeChoice } from '../present/cells/theme.ts';

/** How the terminal program looks and behaves. */
export interface Appearance {
  readonly theme: ThemeChoice;
  /** Below the prompt, without a screen of its own. */
  readonly inline: boolean;
  readonly mouse: boolean;
  /** Opens as it was left. */
  readonly restoreView: boolean;
  /** What the end of a job longer than 10 s does. */
  readonly endNotice: EndNotice;
  readonly editor?: string | undefined;
  /** The user's own keys, by the command's id. */
  readonly keys?: Readonly<Record<string, readonly string[]>> | undefined;
}
