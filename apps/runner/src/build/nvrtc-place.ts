import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** NVIDIA's run-time compiler on this host, and CUDA's headers, which are not part of it. */
export interface NvrtcPlace {
  /** Real path of the folder that contains libnvrtc.so.13 or similar. */
  libraries: string;
  /** Include folders: CUDA's headers, then libcu++'s. */
  includes: string[];
}

export interface NvrtcHints {
  /** CUDA_HOME and CUDA_PATH. If any is set, no other place is searched. */
  toolkits: readonly string[];
  /**
   * The folders of a Python that may contain the wheels nvidia-cuda-nvrtc, nvidia-cuda-runtime, nvidia-cuda-crt and
   * nvidia-cuda-cccl.
   */
  sitePackages: readonly string[];
  /** The value of LD_LIBRARY_PATH. */
  loaderPath?: string | undefined;
}

const LIBRARY = /^libnvrtc\.so(\.\d+)*$/;
/** Headers that tensor core kernels include; since CUDA 13, one of them is in a separate wheel. */
const HEADERS = ['cuda_fp16.h', 'cuda_runtime_api.h', 'crt/mma.h'];
const DEFAULT_TOOLKIT = '/usr/local/cuda';
/** Folders of Debian's packages. */
const SYSTEM: Root = {
  libraries: ['/usr/lib/x86_64-linux-gnu', '/usr/lib/aarch64-linux-gnu'],
  include: ['/usr/include'],
};

/** The first place with both library and headers, or else the first place of each; undefined if either is nowhere. */
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

/** The usual toolkit, then wheels. Since CUDA 13, "cu13" contains all wheels; before, each wheel had its own folder. */
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

/** The layout of a toolkit's folder, which CUDA 13's wheels share. */
const toolkit = (root: string): Root => ({
  libraries: [join(root, 'lib64'), join(root, 'lib')],
  include: [join(root, 'include')],
});

/** The names in a folder in descending order, so that newer versions come first. */
const namesIn = (folder: string): string[] => (existsSync(folder) ? readdirSync(folder).toSorted().reverse() : []);

/** The version in CUDA's headers, such as "13.0". */
export function cudaVersionIn(include: string): string {
  const text = readFileSync(join(include, 'cuda_runtime_api.h'), 'utf8');
  const version = Number(/^#define CUDART_VERSION\s+(\d+)/m.exec(text)?.[1] ?? '0');
  return `${Math.floor(version / 1000)}.${Math.floor((version % 1000) / 10)}`;
}
