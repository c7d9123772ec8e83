import { create } from '@bufbuild/protobuf';
import {
  KernelVariantSchema,
  type BenchmarkSettings,
  type Device,
  type ProfileSettings,
  type VerifySettings,
} from '@flashcore/shared/contract';
import type { JobMethod, JobRequests } from '../jobs/job-context.ts';
import { plannedSettings, type JudgedBy } from './judged-by.ts';

/** Seeds for each variant of a search. Few suffice, because a variant is verified again before acceptance. */
const TUNE_SEEDS = 2;

interface Settings {
  verify?: Partial<VerifySettings>;
  benchmark?: Partial<BenchmarkSettings>;
  profile?: Partial<ProfileSettings>;
}

interface Asked {
  method: JobMethod;
  request: JobRequests[JobMethod];
  judged: JudgedBy | undefined;
  device: Device;
}

/**
 * The phases of a job with the request's settings; in an experiment, the plan gives the settings that the request
 * leaves open.
 */
export function settingsOf({ method, request, judged, device }: Asked): Settings {
  switch (method) {
    case 'build':
      return {};
    case 'verify':
      return { verify: (request as JobRequests['verify']).settings ?? {} };
    case 'benchmark': {
      const settings: Partial<BenchmarkSettings> = (request as JobRequests['benchmark']).settings ?? {};
      const shapes = settings.shapes ?? [];
      // Before anything is timed, one case is verified or, in a comparison, every compared shape: no wrong kernel is
      // timed.
      return { verify: { shapes: settings.champion ? shapes : shapes.slice(0, 1), seedCount: 1 }, benchmark: settings };
    }
    case 'profile':
      return { profile: (request as JobRequests['profile']).settings ?? {} };
    case 'tune': {
      const { shapes, kernel, variant, champion } = request as JobRequests['tune'];
      // The champion is the unchanged kernel if the request names none and the device has none.
      return {
        verify: { shapes: shapes.length > 0 ? shapes : [], seedCount: TUNE_SEEDS },
        benchmark: { shapes, champion: champion ?? create(KernelVariantSchema, { kernel, variant }) },
      };
    }
    case 'runExperiment': {
      return plannedSettings(request as JobRequests['runExperiment'], judged!, device);
    }
  }
}

export const namesNoShapes = (asked: BenchmarkSettings | undefined): boolean =>
  (asked?.shapes.length ?? 0) === 0 && (asked?.shapeSet ?? '') === '';
