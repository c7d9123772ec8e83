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

/** Sends a message to the gateway. Waits while the connection has no room for it. */
export type Say = (message: MessageInitShape<typeof AttachRequestSchema>['message']) => Promise<void>;

/** Handles the gateway's messages. */
export interface GatewayListener {
  registered(goesOn: Registered): void;
  assigned(assignment: Assignment): void;
  stop(lease: bigint): void;
}

export interface ConnectionEnd {
  /** Whether the gateway registered the pilot. */
  registered: boolean;
  /** Why the gateway dismissed the pilot. */
  dismissed?: string;
  /** The gateway's refusal to register the pilot. */
  refused?: Error;
  /** The error that ended the connection, if neither side closed it. */
  failure?: Error;
  /**
   * Whether the error came from the gateway itself, which is then reachable but can't register a pilot at the moment.
   */
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

  /** Registers, and listens until either side ends the connection. */
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

  /** Ends the connection; nothing more is sent. */
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

/**
 * The gateway's own refusal, which ends the pilot; undefined for any other error, because the network or the gateway
 * may recover.
 */
function refusalIn(error: ServiceError): FlashcoreError | undefined {
  if (!REFUSALS.includes(error.code)) return undefined;
  const { reason, metadata, message } = errorFromStatus(error);
  return new FlashcoreError(reason, metadata, `The gateway refused this pilot. ${message}`, { cause: error });
}

const REFUSALS: readonly status[] = [status.INVALID_ARGUMENT, status.FAILED_PRECONDITION, status.UNAUTHENTICATED];

/**
 * Exit codes of a pilot that could not reach its gateway. The scheduler reports them to the gateway, which shows the
 * remedy.
 */
export const UNREACHABLE_EXITS = { noHost: 68, noAnswer: 69, noTrust: 76 };

/** The pilot has never reached its gateway. */
export class GatewayUnreachable extends Error {
  override readonly name = 'GatewayUnreachable';
  readonly exitCode: number;
  /** The error message of OpenSSL, the name service or the network. */
  readonly said: string;

  /** `why`: the error of the last attempt; undefined if there was no answer. */
  constructor(gateway: string, { seconds, why }: { seconds: number; why: string | undefined }) {
    const kind = kindOf(why ?? '');
    super(`${REMEDIES[kind]}: ${gateway} was not reached within ${seconds} s (${why ?? 'no answer came'})`);
    this.exitCode = UNREACHABLE_EXITS[kind];
    this.said =
      /Last error: (?:Error: )?(.+?)(?:;|\. Resolution note|$)/.exec(why ?? '')?.[1] ?? why ?? 'no answer came';
  }
}

type Kind = keyof typeof UNREACHABLE_EXITS;

const REMEDIES: Record<Kind, string> = {
  noHost: 'Give "reach" in the fleet file a name that nodes know',
  noAnswer: 'Give "reach" in the fleet file an address that nodes can connect to',
  noTrust: 'Make the gateway\'s certificate one for the name in "reach", signed by tls_ca, and set the node\'s clock',
};

/** Classifies the text of gRPC's error, which includes errors of Node's sockets, the name service and OpenSSL. */
function kindOf(why: string): Kind {
  if (/name resolution|ENOTFOUND|EAI_AGAIN/i.test(why)) return 'noHost';
  if (/certificate|altname|self.signed|CERT_|SSL|EPROTO|issuer/i.test(why)) return 'noTrust';
  return 'noAnswer';
}
