import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** NVIDIA's run-time compiler on this host, with CUDA's headers, which it does not bring. */
export interface NvrtcPlace {
  /** The folder that has libnvrtc.so.13 and the like, by its real name. */
  libraries: string;
  /** Folders to include CUDA's headers from: they themselves, then libcu++'s. */
  includes: string[];
}

export interface NvrtcHints {
  /** CUDA_HOME and CUDA_PATH: where one is named, nothing else is looked for. */
  toolkits: readonly string[];
  /** Of a Python: its wheels nvidia-cuda-nvrtc, nvidia-cuda-runtime, nvidia-cuda-crt and nvidia-cuda-cccl. */
  sitePackages: readonly string[];
  /** LD_LIBRARY_PATH. */
  loaderPath?: string | undefined;
}

const LIBRARY = /^libnvrtc\.so(\.\d+)*$/;
/** What kernels for tensor cores include, and what lies in a wheel of its own since CUDA 13. */
const HEADERS = ['cuda_fp16.h', 'cuda_runtime_api.h', 'crt/mma.h'];
const DEFAULT_TOOLKIT = '/usr/local/cuda';
/** Debian's own packages. */
const SYSTEM: Root = {
  libraries: ['/usr/lib/x86_64-linux-gnu', '/usr/lib/aarch64-linux-gnu'],
  include: ['/usr/include'],
};

/** A place that has both, or else the first that there is of each; undefined where one of them is nowhere. */
export function findNvrtc(hints: NvrtcHints): NvrtcPlace | undefined {
  const named = hints.toolkits.length > 0;
  const roots = named ? hints.toolkits.map(toolkit) : rootsOf(hints.sitePackages);
  const elsewhere = named ? [] : (hints.loaderPath ?? '').split(delimiter).filter((folder) => folder !== '');
  const all = [...roots, { libraries: elsewhere, include: [] }, ...(named ? [] : [SYSTEM])];
  const places = all.map(({ libraries, include }) => ({
    libraries: libraries.find((folder) => namesIn(folder).some((name) => LIBRARY.test(name))),
    include: include.find((folder) => HEADERS.every((header) => existsSync(join(folder, header)))),
  }));
  const whole = places.find((place) => place.libraries !== undefined && place.include !== undefined);
  const libraries = whole?.libraries ?? places.find((place) => place.libraries !== undefined)?.libraries;
  const include = whole?.include ?? places.find((place) => place.include !== undefined)?.include;
  if (libraries === undefined || include === undefined) return undefined;
  const cccl = join(include, 'cccl');
  return {
    libraries: realpathSync(libraries),
    includes: [include, ...(existsSync(cccl) ? [cccl] : [])].map((folder) => realpathSync(folder)),
  };
}

interface Root {
  libraries: string[];
  include: string[];
}

/** The usual toolkit, then wheels: "cu13" has all of them since CUDA 13, each had a folder of its own before. */
function rootsOf(sitePackages: readonly string[]): Root[] {
  const wheels = sitePackages.map((folder) => join(folder, 'nvidia'));
  const merged = wheels.flatMap((folder) =>
    namesIn(folder)
      .filter((name) => /^cu\d+$/.test(name))
      .map((name) => toolkit(join(folder, name))),
  );
  const apart = wheels.map((folder) => ({
    libraries: [join(folder, 'cuda_nvrtc/lib')],
    include: [join(folder, 'cuda_runtime/include')],
  }));
  return [toolkit(DEFAULT_TOOLKIT), ...merged, ...apart];
}

/** A toolkit's own folder, or that of CUDA 13's wheels. */
const toolkit = (root: string): Root => ({
  libraries: [join(root, 'lib64'), join(root, 'lib')],
  include: [join(root, 'include')],
});

/** The newest first. */
const namesIn = (folder: string): string[] => (existsSync(folder) ? readdirSync(folder).toSorted().reverse() : []);

/** "13.0", as CUDA's headers say of themselves. */
export function cudaVersionIn(include: string): string {
  const text = readFileSync(join(include, 'cuda_runtime_api.h'), 'utf8');
  const version = Number(/^#define CUDART_VERSION\s+(\d+)/m.exec(text)?.[1] ?? '0');
  return `${Math.floor(version / 1000)}.${Math.floor((version % 1000) / 10)}`;
}
