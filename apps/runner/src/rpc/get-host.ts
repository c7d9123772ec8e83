import { create } from '@bufbuild/protobuf';
import { GetHostResponseSchema, type GetHostRequest, type GetHostResponse } from '@flashcore/shared/contract';
import type { UnaryHandler } from './call.ts';
import type { Services } from './services.ts';

/** Describes the host, its abilities and the caller. */
export const getHost =
  ({ host, jobs, planner }: Services): UnaryHandler<GetHostRequest, GetHostResponse> =>
  async ({ readings }, { caller }) =>
    create(GetHostResponseSchema, {
      host: await host.describe({
        devices: jobs.devices(),
        activeJobs: jobs.active,
        trusted: !caller.authenticated,
        readings,
      }),
      caller: { name: caller.name, role: caller.role },
      ...planner.judging(),
    });
