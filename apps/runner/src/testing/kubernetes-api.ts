/**
 * The part of a Kubernetes API server that a gateway uses, over HTTP, for tests with a real kubectl. Objects are
 * checked against the fields that Kubernetes publishes. It is not Kubernetes: only the test's kubelet starts pods.
 */
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { entryOf } from '@flashcore/shared/text';

interface KubernetesObject {
  kind: string;
  metadata: {
    name: string;
    uid: string;
    labels: Record<string, string>;
    ownerReferences?: { name: string; uid: string }[];
  };
  spec: Fields;
  status: Fields;
  stringData?: Record<string, string>;
}
type Fields = Record<string, unknown>;

const { types } = JSON.parse(readFileSync(new URL('kubernetes-fields.json', import.meta.url), 'utf8')) as {
  types: Record<string, Record<string, string>>;
};
const KINDS: Readonly<Record<string, { kind: string; type: string; apiVersion: string }>> = {
  jobs: { kind: 'Job', type: 'V1Job', apiVersion: 'batch/v1' },
  pods: { kind: 'Pod', type: 'V1Pod', apiVersion: 'v1' },
  secrets: { kind: 'Secret', type: 'V1Secret', apiVersion: 'v1' },
};
const PATH = /^\/(?:api\/v1|apis\/batch\/v1)\/namespaces\/([a-z0-9-]+)\/(jobs|pods|secrets)(?:\/([a-z0-9-]+))?$/;
const LABEL_VALUE = /^(?:[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?)?$/;
const NAME = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

export interface KubernetesApi extends AsyncDisposable {
  /** Text of a kubeconfig that names this server. */
  kubeconfig: string;
  /** Objects by kind and name. */
  objects: Map<string, KubernetesObject>;
  /** Requests so far, such as "POST jobs". */
  asked: string[];
  /** Refuses a request with a status, reason and message; undefined: the request is answered. */
  refuse:
    ((method: string, resource: string) => [code: number, reason: string, message: string] | undefined) | undefined;
  /** Called with the pod that is made for a Job; default: the pod stays pending. */
  kubelet: (pod: KubernetesObject) => void;
}

/** Starts the server with one namespace, "default". */
export async function startKubernetesApi(): Promise<KubernetesApi> {
  const objects: KubernetesApi['objects'] = new Map();
  let uids = 0;
  const server = createServer((request, response) => {
    void bodyOf(request).then((body) => {
      const [code, answer] = answerTo(request, body);
      response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
    });
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const api: KubernetesApi = {
    kubeconfig: JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'test', cluster: { server: url } }],
      contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
      users: [{ name: 'test', user: {} }],
      'current-context': 'test',
    }),
    objects,
    asked: [],
    refuse: undefined,
    kubelet: () => undefined,
    [Symbol.asyncDispose]: () => new Promise((closed) => server.close(() => closed())),
  };
  return api;

  function answerTo({ method = '', url: target = '' }: IncomingMessage, body: string): [number, unknown] {
    const [path = '', search] = target.split('?');
    const query = new URLSearchParams(search);
    const [, namespace, resource = '', name] = PATH.exec(path) ?? [];
    if (namespace !== 'default') return refusal(404, 'NotFound', 'the server could not find the requested resource');
    api.asked.push(`${method} ${resource}${query.has('dryRun') ? ' (dry run)' : ''}`);
    const refused = api.refuse?.(method, resource);
    if (refused) return refusal(...refused);
    if (method === 'POST') return create(resource, JSON.parse(body) as KubernetesObject, query);
    if (method === 'DELETE') return remove(`${resource}/${name}`, query);
    const wanted = selectorOf(query.get('labelSelector'));
    const phase = /^status\.phase=(\w+)$/.exec(query.get('fieldSelector') ?? '')?.[1];
    const items = [...objects]
      .filter(([key]) => key.startsWith(`${resource}/`))
      .map(([, object]) => object)
      .filter(({ metadata }) => wanted.every(([key, value]) => entryOf(metadata.labels, key) === value))
      .filter(({ status }) => phase === undefined || status['phase'] === phase);
    return [200, { kind: 'List', apiVersion: 'v1', items }];
  }

  function create(resource: string, object: KubernetesObject, query: URLSearchParams): [number, unknown] {
    const { kind, type, apiVersion } = entryOf(KINDS, resource)!;
    const faults = faultsIn({ ...object, kind, apiVersion }, type, '');
    if (query.get('fieldValidation') === 'Strict' && faults.length > 0)
      return refusal(
        400,
        'BadRequest',
        `${kind} in version "v1" cannot be handled as a ${kind}: strict decoding error: ${faults.join(', ')}`,
      );
    const { name, labels = {} } = object.metadata;
    const wrong =
      Object.values(labels).find((value) => !LABEL_VALUE.test(value)) ?? (NAME.test(name) ? undefined : name);
    if (wrong !== undefined) return refusal(422, 'Invalid', `${kind} "${name}" is invalid: metadata: "${wrong}"`);
    const { affinity } = podSpecOf(object);
    const term = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms?.find(
      ({ matchFields = [] }) => matchFields.some(({ key, values }) => key !== 'metadata.name' || values.length !== 1),
    );
    if (term)
      return refusal(
        422,
        'Invalid',
        `${kind} "${name}" is invalid: matchFields: must be only one value when \`operator\` is 'In' or 'NotIn' for node field selector`,
      );
    const key = `${resource}/${name}`;
    if (objects.has(key)) return refusal(409, 'AlreadyExists', `${resource} "${name}" already exists`);
    const made = { ...object, metadata: { ...object.metadata, labels, uid: `uid-${(uids += 1)}` } };
    if (query.get('dryRun') === 'All') return [201, made];
    objects.set(key, { ...made, status: {} });
    if (resource === 'jobs') startPod(objects.get(key)!);
    return [201, objects.get(key)];
  }

  /** Makes a Job's pod, as the controller of Jobs does. */
  function startPod(job: KubernetesObject): void {
    const { metadata, spec } = job.spec['template'] as Pick<KubernetesObject, 'metadata' | 'spec'>;
    const { name, uid } = job.metadata;
    const labels = { ...metadata.labels, 'job-name': name };
    const own = { name: `${name}-x7k2p`, uid: `pod-of-${uid}`, labels, ownerReferences: [{ name, uid }] };
    const pod: KubernetesObject = { kind: 'Pod', metadata: own, spec, status: { phase: 'Pending' } };
    objects.set(`pods/${own.name}`, pod);
    job.status = { active: 1 };
    api.kubelet(pod);
  }

  function remove(key: string, query: URLSearchParams): [number, unknown] {
    const found = objects.get(key);
    if (!found) return refusal(404, 'NotFound', `${key.replace('/', ' "')}" not found`);
    objects.delete(key);
    // Without a policy, this API keeps the objects that a Job owns.
    if (query.get('propagationPolicy') === 'Background')
      for (const [other, { metadata }] of objects)
        if (metadata.ownerReferences?.some(({ uid }) => uid === found.metadata.uid)) objects.delete(other);
    return [200, { kind: 'Status', apiVersion: 'v1', status: 'Success' }];
  }
}

interface PodSpec {
  affinity?: {
    nodeAffinity?: {
      requiredDuringSchedulingIgnoredDuringExecution?: {
        nodeSelectorTerms?: { matchFields?: { key: string; values: string[] }[] }[];
      };
    };
  };
}

/** The PodSpec of a Job or a pod; empty for a Secret. */
const podSpecOf = ({ spec }: KubernetesObject): PodSpec =>
  ((spec as Fields | undefined)?.['template'] as { spec: PodSpec } | undefined)?.spec ?? spec ?? {};

const refusal = (code: number, reason: string, message: string): [number, unknown] => [
  code,
  { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', code, reason, message },
];

async function bodyOf(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece as Buffer);
  return Buffer.concat(pieces).toString();
}

const selectorOf = (text: string | null): [string, string][] =>
  (text ?? '')
    .split(',')
    .filter((part) => part !== '')
    .map((part) => part.split('=') as [string, string]);

/** The errors that an API server's strict decoder would report for an object of a published type. */
function faultsIn(value: unknown, type: string, path: string): string[] {
  const item = /^Array<(.*)>$/.exec(type)?.[1] ?? /^\{ \[key: string\]: (.*); \}$/.exec(type)?.[1];
  if (item !== undefined) {
    if (typeof value !== 'object') return [`${path} must be a list or a map`];
    return Object.entries(value as Fields).flatMap(([key, each]) => faultsIn(each, item, `${path}[${key}]`));
  }
  const fields = entryOf(types, type);
  if (fields === undefined) return isOf(value, type) ? [] : [`${path} must be a ${type}, got ${JSON.stringify(value)}`];
  if (typeof value !== 'object' || value === null) return [`${path} must be an object`];
  return Object.entries(value).flatMap(([key, each]) => {
    const of = entryOf(fields, key);
    const place = path === '' ? key : `${path}.${key}`;
    return of === undefined ? [`unknown field "${place}"`] : faultsIn(each, of, place);
  });
}

const isOf = (value: unknown, type: string): boolean =>
  type === 'any' ||
  typeof value === type ||
  (type === 'Date' && typeof value === 'string') ||
  (type === 'IntOrString' && (typeof value === 'string' || typeof value === 'number'));
