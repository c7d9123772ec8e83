export interface SmiGpu {
  id: string;
  values: Map<string, string>;
}
export function parseNvidiaSmi(text: string): SmiGpu[];
export function quantity(text: string | undefined): number | undefined;
