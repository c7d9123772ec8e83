/** What a device loads of a build: one file, or one for each group of entries that was compiled apart from others. */
export type DeviceImage = string | readonly ImagePart[];

export interface ImagePart {
  path: string;
  entries: readonly string[];
}

/** The file that has all these entries. */
export function fileWith(image: DeviceImage, entries: readonly string[]): string {
  if (typeof image === 'string') return image;
  const part = image.find((each) => entries.every((entry) => each.entries.includes(entry)));
  if (!part) throw new Error(`No part of the build has ${entries.join(', ')} together`);
  return part.path;
}
