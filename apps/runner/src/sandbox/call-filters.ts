import { ENOSYS, EPERM, type CallFilter, type CallRule } from './bpf.ts';

/** Kind of a boxed process, which determines its system calls. */
export type BoxedKind = 'compiler' | 'executor' | 'reference' | 'gpu-worker';

const names = (text: string): string[] => text.trim().split(/\s+/);

// System calls in groups by purpose. A name that an architecture lacks (open on aarch64) is left out there.

const FILES_READ = names(`
  open openat openat2 close close_range read readv pread64 preadv preadv2 lseek fadvise64 readahead
  stat fstat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat getdents getdents64
  getcwd chdir fchdir statfs fstatfs getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr
  fcntl flock dup dup2 dup3 pipe pipe2 cachestat`);
const FILES_WRITTEN = names(`
  creat write writev pwrite64 pwritev pwritev2 sendfile copy_file_range truncate ftruncate fallocate
  fsync fdatasync sync_file_range umask unlink unlinkat`);
/** Only for processes that leave files to the runner. */
const FOLDERS_CHANGED = names(`
  rename renameat renameat2 mkdir mkdirat rmdir link linkat symlink symlinkat chmod fchmod fchmodat fchmodat2
  utime utimes utimensat futimesat`);
const MEMORY = names(`
  brk mmap munmap mprotect mremap madvise msync mincore mlock mlock2 munlock membarrier memfd_create
  pkey_alloc pkey_free pkey_mprotect get_mempolicy mseal`);
const THREADS = names(`
  futex futex_waitv futex_wait futex_wake futex_requeue set_robust_list get_robust_list set_tid_address rseq
  gettid sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_getscheduler
  sched_get_priority_max sched_get_priority_min getpriority getcpu arch_prctl restart_syscall`);
/** Also used by bwrap's first process, prlimit and the program's start, which run after the filter is loaded. */
const PROCESSES = names(`
  fork vfork execve exit exit_group wait4 waitid tkill tgkill pidfd_open pidfd_send_signal
  getpid getppid getpgrp getpgid getsid setpgid setsid getuid geteuid getgid getegid getgroups getresuid getresgid
  getrusage getrlimit setrlimit prlimit64 times uname sysinfo getrandom capget`);
const SIGNALS = names(`
  rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend rt_sigqueueinfo
  rt_tgsigqueueinfo sigaltstack pause alarm getitimer setitimer`);
const TIME = names(`
  clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time
  timer_create timer_settime timer_gettime timer_getoverrun timer_delete`);
const WAITING = names(`
  poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
  eventfd eventfd2 timerfd_create timerfd_settime timerfd_gettime`);

// CLONE_NEW…: mount, cgroup, UTS, IPC, user, process and network namespaces (linux/sched.h).
const NAMESPACE_FLAGS = 0x7e020000;
/**
 * New processes, but no new namespaces. clone3 passes its flags in memory, which a filter can't read; without clone3
 * glibc uses clone.
 */
const NEW_PROCESSES: readonly [string, CallRule][] = [
  ['clone', { does: 'allow-without', argument: 0, bits: NAMESPACE_FLAGS }],
  ['clone3', { does: 'fail', errno: ENOSYS }],
];

const AF_KEY = 15;
const AF_PACKET = 17;
const AF_ALG = 38;
const AF_VSOCK = 40;

// PR_… of linux/prctl.h: get and set name, parent death signal, dumpable flag, huge pages, names of memory, width of
// SVE vectors, pointer authentication, tagged addresses.
const PRCTL_HARMLESS = [1, 2, 3, 4, 15, 16, 21, 23, 29, 30, 36, 37, 38, 39, 41, 42, 50, 51, 54, 55, 56, 0x53564d41];

// Terminal settings, size and foreground group; readable bytes; non-blocking mode; close on exec.
const IOCTL_HARMLESS = [0x5401, 0x802c542a, 0x540f, 0x5413, 0x541b, 0x5421, 0x5450, 0x5451];
const TIOCSTI = 0x5412;
const TIOCLINUX = 0x541c;

/** Every call that is not listed fails with EPERM. */
function allowList(allowed: readonly string[], others: readonly (readonly [string, CallRule])[]): CallFilter {
  return {
    rules: new Map([...allowed.map((name): [string, CallRule] => [name, { does: 'allow' }]), ...others]),
    otherwise: { does: 'fail', errno: EPERM },
  };
}

const PRIO_PROCESS = 0;
/**
 * A box is in its starter's process group. A signal to group 0, the caller's group, therefore leaves the process
 * namespace: it would kill or stop the worker that judges a candidate.
 */
const WITHOUT_ITS_GROUP: readonly [string, CallRule][] = [
  ['kill', { does: 'fail-values', argument: 0, values: [0] }],
  ['setpriority', { does: 'allow-values', argument: 0, values: [PRIO_PROCESS] }],
];

/** A filter that is added to the box's can only forbid more. */
const PR_SET_SECCOMP = 22;

const CODE = [...MEMORY, ...THREADS, ...PROCESSES, ...SIGNALS, ...TIME, ...WAITING];
const narrowed = (prctl = PRCTL_HARMLESS): readonly (readonly [string, CallRule])[] => [
  ...NEW_PROCESSES,
  ...WITHOUT_ITS_GROUP,
  ['prctl', { does: 'allow-values', argument: 0, values: prctl }],
  ['ioctl', { does: 'allow-values', argument: 1, values: IOCTL_HARMLESS }],
];

/**
 * Calls that no boxed process may make and no GPU driver needs: access to other processes' memory, kernel interfaces
 * with a history of vulnerabilities, mounts, keys, modules, clocks, settings of the whole host.
 */
export const FORBIDDEN = names(`
  ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd process_madvise process_mrelease
  bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register io_setup io_submit
  add_key request_key keyctl seccomp memfd_secret vmsplice
  mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr
  statmount listmount unshare setns name_to_handle_at open_by_handle_at fanotify_init fanotify_mark
  quotactl quotactl_fd swapon swapoff acct
  init_module finit_module delete_module kexec_load kexec_file_load reboot syslog sethostname setdomainname
  settimeofday clock_settime clock_adjtime adjtimex iopl ioperm modify_ldt lookup_dcookie vhangup
  lsm_set_self_attr`);

/** The system calls of each kind. */
export const CALL_FILTERS: Readonly<Record<BoxedKind, CallFilter>> = {
  /** Compilers, their subprocesses (sh, as, ld, ptxas …), and cuobjdump: no sockets at all. */
  compiler: allowList([...FILES_READ, ...FILES_WRITTEN, ...FOLDERS_CHANGED, ...CODE], narrowed()),
  /** The emulator's executor with a candidate's host code: no sockets, and no changes to folders. */
  executor: allowList([...FILES_READ, ...FILES_WRITTEN, ...CODE], narrowed()),
  /**
   * A problem's reference. Its main process forks one for each case, which then forbids itself further processes,
   * because Linux does not limit how many root's processes start.
   */
  reference: allowList([...FILES_READ, ...FILES_WRITTEN, ...CODE], narrowed([...PRCTL_HARMLESS, PR_SET_SECCOMP])),
  /**
   * A GPU's worker, which runs no host code of a candidate. NVIDIA does not document which calls its driver makes, and
   * they change with its versions, so this filter lists forbidden calls.
   */
  'gpu-worker': {
    rules: new Map<string, CallRule>([
      ...FORBIDDEN.map((name): [string, CallRule] => [name, { does: 'fail', errno: EPERM }]),
      ...NEW_PROCESSES,
      ['socket', { does: 'fail-values', argument: 0, values: [AF_KEY, AF_PACKET, AF_ALG, AF_VSOCK] }],
      ['ioctl', { does: 'fail-values', argument: 1, values: [TIOCSTI, TIOCLINUX] }],
    ]),
    otherwise: { does: 'allow' },
  },
};
