import { type RpcName } from '@flashcore/shared/client';
import { FlashcoreError, KernelRunnerService } from '@flashcore/shared/contract';

/** Permissions of clients. */
export type Permission = 'read' | 'submit' | 'cancel-own' | 'cancel-any' | 'decide-own' | 'decide-any';

/** The permissions of each role. */
export const ROLES = {
  viewer: ['read'],
  submitter: ['read', 'submit', 'cancel-own', 'decide-own'],
  admin: ['read', 'submit', 'cancel-own', 'cancel-any', 'decide-own', 'decide-any'],
} as const satisfies Record<string, readonly Permission[]>;

export type Role = keyof typeof ROLES;

/** Divisor of a role's device time when clients share a device by past use: an admin's four seconds count as one. */
export const ROLE_WEIGHTS: Readonly<Record<Role, number>> = { viewer: 1, submitter: 1, admin: 4 };

export const ROLE_NAMES = Object.keys(ROLES) as Role[];
export const DEFAULT_ROLE: Role = 'submitter';
export const isRole = (text: unknown): text is Role => typeof text === 'string' && Object.hasOwn(ROLES, text);

/**
 * The permission that each RPC needs. For another client's job, CancelJob also needs cancel-any and a decision needs
 * decide-any.
 */
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

/**
 * The permission that a method needs, by its path. Health, reflection and unknown methods are open to every
 * authenticated client.
 */
export const neededFor = (path: string): Permission => NEEDED_BY_PATH.get(path) ?? 'read';

/**
 * Throws PERMISSION_DENIED, naming the roles with the permission, unless the caller's role has it. `what` completes
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
