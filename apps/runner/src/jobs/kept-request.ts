import { create, fromBinary, toBinary, type DescMessage } from '@bufbuild/protobuf';
import { JobOptionsSchema, KernelRunnerService } from '@flashcore/shared/contract';
import type { JobMethod, JobRequests, KeptRequest } from './job-context.ts';

/** A request in the form in which the store keeps it. */
export const keptRequest = <Method extends JobMethod>(method: Method, request: JobRequests[Method]): KeptRequest => ({
  method,
  request: toBinary(inputOf(method), request as never),
});

/** A kept request to plan again. Its device is the one chosen at first; the queue already has its other options. */
export function requestAgain<Method extends JobMethod>(
  { method, request }: KeptRequest & { method: Method },
  deviceId: string,
): JobRequests[Method] {
  const again = fromBinary(inputOf(method), request) as unknown as JobRequests[Method];
  again.options = create(JobOptionsSchema, { deviceId });
  return again;
}

const inputOf = (method: JobMethod): DescMessage => KernelRunnerService.method[method].input;
