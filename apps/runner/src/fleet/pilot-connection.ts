import { once } from 'node:events';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { type Client, type ClientDuplexStream, type MethodDefinition, type ServiceError, status } from '@grpc/grpc-js';
import { errorFromStatus, FlashcoreError, hasErrorDetails } from '@flashcore/shared/contract';
import {
  AttachRequestSchema,
  fleetServiceDefinition,
  type Assignment,
  type AttachRequest,
  type AttachResponse,
  type Register,
  type Registered,
} from '@flashcore/shared/fleet';

/** Says something to the gateway; waits where the connection has no room. */
export type Say = (message: MessageInitShape<typeof AttachRequestSchema>['message']) => Promise<void>;

/** What the gateway says, and what becomes of it. */
export interface GatewayListener {
  registered(goesOn: Registered): void;
  assigned(assignment: Assignment): void;
  stop(lease: bigint): void;
}

export interface ConnectionEnd {
  /** It was let in. */
  registered: boolean;
  /** The gateway does not need the pilot any more. */
  dismissed?: string;
  /** The gateway does not let it in. */
  refused?: Error;
  /** The error that ended it, where neither side closed it. */
  failure?: Error;
  /** The error is the gateway's own: it is there, and can't let a pilot in now. */
  answered?: boolean;
}

const BEAT_MS = 4_000;

/** One connection of a pilot to its gateway. */
export class PilotConnection {
  readonly #link: ClientDuplexStream<AttachRequest, AttachResponse>;
  readonly #listener: GatewayListener;
  readonly #over = new AbortController();
  readonly #end: ConnectionEnd = { registered: false };

  constructor(channel: Client, listener: GatewayListener) {
    this.#listener = listener;
    const { path, requestSerialize, responseDeserialize } = fleetServiceDefinition['attach'] as MethodDefinition<
      AttachRequest,
      AttachResponse
    >;
    this.#link = channel.makeBidiStreamRequest(path, requestSerialize, responseDeserialize);
  }

  /** Aborted when the connection has ended. */
  get over(): AbortSignal {
    return this.#over.signal;
  }

  /** Registers, and listens until either side ends it. */
  async run(register: Register, secondsLeft: () => bigint): Promise<ConnectionEnd> {
    const link = this.#link;
    const ended = Promise.withResolvers<ServiceError | undefined>();
    link.on('data', ({ message }: AttachResponse) => this.#hear(message));
    link.on('end', () => ended.resolve(undefined));
    link.on('error', (error: ServiceError) => ended.resolve(error));
    this.over.addEventListener('abort', () => ended.resolve(undefined), { once: true });
    const beat = setInterval(
      () => void this.say({ case: 'heartbeat', value: { secondsLeft: secondsLeft() } }),
      BEAT_MS,
    );
    try {
      void this.say({ case: 'register', value: register });
      const error = await ended.promise;
      const refused = error && refusalIn(error);
      return {
        ...this.#end,
        ...(refused ? { refused } : error && { failure: error, answered: hasErrorDetails(error) }),
      };
    } finally {
      clearInterval(beat);
      this.close();
      link.end();
    }
  }

  /** Says nothing more. */
  close(): void {
    this.#over.abort();
  }

  readonly say: Say = async (message) => {
    if (this.over.aborted || this.#link.destroyed || this.#link.writableEnded) return;
    if (this.#link.write(create(AttachRequestSchema, { message }))) return;
    await Promise.race([once(this.#link, 'drain'), once(this.#link, 'close'), once(this.over, 'abort')]).catch(
      () => undefined,
    );
  };

  #hear(message: AttachResponse['message']): void {
    switch (message.case) {
      case 'registered':
        this.#end.registered = true;
        return this.#listener.registered(message.value);
      case 'assignment':
        return this.#listener.assigned(message.value);
      case 'stop':
        return this.#listener.stop(message.value.lease);
      case 'dismissed':
        this.#end.dismissed = message.value.reason;
        return;
      case undefined:
    }
  }
}

/** Only the gateway's own word ends a pilot; a network or a gateway that is away may come back. */
function refusalIn(error: ServiceError): FlashcoreError | undefined {
  if (!REFUSALS.includes(error.code)) return undefined;
  const { reason, metadata, message } = errorFromStatus(error);
  return new FlashcoreError(reason, metadata, `The gateway refused this pilot. ${message}`, { cause: error });
}

const REFUSALS: readonly status[] = [status.INVALID_ARGUMENT, status.FAILED_PRECONDITION, status.UNAUTHENTICATED];
