import { FindingKind, Verdict, type Shape } from '@flashcore/shared/contract';
import { formatShape, sameShape } from '@flashcore/shared/kernels';
import type { DeviceImage } from '../../worker/messages/launchable.ts';
import { takesShape } from '../spec/drawn-shapes.ts';
import { judgesRounding, type VerifySpec } from '../spec/job-spec.ts';
import { candidateFor, toleranceOfOutputs, referenceProcess } from './candidate.ts';
import { judge, type CaseRun } from './case-judgement.ts';
import { withInputs } from './case-runs.ts';
import { drawnInputs, drawnShapes } from './coming-verification.ts';
import type { VariantServices } from './job-services.ts';
import { smallestFailing } from './shrink-shape.ts';

interface DrawnOptions {
  spec: VerifySpec;
  image: DeviceImage;
}

/**
 * Runs the drawn shapes, the smallest first, until one fails; then searches for the smallest failing shape. That
 * shape's run comes last and has the findings.
 */
export async function runDrawn(services: VariantServices, { spec, image }: DrawnOptions): Promise<CaseRun[]> {
  const runs: CaseRun[] = [];
  for (const shape of drawnShapes(services, spec)) {
    const run = await runShape(services, { spec, image, shape });
    runs.push(run);
    if (run.findings.length > 0) return [...runs, ...(await shrunk(services, { spec, image, run }))];
  }
  return runs;
}

async function runShape(services: VariantServices, { spec, image, shape }: DrawnOptions & { shape: Shape }) {
  const { job, runtime } = services;
  const { absolute, relative } = spec.tolerance;
  const candidate = candidateFor(services, { image, shape });
  const inputs = drawnInputs(services, spec);
  const ownReference = await referenceProcess(services);
  const ownTolerances = toleranceOfOutputs(services);
  const outcome = await runtime.request(
    {
      type: 'verify',
      candidate,
      inputs,
      tolerance: { absolute, relative },
      ownTolerances,
      judgeRounding: judgesRounding(spec),
      ownReference,
      // On the emulator a second run would take as long again, and reads beyond a tensor fault there anyway.
      checkDeterminism: !services.spec.device.simulated,
      allInputs: true,
      tellOutputs: 0,
    },
    { signal: job.signal },
  );
  const run = judge(outcome, { shape, plan: candidate.plan, tolerance: spec.tolerance, ownTolerances });
  const told = outcome.status === 'done' ? withInputs(run, { shape, inputs, found: outcome.value.inputs }) : run;
  told.result.drawn = true;
  return told;
}

/** The run of the smallest failing shape, if it is another; its findings replace those of `run`. */
async function shrunk(
  services: VariantServices,
  { spec, image, run }: DrawnOptions & { run: CaseRun },
): Promise<CaseRun[]> {
  const { kernel, device } = services.spec;
  const from = run.result.shape!;
  const found = new Map<string, CaseRun>([[formatShape(from), run]]);
  // A launch that never ends would use its whole time limit at each try.
  const smallest = run.findings.some(({ kind }) => kind === FindingKind.TIMED_OUT)
    ? from
    : await smallestFailing(from, {
        problem: kernel.manifest.problem,
        takes: (shape) =>
          takesShape({ manifest: kernel.manifest, resolved: services.resolved, cases: services.cases }, shape),
        fails: async (shape) => {
          const tried = await runShape(services, { spec, image, shape });
          found.set(formatShape(shape), tried);
          return tried.result.verdict === Verdict.FAIL;
        },
      });
  const name = formatShape(smallest);
  const last = found.get(name)!;
  const isFirst = sameShape(smallest, from);
  const origin = isFirst ? 'drawn for this run' : `found from ${formatShape(from)}`;
  const seeds = spec.drawn!.seeds.map((seed) => `--seed ${seed}`).join(' ');
  const repeat = `fa-tui verify ${kernel.kernelId} --device ${device.deviceId} --shape ${name} ${seeds}`;
  for (const finding of last.findings) {
    const said = finding.message.startsWith(name)
      ? finding.message.slice(name.length).replace(/^:? /, '')
      : finding.message;
    finding.message = `smallest failing shape ${name} (${origin}): ${said}`;
    finding.remedy = `${finding.remedy === '' ? '' : `${finding.remedy}. `}To repeat it: ${repeat}`;
  }
  if (isFirst) return [];
  // Only the smallest shape reports the findings.
  run.findings.length = 0;
  last.result.foundFrom = from;
  return [last];
}
