import type { EndNotice } from '../state/end-notice.ts';
import type { ThemeChoice } from '../present/cells/theme.ts';

/** The appearance and behavior of the terminal program. */
export interface Appearance {
  readonly theme: ThemeChoice;
  /** Draw below the prompt, without a separate screen. */
  readonly inline: boolean;
  readonly mouse: boolean;
  /** Open as the user left it. */
  readonly restoreView: boolean;
  /** Action at the end of a job longer than 10 s. */
  readonly endNotice: EndNotice;
  readonly editor?: string | undefined;
  /** The user's own keys, by the command's id. */
  readonly keys?: Readonly<Record<string, readonly string[]>> | undefined;
}
