/**
 * Tests pilots as Kubernetes Jobs, with Debian's or any other kubectl. The API server is a fake with only the part of
 * the API that flashcore uses; it checks objects against the published fields. No real cluster was tried.
 */
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { JobResultSchema, Outcome } from '@flashcore/shared/contract';
import { missing, until } from '@flashcore/shared/testing';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { parseOptions } from '../options.ts';
import { startKubernetesApi, type KubernetesApi } from '../testing/kubernetes-api.ts';
import { flyTestPilot } from '../testing/test-pilot.ts';
import { attempts } from '../testing/test-cluster.ts';
import { collect, finished, kernel, startTestRunner, temporaryFolder } from '../testing/test-runner.ts';
import { parseFleet, type KubernetesFile } from './fleet-file.ts';
import { createGateway } from './gateway.ts';
import { checkKubernetes, Kubernetes } from './kubernetes.ts';
import { SchedulerError } from './scheduler.ts';

const NO_KUBECTL = missing('kubernetes-client');
const SOURCE = `
listen: 127.0.0.1:50052
reach: gateway:50052
image: registry.example/flashcore-runner:0.1.0
partitions:
  - partition: h200
    device: NVIDIA H200
    max: 3
    cpus: 8
    memory_mib: 32768
    pod: { nodeSelector: { gpu: h200 }, tolerations: [{ key: nvidia.com/gpu, operator: Exists }] }
    container: { env: [{ name: FLASHCORE_LOG_LEVEL, value: debug }], securityContext: { runAsNonRoot: true } }
  - { partition: cpu, device: emulator, max: 1 }
`;
const fileOf = (source = SOURCE): KubernetesFile => parseFleet(source, 'fleet.yaml', 'kubernetes');

let api: KubernetesApi;
let folder: ReturnType<typeof temporaryFolder>;
beforeEach(async () => {
  api = await startKubernetesApi();
  folder = temporaryFolder();
  const kubeconfig = join(folder.path, 'kubeconfig');
  writeFileSync(kubeconfig, api.kubeconfig);
  vi.stubEnv('KUBECONFIG', kubeconfig);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await api[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

const scheduler = (file = fileOf()): Kubernetes => new Kubernetes(file, join(folder.path, 'fleet'), 'required');
const podOf = (name: string) => api.objects.get(`pods/${name}-x7k2p`)!;
const failed = (exitCode: number, reason = 'Error', message = '') => ({
  phase: 'Failed',
  containerStatuses: [{ name: 'pilot', state: { terminated: { exitCode, reason, message } } }],
});

test.skipIf(NO_KUBECTL)('a pilot is a Job whose pod runs once, and its token is in a Secret of the Job', async () => {
  const kubernetes = scheduler();
  const name = await kubernetes.submit('h200', 'the-token');
  const [job, secret] = [api.objects.get(`jobs/${name}`)!, api.objects.get(`secrets/${name}`)!];
  const pod = podOf(name).spec as { containers: [{ args: string[]; env: unknown[]; resources: unknown }] };
  const [container] = pod.containers;
  expect(job.spec).toMatchObject({ backoffLimit: 0, ttlSecondsAfterFinished: 600 });
  expect(pod).toMatchObject({
    restartPolicy: 'Never',
    automountServiceAccountToken: false,
    activeDeadlineSeconds: 3600 + 900,
    nodeSelector: { gpu: 'h200' },
    tolerations: [{ key: 'nvidia.com/gpu', operator: 'Exists' }],
    containers: [{ image: 'registry.example/flashcore-runner:0.1.0', securityContext: { runAsNonRoot: true } }],
  });
  expect(container.args.join(' ')).toBe(
    'pilot --gateway gateway:50052 --data /var/lib/flashcore/pilot --keep-artifacts-gib 20 --isolation required',
  );
  expect(container.resources).toEqual({
    requests: { cpu: '8', memory: '32768Mi', 'nvidia.com/gpu': '1' },
    limits: { cpu: '8', memory: '32768Mi', 'nvidia.com/gpu': '1' },
  });
  expect(container.env[0]).toEqual({ name: 'FLASHCORE_LOG_LEVEL', value: 'debug' });
  // Somebody who may read pods must not be able to read the token.
  expect(JSON.stringify([job, podOf(name)])).not.toContain('the-token');
  expect(secret.stringData).toEqual({ token: 'the-token' });
  expect(secret.metadata.ownerReferences![0]).toMatchObject({ name, uid: job.metadata.uid });
  expect(await kubernetes.pilots()).toEqual(new Set([name]));
  await kubernetes.cancel([name, 'flashcore-pilot-that-has-ended']);
  expect([...api.objects.keys()]).toEqual([]);
  expect(readdirSync(join(folder.path, 'fleet'))).toEqual(['id']);
});

test.skipIf(NO_KUBECTL)("a pilot avoids the given nodes, within the fleet file's own affinity", async () => {
  const others = (...names: string[]) =>
    names.map((name) => ({ key: 'metadata.name', operator: 'NotIn', values: [name] }));
  const affinityOf = async (file: KubernetesFile, ...avoid: string[]) => {
    const name = await scheduler(file).submit('cpu', 't', avoid);
    return podOf(name).spec['affinity'];
  };
  expect(await affinityOf(fileOf())).toBeUndefined();
  const required = 'requiredDuringSchedulingIgnoredDuringExecution';
  expect(await affinityOf(fileOf(), 'gpu1', 'gpu2.lab')).toEqual({
    nodeAffinity: { [required]: { nodeSelectorTerms: [{ matchFields: others('gpu1', 'gpu2.lab') }] } },
  });
  const preferred = 'preferredDuringSchedulingIgnoredDuringExecution';
  const own = `{ podAffinity: { ${preferred}: [] }, nodeAffinity: { ${preferred}: [], ${required}: { nodeSelectorTerms: [
    { matchExpressions: [{ key: zone, operator: In, values: [a] }] },
    { matchFields: [{ key: metadata.name, operator: In, values: [gpu7] }] } ] } } }`;
  const file = fileOf(SOURCE.replace('device: emulator', `device: emulator, pod: { affinity: ${own} }`));
  expect(await affinityOf(file, 'gpu1')).toEqual({
    podAffinity: { [preferred]: [] },
    nodeAffinity: {
      [preferred]: [],
      [required]: {
        nodeSelectorTerms: [
          { matchExpressions: [{ key: 'zone', operator: 'In', values: ['a'] }], matchFields: others('gpu1') },
          { matchFields: [{ key: 'metadata.name', operator: 'In', values: ['gpu7'] }, ...others('gpu1')] },
        ],
      },
    },
  });
});

test.skipIf(NO_KUBECTL)('a pilot without its Secret is ended, because it could not register', async () => {
  api.refuse = (_, resource) =>
    resource === 'secrets' ? [403, 'Forbidden', 'secrets is forbidden: User "anna" cannot create'] : undefined;
  const kubernetes = scheduler();
  await expect(kubernetes.submit('cpu', 't')).rejects.toThrow(
    "Change the fleet file or the cluster's rules: kubectl create said: Error from server (Forbidden): secrets is forbidden",
  );
  expect([...api.objects.keys()]).toEqual([]);
  // After this refusal, no further Job is created for a minute.
  await expect(kubernetes.submit('cpu', 't')).rejects.toThrow('secrets is forbidden');
  expect(api.asked.filter((asked) => asked === 'POST jobs')).toHaveLength(1);
});

test.skipIf(NO_KUBECTL)('gateways in one namespace see only their own pilots', async () => {
  const [one, other] = ['one', 'other'].map((name) => new Kubernetes(fileOf(), join(folder.path, name), 'auto'));
  const name = await one!.submit('cpu', 't');
  expect([await one!.pilots(), await other!.pilots()]).toEqual([new Set([name]), new Set()]);
});

test.skipIf(NO_KUBECTL)('a completed, failed or deleted Job is not listed as a pilot', async () => {
  const kubernetes = scheduler();
  const names = [];
  for (let pilot = 0; pilot < 4; pilot += 1) names.push(await kubernetes.submit('cpu', 't'));
  const [complete, broken, deleted, running] = names.map((name) => api.objects.get(`jobs/${name}`)!);
  complete!.status = { conditions: [{ type: 'Complete', status: 'True' }] };
  broken!.status = { conditions: [{ type: 'Failed', status: 'True', reason: 'BackoffLimitExceeded' }] };
  Object.assign(deleted!.metadata, { deletionTimestamp: '2026-11-30T12:00:00Z' });
  expect(await kubernetes.pilots()).toEqual(new Set([running!.metadata.name]));
});

test.skipIf(NO_KUBECTL).each([
  [failed(68), 'Change "reach" in the fleet file: the node does not know the name in gateway:50052'],
  [failed(69), 'the node got no answer from gateway:50052'],
  [failed(76), "the node's clock: the node does not trust the gateway"],
  [failed(137, 'OOMKilled'), 'Give its partition more memory_mib: it was ended for the memory that it used'],
  [
    failed(128, 'StartError', 'exec: "flashcore-runner": not found'),
    'Give an image whose entry point is flashcore-runner',
  ],
  [failed(3), 'Read its log: it ended with exit code 3'],
  [failed(2, 'Error', '{"level":30}\nflashcore-runner: Give pilots nodes with a GPU\n'), 'gpu7: Give pilots nodes'],
  [{ phase: 'Failed', reason: 'Evicted', message: 'low on ephemeral-storage' }, 'Evicted: low on ephemeral-storage'],
  [{ phase: 'Failed', reason: 'DeadlineExceeded', message: 'Pod was active' }, 'DeadlineExceeded: Pod was active'],
])('the reason why a pilot with status %j ended includes its node and its log', async (status, text) => {
  const kubernetes = scheduler();
  const name = await kubernetes.submit('cpu', 't');
  Object.assign(podOf(name).spec, { nodeName: 'gpu7' });
  podOf(name).status = status;
  const why = await kubernetes.whyEnded(name);
  expect([kubernetes.nodeOf(name), kubernetes.nodeOf('another')]).toEqual(['gpu7', undefined]);
  expect(why).toContain(text);
  expect(why).toMatch(new RegExp(`^pilot ${name} on gpu7: .*; its log: kubectl logs -n default job/${name}$`));
});

test.skipIf(NO_KUBECTL)('a pilot that was cancelled or ended with exit code 0 gets no explanation', async () => {
  const kubernetes = scheduler();
  const name = await kubernetes.submit('cpu', 't');
  podOf(name).status = {
    phase: 'Succeeded',
    containerStatuses: [{ name: 'pilot', state: { terminated: { exitCode: 0 } } }],
  };
  expect(await kubernetes.whyEnded(name)).toBeUndefined();
  await kubernetes.cancel([name]);
  expect(await kubernetes.whyEnded(name)).toBeUndefined();
});

test.skipIf(NO_KUBECTL)('a pod that is stuck is reported, and a pod that waits for a GPU is not', async () => {
  const kubernetes = scheduler();
  const unscheduled = (message: string) => ({
    phase: 'Pending',
    conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }],
  });
  const waiting = (reason: string, message: string) => ({
    phase: 'Pending',
    containerStatuses: [
      { name: 'proxy', state: {} },
      { name: 'pilot', state: { waiting: { reason, message } } },
    ],
  });
  const said: [status: object, text: string | undefined][] = [
    [unscheduled('0/2 nodes are available: 2 Insufficient nvidia.com/gpu.'), undefined],
    [
      unscheduled("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."),
      "2 node(s) didn't match",
    ],
    [waiting('ImagePullBackOff', 'Back-off pulling image "x"'), 'ImagePullBackOff: Back-off pulling image "x"'],
    [waiting('CreateContainerConfigError', 'secret "flashcore-pilot-1-2" not found'), undefined],
    [waiting('CreateContainerConfigError', 'image has non-numeric user (flashcore)'), 'non-numeric user (flashcore)'],
    [waiting('ContainerCreating', ''), undefined],
  ];
  const names = [];
  for (const [status] of said) {
    const name = await kubernetes.submit('cpu', 't');
    podOf(name).status = { ...status };
    names.push(name);
  }
  await kubernetes.pilots();
  for (const [index, [, text]] of said.entries()) {
    const why = kubernetes.whyStuck(names[index]!);
    if (text === undefined) expect(why).toBeUndefined();
    else expect(why).toMatch(/^Change the fleet file or the cluster: pilot \S+ waits, Kubernetes says /);
    expect(why ?? '').toContain(text ?? '');
  }
  // The pod itself was refused, as by a quota or an admission controller.
  api.objects.get(`jobs/${names[0]!}`)!.status = {};
  for (let round = 0; round < 11; round += 1) await kubernetes.pilots();
  expect(kubernetes.whyStuck(names[0]!)).toBe(
    `Read its events (kubectl describe job ${names[0]!} -n default): pilot ${names[0]!} gets no pod`,
  );
});

test.skipIf(NO_KUBECTL)(
  "at the gateway's start the API server checks all planned objects and creates nothing",
  async () => {
    await expect(checkKubernetes(fileOf())).resolves.toBeUndefined();
    expect([api.objects.size, new Set(api.asked)]).toEqual([
      0,
      new Set(['GET jobs', 'GET pods', 'POST secrets (dry run)', 'POST jobs (dry run)', 'POST pods (dry run)']),
    ]);
    const refused = (source: string) => checkKubernetes(fileOf(source)).catch((error: Error) => error.message);
    expect(await refused(SOURCE.replace('tolerations', 'tolerationz'))).toMatch(
      /^--kubernetes: partition h200: .*unknown field "spec\.template\.spec\.tolerationz"/,
    );
    expect(await refused(SOURCE.replace('image:', 'namespace: other\nimage:'))).toMatch(
      /^--kubernetes: .*\(NotFound\)/,
    );
    expect(await refused(`${SOURCE}tls_ca: /nowhere/ca.crt\n`)).toBe(
      '--kubernetes: tls_ca /nowhere/ca.crt: cannot be read (ENOENT)',
    );
    api.refuse = (method, resource) =>
      method === 'POST' && resource === 'pods'
        ? [403, 'Forbidden', 'pods "x" is forbidden: violates PodSecurity "restricted:latest"']
        : undefined;
    expect(await refused(SOURCE)).toContain('violates PodSecurity');
    // The message contains the word timeout although the server answered.
    api.refuse = () => [422, 'Invalid', 'Job "x" is invalid: livenessProbe.timeoutSeconds: Invalid value: 0'];
    expect(await refused(SOURCE)).toMatch(/^--kubernetes: .*timeoutSeconds: Invalid value/);
    // When the gateway is started again, its own pilots may use the whole quota.
    api.refuse = (_, resource) => (resource === 'pods' ? [403, 'Forbidden', 'exceeded quota: gpus'] : undefined);
    expect(await refused(SOURCE)).toContain('exceeded quota: gpus');
    expect(await refused(SOURCE)).not.toContain('--kubernetes');
  },
);

test.skipIf(NO_KUBECTL)('the gateway starts even if the API server does not answer or is overloaded', async () => {
  api.refuse = () => [503, 'ServiceUnavailable', 'apiserver is shutting down'];
  await expect(checkKubernetes(fileOf())).resolves.toMatch(
    /^Look at the API server: kubectl get said: .*shutting down/,
  );
  await expect(scheduler().pilots()).rejects.toMatchObject({ refused: false });
  await api[Symbol.asyncDispose]();
  const asked = scheduler().submit('cpu', 't');
  await expect(asked).rejects.toThrow(/^Look at the API server: kubectl create said: .*refused/);
  await expect(asked).rejects.toBeInstanceOf(SchedulerError);
  api = await startKubernetesApi();
});

test('without kubectl the gateway does not start, and says what to install', async () => {
  vi.stubEnv('PATH', '/nowhere');
  await expect(checkKubernetes(fileOf())).rejects.toThrow('--kubernetes: Install kubectl: there is none here');
});

test.each([
  [
    'a pod field that only the gateway may set',
    'pod: { ',
    'pod: { restartPolicy: Always, ',
    'must be fields of a PodSpec other than',
  ],
  [
    'a container field that only the gateway may set',
    'container: { ',
    'container: { args: [sh], ',
    'must be fields of a Container',
  ],
  [
    'a partition name that a label cannot hold',
    'partition: cpu',
    'partition: CPU_1',
    'must be a name of at most 40 characters',
  ],
  [
    'a value of volumes that is not a list',
    'pod: { ',
    'pod: { volumes: x, ',
    'must have lists of mappings for volumes',
  ],
  ['a key that only Slurm partitions have', 'max: 1', 'max: 1, gres: gpu:1', 'unknown key "gres"'],
  ['an image that looks like an option', 'image: registry', 'image: " --x registry', 'must be an image'],
])('%s is refused with its line or key', (_, good, bad, wanted) => {
  const source = SOURCE.replace(good, bad).replace('0.1.0', bad.includes('"') ? '0.1.0"' : '0.1.0');
  expect(() => fileOf(source)).toThrow(wanted);
});

test('a gateway with no fleet file, or with two, does not start', () => {
  const parse = (...args: string[]) =>
    parseOptions(['gateway', ...args], { version: '1', repositoryRoot: '/', environment: {} });
  expect(() => parse()).toThrow('Give --slurm <file> or --kubernetes <file>: the cluster');
  expect(() => parse('--slurm', 'a', '--kubernetes', 'b')).toThrow('cannot be used with');
});

test.skipIf(NO_KUBECTL)('jobs run on pilots in pods, and a lost pod is replaced by another', async () => {
  const file = fileOf(
    SOURCE.replace(/partitions:[^]*/, 'partitions: [{ partition: l4, device: NVIDIA L4, max: 1 }]')
      .replace('127.0.0.1:50052', `unix:${folder.path}/p`)
      .replace('gateway:50052', `unix:${folder.path}/p`),
  );
  const flying: { ended: AbortController; landed: Promise<void> }[] = [];
  api.kubelet = (pod) => {
    const [{ args, env }] = (pod.spec as { containers: [{ args: string[]; env: never[] }] }).containers;
    const reference = env.find(({ name }) => name === 'FLASHCORE_PILOT_TOKEN')! as {
      valueFrom: { secretKeyRef: { name: string; key: string } };
    };
    const { name, key } = reference.valueFrom.secretKeyRef;
    const ended = new AbortController();
    const isLost = flying.length === 0;
    const start = async (): Promise<void> => {
      await until(() => api.objects.has(`secrets/${name}`));
      pod.status = { phase: 'Running' };
      await flyTestPilot({
        gateway: args[args.indexOf('--gateway') + 1]!,
        token: api.objects.get(`secrets/${name}`)!.stringData![key]!,
        signal: ended.signal,
        body: async () => {
          if (isLost) ended.abort();
          await Promise.resolve();
          return { outcome: Outcome.PASSED, summary: 'passed', result: create(JobResultSchema) };
        },
      }).catch(() => undefined);
      api.objects.delete(`jobs/${name}`);
    };
    flying.push({ ended, landed: start() });
  };
  await using gateway = await startTestRunner({
    fleet: file,
    createPlanner: (planner) =>
      createGateway(planner, {
        file,
        scheduler: (own) => new Kubernetes(file, own, 'auto'),
        tls: undefined,
        roundMs: 50,
      }),
  });
  const { host } = await gateway.client.getHost({});
  expect(host!.devices.map(({ deviceId }) => deviceId)).toEqual(['kubernetes:l4']);
  const events = await collect(gateway.client.start('verify', kernel('fa_v1_baseline')));
  expect(finished(events).outcome).toBe(Outcome.PASSED);
  expect(attempts(events)).toHaveLength(2);
  for (const { ended } of flying) ended.abort();
  await Promise.all(flying.map(({ landed }) => landed));
});
