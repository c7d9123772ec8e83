import { Client, credentials, Server, ServerCredentials } from '@grpc/grpc-js';

const same = (bytes: Buffer): Buffer => bytes;
const METHOD = {
  path: '/echo/Echo',
  requestStream: false,
  responseStream: false,
  requestSerialize: same,
  requestDeserialize: same,
  responseSerialize: same,
  responseDeserialize: same,
};

export interface Echo extends Disposable {
  call(): Promise<void>;
}

/** A grpc-js server on a Unix socket that returns every message it receives, and a client connected to it. */
export async function openEcho(path: string): Promise<Echo> {
  const server = new Server();
  server.addService(
    { echo: METHOD },
    {
      echo: (call: { request: Buffer }, done: (error: null, bytes: Buffer) => void) => done(null, call.request),
    },
  );
  const address = `unix:${path}`;
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(address, ServerCredentials.createInsecure(), (error) => (error ? reject(error) : resolve()));
  });
  const client = new Client(address, credentials.createInsecure());
  const bytes = Buffer.alloc(64);
  return {
    call: () =>
      new Promise((resolve, reject) => {
        client.makeUnaryRequest(METHOD.path, same, same, bytes, (error) => (error ? reject(error) : resolve()));
      }),
    [Symbol.dispose]: () => {
      client.close();
      server.forceShutdown();
    },
  };
}
