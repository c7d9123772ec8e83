/** A client of the runner: calls, streams that are resumed, TLS, saved logins. */
export { listedJobs, RunnerClient } from './client.ts';
export { type ClientSecurity, channelCredentials, tlsChannelOptions } from './client-security.ts';
export {
  API_VERSION,
  CLIENT_CHANNEL_OPTIONS,
  JOB_RPCS,
  type JobRpcName,
  type RpcHandlers,
  type RpcName,
  type RpcRequestInit,
  SERVER_OPTIONS,
  serviceDefinition,
} from './grpc.ts';
export { isSilence } from './connection-error.ts';
