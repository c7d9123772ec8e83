import type { ThemeChoice } from '../present/cells/theme.ts';

/** How the terminal program looks and behaves. */
export interface Appearance {
  readonly theme: ThemeChoice;
  /** Below the prompt, without a screen of its own. */
  readonly inline: boolean;
  readonly mouse: boolean;
  /** Opens as it was left. */
  readonly restoreView: boolean;
  readonly editor?: string | undefined;
}
