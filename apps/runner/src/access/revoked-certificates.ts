import { X509Certificate } from 'node:crypto';
import { join } from 'node:path';
import { HAND_WRITTEN_BYTES, readForeignFile } from '@flashcore/shared/files';
import { UsageError } from '../usage-error.ts';
import { PrivateList } from './private-list.ts';

interface RevokedCertificate {
  /** SHA-256 in the form "AB:CD:…". */
  fingerprint: string;
  subject: string;
  revoked: string;
}

/** Client certificates that are no longer accepted. */
export class RevokedCertificates {
  readonly #list: PrivateList<RevokedCertificate>;

  constructor(dataDirectory: string) {
    this.#list = new PrivateList(join(dataDirectory, 'revoked-certificates.json'));
  }

  has(fingerprint: string): boolean {
    return this.#list.read().some((one) => one.fingerprint === fingerprint);
  }

  /**
   * Adds a certificate from its PEM file and returns its subject. Throws UsageError if the file is not a certificate.
   */
  add(file: string): string {
    const { fingerprint256: fingerprint, subject } = readCertificate(file);
    const shown = subject.replaceAll('\n', ', ');
    const others = this.#list.read().filter((one) => one.fingerprint !== fingerprint);
    this.#list.write([...others, { fingerprint, subject: shown, revoked: new Date().toISOString() }]);
    return shown;
  }
}

function readCertificate(file: string): X509Certificate {
  try {
    return new X509Certificate(readForeignFile(file, HAND_WRITTEN_BYTES));
  } catch (cause) {
    throw new UsageError(
      `${file} is not a certificate (${(cause as Error).message}): name a client that "tls client" made one for, or its file`,
    );
  }
}
