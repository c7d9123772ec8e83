import { ServerInterceptingCall, ServerListenerBuilder, type ServerInterceptor } from '@grpc/grpc-js';
import { FlashcoreError, statusFromError } from '@flashcore/shared';

/** Lets only calls in that carry a known bearer token; all others end with UNAUTHENTICATED before their request is read. */
export function requireToken(find: (token: string) => string | undefined): ServerInterceptor {
  return (_method, call) => {
    const listener = new ServerListenerBuilder().withOnReceiveMetadata((metadata, next) => {
      const token = /^Bearer ([\x21-\x7e]{1,256})$/.exec(String(metadata.get('authorization')[0] ?? ''))?.[1];
      if (token !== undefined && find(token) !== undefined) next(metadata);
      else call.sendStatus(statusFromError(unauthenticated(token !== undefined)));
    }).build();
    return new ServerInterceptingCall(call, { start: (next) => next(listener) });
  };
}

function unauthenticated(hasToken: boolean): FlashcoreError {
  const what = hasToken ? 'the token sent is not, or no longer, one of this runner\'s' : 'no token was sent';
  return new FlashcoreError('UNAUTHENTICATED', {}, `Send a token as "authorization: Bearer <token>", made on the runner's host with "flashcore-runner token add <name>": ${what}`);
}
