/** Head and rows of a table of a results folder; undefined where nothing was measured. */
type Rows = (folder: string) => string[][] | undefined;
export const graphRows: Rows;
export const overlapRows: Rows;
export const launchOptionRows: Rows;
export const parityRows: Rows;
export const severalRows: Rows;
export const cardRows: Rows;
export const comparisonRows: Rows;
export const clockRows: Rows;
