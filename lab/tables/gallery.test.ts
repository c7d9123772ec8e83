import { expect, test } from 'vitest';
import { ladderSteps } from '@flashcore/tools/ladder-steps';
import { galleryMarkdown } from './gallery.ts';

test('the gallery shows each step with its lesson, its figure and the diff to the previous step', async () => {
  const steps = await ladderSteps();
  const sections = galleryMarkdown(steps).split(/^## /m).slice(1);
  expect(sections.map((section) => section.split('\n')[0])).toEqual(steps.map(({ id }) => id));
  for (const [index, { after, title }] of steps.entries()) {
    expect(sections[index]).toContain(`**${title}.**`);
    expect(sections[index]).toMatch(/p50 +\| [\d.]+ us/);
    expect(sections[index]!.includes('\n````diff\n--- ')).toBe(after !== undefined);
  }
});
