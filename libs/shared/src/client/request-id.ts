import { randomUUID } from 'node:crypto';
import { clone, create } from '@bufbuild/protobuf';
import {
  type BuildRequestSchema,
  JobOptionsSchema,
  KernelRunnerService,
} from '../generated/flashcore/runner/v1/service_pb.js';
import type { JobRpcName, RpcRequest, RpcRequestInit } from './grpc.ts';

/**
 * The request with a request_id. A copy: the caller's message stays as it is, and starts another job when it is sent
 * again.
 */
export function withRequestId<Name extends JobRpcName>(method: Name, init: RpcRequestInit<Name>): RpcRequest<Name> {
  const schema = KernelRunnerService.method[method].input as typeof BuildRequestSchema;
  const message = clone(schema, create(schema, init as RpcRequestInit<'build'>));
  message.options ??= create(JobOptionsSchema);
  message.options.requestId ||= randomUUID();
  return message as RpcRequest<JobRpcName> as RpcRequest<Name>;
}

/** With a UUID of its own where it has none, so that a cut call which is made again decides once. */
export const once = <Request extends { requestId?: string }>(request: Request): Request => ({
  ...request,
  requestId: request.requestId || randomUUID(),
});
