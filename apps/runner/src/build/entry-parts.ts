/**
 * Groups of entries as parts to compile: what has an entry in common is one part, for a launch finds all that it needs
 * in one file. At most so many: the rest is dealt out to those that have fewest.
 */
export function partsOf(groups: readonly (readonly string[])[], most: number): string[][] {
  const parts: Set<string>[] = [];
  for (const group of groups) {
    const own = new Set(group);
    for (const other of parts.filter((part) => group.some((entry) => part.has(entry)))) {
      for (const entry of other) own.add(entry);
      parts.splice(parts.indexOf(other), 1);
    }
    if (own.size > 0) parts.push(own);
  }
  const dealt: string[][] = [];
  for (const part of parts
    .map((each) => [...each].sort())
    .sort((a, b) => b.length - a.length || (a[0]! < b[0]! ? -1 : 1))) {
    if (dealt.length < most) dealt.push(part);
    else dealt.toSorted((a, b) => a.length - b.length)[0]!.push(...part);
  }
  return dealt;
}
