/** Services expected of every gRPC server; loading them is a fifth of a runner's start. */
import type { Server } from '@grpc/grpc-js';
import { HealthImplementation } from 'grpc-health-check';
import { KernelRunnerService } from '@flashcore/shared/contract';
import { addReflection } from './reflection.ts';

/** Serves the standard health service and, if wanted, reflection. Returns a function that sets the serving status. */
export function addStandardServices(
  server: Server,
  { reflection }: { reflection: boolean },
): (serving: boolean) => void {
  const health = new HealthImplementation();
  const setServing = (serving: boolean): void => {
    for (const name of ['', KernelRunnerService.typeName]) health.setStatus(name, serving ? 'SERVING' : 'NOT_SERVING');
  };
  setServing(true);
  health.addToServer(server);
  if (reflection) addReflection(server);
  return setServing;
}
