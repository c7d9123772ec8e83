import { ServerInterceptingCall, ServerListenerBuilder, type Metadata, type ServerInterceptor } from '@grpc/grpc-js';
import { FlashcoreError, statusFromError } from '@flashcore/shared/contract';
import type { FleetTable } from '../store/fleet-table.ts';

/** Registers a pilot, and so can't have a session yet. */
const ATTACH = /\/Attach$/;

/** Refuses every call but Attach that has no pilot's session, before its message, which may be large, is read. */
export const onlySessions =
  (table: FleetTable): ServerInterceptor =>
  (method, call) => {
    const listener = new ServerListenerBuilder()
      .withOnReceiveMetadata((metadata, next) => {
        if (ATTACH.test(method.path) || hasSession(metadata, table)) return next(metadata);
        const text = 'Register first (Attach), and send the session that it gave';
        call.sendStatus(statusFromError(new FlashcoreError('UNAUTHENTICATED', {}, text)));
      })
      .build();
    return new ServerInterceptingCall(call, { start: (next) => next(listener) });
  };

function hasSession(metadata: Metadata, table: FleetTable): boolean {
  const session = sessionIn(metadata);
  return session !== '' && table.pilotOf(session) !== undefined;
}

/** The session that a call carries; "" for none. */
export const sessionIn = (metadata: Metadata): string =>
  /^Bearer ([\w-]{1,64})$/.exec(String(metadata.get('authorization')[0] ?? ''))?.[1] ?? '';
