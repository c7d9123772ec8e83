import { ServerInterceptingCall, ServerListenerBuilder, type Metadata, type ServerInterceptor } from '@grpc/grpc-js';
import { FlashcoreError, statusFromError } from '@flashcore/shared/contract';
import type { FleetTable } from '../store/fleet-table.ts';

/** The method that registers a pilot, which can't have a session yet. */
const ATTACH = /\/Attach$/;

/** Refuses calls other than Attach without a pilot's session, before their message, which may be large, is read. */
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

/** The session that a call carries; "" if none. */
export const sessionIn = (metadata: Metadata): string =>
  /^Bearer ([\w-]{1,64})$/.exec(String(metadata.get('authorization')[0] ?? ''))?.[1] ?? '';
