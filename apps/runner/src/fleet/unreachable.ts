/**
 * Exit codes of a pilot that could not reach its gateway. Slurm reports them to the gateway, which shows the remedy.
 */
export const UNREACHABLE_EXITS = { noHost: 68, noAnswer: 69, noTrust: 76 };

/** A pilot never reached its gateway. */
export class GatewayUnreachable extends Error {
  override readonly name = 'GatewayUnreachable';
  readonly exitCode: number;

  /** `why`: the error of the last attempt; undefined if no answer came. */
  constructor(gateway: string, { seconds, why }: { seconds: number; why: string | undefined }) {
    const kind = kindOf(why ?? '');
    super(`${REMEDIES[kind]}: ${gateway} was not reached within ${seconds} s (${why ?? 'no answer came'})`);
    this.exitCode = UNREACHABLE_EXITS[kind];
  }
}

type Kind = keyof typeof UNREACHABLE_EXITS;

const REMEDIES: Record<Kind, string> = {
  noHost: 'Give "reach" in the fleet file a name that nodes know',
  noAnswer: 'Give "reach" in the fleet file an address that nodes can connect to',
  noTrust: 'Make the gateway\'s certificate one for the name in "reach", signed by tls_ca, and set the node\'s clock',
};

/** Classifies gRPC's error text, which quotes Node's sockets, the name service and OpenSSL. */
function kindOf(why: string): Kind {
  if (/name resolution|ENOTFOUND|EAI_AGAIN/i.test(why)) return 'noHost';
  if (/certificate|altname|self.signed|CERT_|SSL|EPROTO|issuer/i.test(why)) return 'noTrust';
  return 'noAnswer';
}
