import { type RpcName } from '@flashcore/shared/client';
import { FlashcoreError, KernelRunnerService } from '@flashcore/shared/contract';

/** What a client may be allowed. */
export type Permission = 'read' | 'submit' | 'cancel-own' | 'cancel-any' | 'decide-own' | 'decide-any';

/** What each role may do. */
export const ROLES = {
  viewer: ['read'],
  submitter: ['read', 'submit', 'cancel-own', 'decide-own'],
  admin: ['read', 'submit', 'cancel-own', 'cancel-any', 'decide-own', 'decide-any'],
} as const satisfies Record<string, readonly Permission[]>;

export type Role = keyof typeof ROLES;

/** How much of a device counts as one second of a role's jobs, where clients share it by what they used. */
export const ROLE_WEIGHTS: Readonly<Record<Role, number>> = { viewer: 1, submitter: 1, admin: 4 };

export const ROLE_NAMES = Object.keys(ROLES) as Role[];
export const DEFAULT_ROLE: Role = 'submitter';
export const isRole = (text: unknown): text is Role => typeof text === 'string' && Object.hasOwn(ROLES, text);

/** What each RPC needs. CancelJob needs cancel-any too when the job is another's, a decision decide-any. */
export const NEEDED: Record<RpcName, Permission> = {
  build: 'submit',
  verify: 'submit',
  benchmark: 'submit',
  profile: 'submit',
  runExperiment: 'submit',
  tune: 'submit',
  findMissingSources: 'submit',
  uploadSources: 'submit',
  cancelJob: 'cancel-own',
  accept: 'decide-own',
  reject: 'decide-own',
  undo: 'decide-own',
  note: 'decide-own',
  listChampions: 'read',
  watchJob: 'read',
  getJob: 'read',
  listJobs: 'read',
  listKernels: 'read',
  getKernel: 'read',
  getHost: 'read',
  listExperiments: 'read',
  getLeaderboard: 'read',
  readArtifact: 'read',
};

const NEEDED_BY_PATH = new Map<string, Permission>(
  KernelRunnerService.methods.map(({ name, localName }) => [
    `/${KernelRunnerService.typeName}/${name}`,
    NEEDED[localName as RpcName],
  ]),
);

/** What a method needs by its path. Health, reflection, and methods that there are not, are for all that are let in. */
export const neededFor = (path: string): Permission => NEEDED_BY_PATH.get(path) ?? 'read';

/**
 * Throws PERMISSION_DENIED, which says what would do, unless the caller's role has the permission. `what` completes
 * "You may not …".
 */
export function requirePermission(caller: { name: string; role: Role }, needed: Permission, what: string): void {
  const allowed: readonly Permission[] = ROLES[caller.role];
  if (allowed.includes(needed)) return;
  const roles = ROLE_NAMES.filter((role) => (ROLES[role] as readonly Permission[]).includes(needed));
  throw new FlashcoreError(
    'PERMISSION_DENIED',
    { needed, role: caller.role },
    `${caller.name} is ${caller.role} and may not ${what} (permission ${needed}): ask the runner's owner for the role ${roles.join(' or ')}`,
  );
}
