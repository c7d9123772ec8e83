/** Calls that send bytes instead of messages, for requests that no typed client can send. */
import { Client, credentials, Metadata, status, type ServiceError } from '@grpc/grpc-js';
import { fromBinary, type DescMethod } from '@bufbuild/protobuf';
import { type RpcName } from '@flashcore/shared/client';
import { KernelRunnerService } from '@flashcore/shared/contract';
import { cpuMs } from '@flashcore/shared/testing';

export interface RawAnswer {
  /** gRPC status; OK if the call succeeded. */
  code: status;
  details: string;
  metadata: Metadata | undefined;
  /** The answers received, as bytes. */
  messages: Buffer[];
  /**
   * Processor time that this process used during the call. It includes the runner's time if the runner is in this
   * process.
   */
  cpuSeconds: number;
}

const pass = (value: Buffer): Buffer => value;

export class RawClient implements Disposable {
  readonly #client: Client;

  constructor(address: string) {
    this.#client = new Client(address, credentials.createInsecure(), {
      'grpc.max_send_message_length': 64 * 1024 * 1024,
      'grpc.use_local_subchannel_pool': 1,
    });
  }

  /**
   * Sends one request, or several if the RPC takes a stream. Resolves with the call's end, or with DEADLINE_EXCEEDED
   * after `withinMs`.
   */
  call(rpc: RpcName, requests: readonly Buffer[], withinMs = 20_000): Promise<RawAnswer> {
    return this.callMethod(KernelRunnerService.method[rpc], requests, { withinMs });
  }

  /** Like call(), for a method of any service. A call that streams in both directions ends after its requests. */
  callMethod(
    { name, methodKind, parent }: DescMethod,
    requests: readonly Buffer[],
    { withinMs = 20_000, metadata = new Metadata() } = {},
  ): Promise<RawAnswer> {
    const path = `/${parent.typeName}/${name}`;
    const started = cpuMs();
    const messages: Buffer[] = [];
    return new Promise((resolve) => {
      const end = (error: ServiceError | null): void =>
        resolve({
          code: error?.code ?? status.OK,
          details: error?.details ?? '',
          metadata: error?.metadata,
          messages,
          cpuSeconds: (cpuMs() - started) / 1000,
        });
      const options = { deadline: Date.now() + withinMs };
      const answered = (error: ServiceError | null, value?: Buffer): void => {
        if (value) messages.push(value);
        end(error);
      };
      if (methodKind === 'client_streaming') {
        const call = this.#client.makeClientStreamRequest(path, pass, pass, metadata, options, answered);
        call.on('error', () => undefined); // The callback receives the error.
        for (const request of requests) call.write(request);
        call.end();
      } else if (methodKind === 'unary') {
        this.#client.makeUnaryRequest(path, pass, pass, requests[0]!, metadata, options, answered);
      } else {
        const both =
          methodKind === 'bidi_streaming' && this.#client.makeBidiStreamRequest(path, pass, pass, metadata, options);
        if (both) {
          for (const request of requests) both.write(request);
          both.end();
        }
        (both || this.#client.makeServerStreamRequest(path, pass, pass, requests[0]!, metadata, options))
          .on('data', (message: Buffer) => messages.push(message))
          .on('error', (error) => end(error as ServiceError))
          .on('end', () => end(null));
      }
    });
  }

  /** Milliseconds that the standard health service takes to answer. */
  async health(): Promise<number> {
    const started = performance.now();
    await new Promise<void>((resolve, reject) => {
      this.#client.makeUnaryRequest(
        '/grpc.health.v1.Health/Check',
        pass,
        pass,
        Buffer.alloc(0),
        new Metadata(),
        { deadline: Date.now() + 20_000 },
        (error) => (error ? reject(error) : resolve()),
      );
    });
    return performance.now() - started;
  }

  [Symbol.dispose](): void {
    this.#client.close();
  }
}

/** The job's name in the first event of an answer; undefined if there is no event. */
export function jobOf({ messages }: RawAnswer): string | undefined {
  return messages[0] && fromBinary(KernelRunnerService.method.watchJob.output, messages[0]).event?.job;
}
