import { existsSync, statfsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

/** Numbers of file systems shared by several machines: statfs(2), linux/magic.h and their own sources. */
const NETWORK_DISKS: Readonly<Record<number, string>> = {
  0x6969: 'NFS',
  0x517b: 'SMB',
  0xff534d42: 'SMB',
  0xfe534d42: 'SMB',
  0x0bd00bd0: 'Lustre',
  0x47504653: 'GPFS',
  0x19830326: 'BeeGFS',
  0x00c36400: 'Ceph',
  0x5346414f: 'AFS',
  0x20030528: 'OrangeFS',
  0xaad7aaea: 'PanFS',
  0x01161970: 'GFS2',
  0x7461636f: 'OCFS2',
};

/**
 * The network file system that a folder is on, or will be; undefined for a local disk. SQLite's WAL needs memory shared
 * by all its processes, and reliable locks (https://sqlite.org/wal.html, section 2).
 */
export function networkDisk(folder: string, typeOf = (path: string) => statfsSync(path).type): string | undefined {
  let path = resolve(folder);
  while (!existsSync(path) && path !== dirname(path)) path = dirname(path);
  return NETWORK_DISKS[typeOf(path) >>> 0];
}
