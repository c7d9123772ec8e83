import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BuildTools, Candidate, CudaDriver } from '@flashcore/runner/testing';
import { parseManifest, planLaunches, resolveVariant, type Shape } from '@flashcore/shared';

/** A kernel folder, compiled for the driver's device and ready for one shape. */
export async function compile(tools: BuildTools, driver: CudaDriver, path: string, shape: Shape): Promise<{ id: string; candidate: Candidate }> {
  const manifest = parseManifest(readFileSync(join(path, 'kernel.yaml'), 'utf8'), path);
  const { facts } = driver;
  const resolved = resolveVariant(manifest, {}, facts);
  const plan = planLaunches(manifest, resolved, shape);
  const arch = manifest.exactArch ? manifest.minArch : facts.arch;
  const { image, result } = await tools.kernels.build(
    { kernelId: manifest.id, folder: path, source: manifest.source, resolved, arch, emulated: facts.simulated, entries: [...new Set(plan.launches.map(({ entry }) => entry))], launches: plan.launches },
    { signal: AbortSignal.timeout(300_000) },
  );
  if (!image) throw new Error(`${manifest.id} does not compile: ${result.diagnostics.map(({ message }) => message).join('; ')}`);
  const { batch, heads, sequenceLength, headDim, causal } = shape;
  return { id: manifest.id, candidate: { image, shape: { batch, heads, sequenceLength, headDim, causal }, plan, launchLimitMs: 0 } };
}
