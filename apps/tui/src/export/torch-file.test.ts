/**
 * Runs the exported PyTorch file in Python with replacements for PyTorch and the driver. Tests the file's checks, its
 * one-time preparation, and the arguments of each driver call.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { manifestOfVariant, parseManifest, resolveVariant } from '@flashcore/shared/kernels';
import { missing } from '@flashcore/shared/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ExportedKernel } from './exported-kernel.ts';
import { torchFile } from './torch-file.ts';

const KERNELS = path.join(import.meta.dirname, '../../../../kernels');
let folder = '';
// Created here rather than when the file loads, because no hook removes the folder if all tests are skipped.
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'fc-torch-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

function kernelOf(
  id: string,
  parameters: Record<string, number>,
  { edit = (text: string) => text, folder: place = path.join(KERNELS, id) } = {},
): ExportedKernel {
  const manifest = parseManifest(edit(readFileSync(path.join(place, 'kernel.yaml'), 'utf8')), place);
  const told = { label: 'x', compiler: 'nvcc', runner: '0.1.0', sourceDigest: '', job: 'jobs/1' };
  return {
    manifest: manifestOfVariant(manifest, { ...resolveVariant(manifest).parameters, ...parameters }),
    parameters,
    dtype: 'fp16',
    arch: 'sm_90a',
    cubins: [{ entries: [], bytes: new Uint8Array(8) }],
    sources: [],
    flags: [],
    origin: { buildId: 'ab'.repeat(32), ...told },
    measured: [],
    license: undefined,
    verdict: undefined,
  };
}

/**
 * A replacement for the driver. It counts calls by name and stores the last launch: grid, stream, and the first 8 bytes
 * of each parameter. It also provides DLPack's C exchange API for the tensors in TORCH.
 */
const DRIVER = `
#include <cstdint>
#include <cstring>
struct Config { uint32_t grid[3], block[3], shared; void* stream; void* attributes; uint32_t count; };
struct Object;
struct Tensor { void* data; int32_t device_type, device, rank; uint8_t code, bits; uint16_t lanes; int64_t *shape, *strides; uint64_t offset; };
extern "C" {
Object* PyObject_GetAttrString(Object*, const char*);
Object* PySequence_GetItem(Object*, intptr_t);
intptr_t PySequence_Size(Object*);
void* PyLong_AsVoidPtr(Object*);
long PyLong_AsLong(Object*);
void Py_DecRef(Object*);
static int view(Object* object, Tensor* out) {
  static int64_t extents[8];
  Object *address = PyObject_GetAttrString(object, "address"), *shape = PyObject_GetAttrString(object, "shape");
  *out = {PyLong_AsVoidPtr(address), 2, 0, (int32_t)PySequence_Size(shape), 2, 16, 1, extents, nullptr, 0};
  for (int dim = 0; dim < out->rank; ++dim) {
    Object* extent = PySequence_GetItem(shape, dim);
    extents[dim] = PyLong_AsLong(extent);
    Py_DecRef(extent);
  }
  Py_DecRef(address), Py_DecRef(shape);
  return 0;
}
static int stream_of(int32_t, int32_t, void** out) { *out = (void*)11; return 0; }
struct { uint32_t major, minor; void *previous, *allocate, *from_object, *to_object; int (*view)(Object*, Tensor*); int (*stream)(int32_t, int32_t, void**); }
    exchange = {1, 3, nullptr, nullptr, nullptr, nullptr, view, stream_of};
int launches, maps, loads, parameters_wanted;
uint32_t grid[3];
void* stream;
uint64_t values[16];
int cuGetErrorString(int, const char** text) { *text = "broken"; return 0; }
int cuCtxGetCurrent(void** context) { *context = (void*)1; return 0; }
int cuModuleLoadData(void** module, const void*) { ++loads; *module = (void*)1; return 0; }
int cuModuleGetFunction(void** function, void*, const char*) { *function = (void*)2; return 0; }
int cuFuncSetAttribute(void*, int, int) { return 0; }
int cuTensorMapEncodeTiled(void* map, int, uint32_t, void* tensor, ...) { ++maps; memcpy(map, &tensor, 8); return 0; }
int broken;
int cuLaunchKernelEx(const Config* config, void*, void** parameters, void**) {
  if (broken) return 1;
  ++launches;
  memcpy(grid, config->grid, sizeof grid);
  stream = config->stream;
  for (int index = 0; index < parameters_wanted; ++index) memcpy(&values[index], parameters[index], 4 + 4 * (index < 4));
  return 0;
}
}
`;

/** A replacement for PyTorch with the parts that the file uses. A tensor is an address with a shape. */
const TORCH = `
import ctypes, sys, types, json, contextlib, warnings
class Size(tuple): pass
class Device:
    type = "cuda"
    index = 0
DEVICE = Device()
class Tensor:
    requires_grad = False
    nbytes = 0
    version = 0
    def __init__(self, address, shape, dtype="half", contiguous=True):
        self.address, self.shape, self.dtype, self.contiguous = address, Size(shape), dtype, contiguous
        self.device = DEVICE
    def data_ptr(self): return self.address
    def get_device(self): return 0
    def dim(self): return len(self.shape)
    def numel(self):
        import math
        return math.prod(self.shape)
    def is_contiguous(self): return self.contiguous
    def is_inference(self): return False
torch = types.ModuleType("torch")
torch.Tensor = Tensor
torch.__version__ = "2.4"
torch.nn = types.SimpleNamespace(Parameter=type("Parameter", (Tensor,), {}))
torch.float16, torch.uint8, torch.float32, torch.int32 = "half", "byte", "float", "int"
new = [1 << 20]
def empty_like(tensor):
    new[0] += 1 << 20
    return Tensor(new[0], tensor.shape)
torch.empty_like = empty_like
def empty(size, dtype, device):
    tensor = empty_like(Tensor(0, size if isinstance(size, tuple) else (size,)))
    tensor.dtype = dtype
    return tensor
torch.empty, torch.device = empty, lambda *name: DEVICE
dispatched = []
class Op:
    def __init__(self, name, body): self.name, self.body = name, body
    def register_fake(self, body): return body
    def register_autograd(self, body, setup_context): pass
    def __call__(self, *arguments):
        dispatched.append(self.name)
        return self.body(*arguments)
torch.library = types.SimpleNamespace(custom_op=lambda name, mutates_args: lambda body: Op(name, body))
stream, compiling, modes = [7], [False], [0]
torch._C = types.SimpleNamespace(
    _cuda_getCurrentRawStream=lambda index: stream[0], _cuda_getDevice=lambda: 0,
    _len_torch_dispatch_stack=lambda: modes[0], _len_torch_function_stack=lambda: 0, _get_tracing_state=lambda: None,
    _functorch=types.SimpleNamespace(peek_interpreter_stack=lambda: None))
properties = types.SimpleNamespace(major=9, minor=0, name="H100", multi_processor_count=132)
torch.cuda = types.SimpleNamespace(get_device_properties=lambda device: properties, device=lambda device: contextlib.nullcontext())
torch.compiler = types.SimpleNamespace(is_compiling=lambda: compiling[0])
torch.is_grad_enabled = lambda: True
def increment_version(tensor): tensor.version += 1
applied = []
class Function:
    @classmethod
    def apply(cls, *arguments): applied.append(cls.__name__)
torch.autograd = types.SimpleNamespace(
    graph=types.SimpleNamespace(increment_version=increment_version), Function=Function,
    function=types.SimpleNamespace(once_differentiable=lambda body: body))
sys.modules["torch"] = torch
library = ctypes.CDLL(DRIVER)
ctypes.CDLL = lambda name: library
count = lambda name: ctypes.c_int.in_dll(library, name).value
def refused(call, *arguments, **named):
    try:
        call(*arguments, **named)
    except Exception as error:
        return str(error)
`;

/** The JSON output of `program`, run with the kernel's file in scope; `before` runs before the file is imported. */
function run(kernel: ExportedKernel, program: string, before = ''): unknown {
  const file = path.join(folder, 'op.py');
  writeFileSync(file, torchFile(kernel));
  const setting = `DRIVER = ${JSON.stringify(path.join(folder, 'driver.so'))}\n${TORCH}`;
  const { status, stdout, stderr } = spawnSync(
    'python3',
    ['-c', `${setting}\n${before}\nexec(compile(open(${JSON.stringify(file)}).read(), "op.py", "exec"))\n${program}`],
    { encoding: 'utf8' },
  );
  if (status !== 0) throw new Error(stderr);
  return JSON.parse(stdout);
}

describe.skipIf(missing('python3'))('the PyTorch file', () => {
  beforeAll(() => {
    writeFileSync(path.join(folder, 'driver.cpp'), DRIVER);
    execFileSync(process.env['CXX'] ?? 'c++', [
      '-shared',
      '-fPIC',
      '-o',
      path.join(folder, 'driver.so'),
      path.join(folder, 'driver.cpp'),
    ]);
  });

  test('a PyTorch that is too old is named when the module is imported', () => {
    expect(() =>
      run(kernelOf('flashcore_v11', { SMS: 132 }), 'raise SystemExit("imported")', 'del torch.library.custom_op'),
    ).toThrow('ImportError: Install PyTorch 2.4 or later: this is 2.4');
  });

  const QKV = 'q, k, v, o = (Tensor(4096 * (index + 1), (2, 8, 512, 64)) for index in range(4))\n';

  test("a second call with the same addresses only launches, on the second call's stream", () => {
    const printed = run(
      kernelOf('flashcore_v11', { SMS: 132 }),
      `${QKV}
seen = []
for each in (7, 9):
    stream[0] = each
    attention_out(q, k, v, o, causal=True)
    seen.append([count("launches"), count("maps"), count("loads"), ctypes.c_void_p.in_dll(library, "stream").value])
attention_out(q, k, Tensor(1 << 16, q.shape), o, causal=True)
seen.append([count("launches"), count("maps"), count("loads"), o.version])
print(json.dumps([seen, dispatched]))`,
    );
    expect(printed).toEqual([
      [
        [1, 3, 1, 7],
        [2, 3, 1, 9],
        [3, 4, 1, 3],
      ],
      [],
    ]);
  });

  test('the binding compiles without headers or warnings, and a PyTorch without DLPack launches from Python', () => {
    const printed = run(
      kernelOf('flashcore_v11', { SMS: 132 }),
      `${QKV}
attention_out(q, k, v, o)
check = subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-cast-function-type", "-fsyntax-only", "-x", "c", "-"],
                       input=_BINDING_SOURCE, capture_output=True, text=True)
print(json.dumps([check.returncode, check.stderr, BINDING_PROBLEM, count("launches")]))`,
    );
    expect(printed).toEqual([0, '', 'OSError: PyTorch 2.4 has no C exchange of DLPack', 1]);
  });

  test('the binding repeats prepared launches, with the workspaces of each call', () => {
    const place = path.join(KERNELS, '../examples/kernels/backward_hopper');
    const pair = {
      ...kernelOf('flashcore_v12', { SMS: 132, WRITE_LSE: 1 }),
      backward: kernelOf('backward_hopper', { SMS: 132 }, { folder: place }),
    };
    const printed = run(
      pair,
      `${QKV}
capsule = ctypes.pythonapi.PyCapsule_New
capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
exchange = ctypes.c_char.in_dll(library, "exchange")
Tensor.__dlpack_c_exchange_api__ = capsule(ctypes.addressof(exchange), b"dlpack_exchange_api", None)
Tensor.requires_grad = False
lse = Tensor(1 << 16, (2, 8, 512), dtype="float")
d_out, dq, dk, dv = (Tensor((1 << 17) + 4096 * index, q.shape) for index in range(4))
given = q, k, v, o, lse, d_out, dq, dk, dv, 0, None
ctypes.c_int.in_dll(library, "parameters_wanted").value = 5
values = (ctypes.c_uint64 * 16).in_dll(library, "values")
def launched():
    return [count("launches"), ctypes.c_void_p.in_dll(library, "stream").value, values[0] - new[0], values[1] - dq.address]
seen = [_backward_kernel.fast(*given)]
_backward_run(*given)
seen.append(launched())
for each in range(2):
    seen.append(_backward_kernel.fast(*given))
    seen.append(launched())
ctypes.c_int.in_dll(library, "broken").value = 1
seen.append(_backward_kernel.fast(*given))
seen.append(refused(_backward_run, *given))
ctypes.c_int.in_dll(library, "broken").value = 0
# Other numbers, another kernel with the same tensors, and recorded calls are not those that are prepared.
seen += [_backward_kernel.fast(*given[:-2], 1, None), _kernel.fast(*given)]
modes[0] = 1
seen.append(_backward_kernel.fast(*given))
modes[0] = 0
q.requires_grad = True
seen.append(_backward_kernel.fast(*given))
seen.append(BINDING_PROBLEM)
print(json.dumps(seen))`,
    );
    // Two fp32 arrays with one element per row come before the sums of dQ.
    const sums = 2 * 4 * 2 * 8 * 512;
    expect(printed).toEqual([
      false,
      [3, 7, sums, 0],
      ...[true, [6, 11, sums, 0], true, [9, 11, sums, 0]],
      ...[false, 'flashcore_v12: cuLaunchKernelEx failed: broken (1)'],
      ...[false, false, false, false],
      null,
    ]);
  });

  test('a call that repeats a prepared launch still checks dtype, shape and layout', () => {
    const printed = run(
      kernelOf('flashcore_v11', { SMS: 132 }),
      `${QKV}
attention_out(q, k, v, o)
print(json.dumps([
    refused(attention_out, q, Tensor(k.address, k.shape, dtype="float"), v, o),
    refused(attention_out, q, k, Tensor(v.address, v.shape, contiguous=False), o),
    refused(attention_out, q, k, Tensor(v.address, (2, 8, 256, 64)), o),
    refused(attention_out, q, k, v, q),
    refused(attention_out, Tensor(4098, q.shape), k, v, o),
    count("launches"),
]))`,
    );
    expect(printed).toEqual([
      expect.stringMatching(/k is float: must be half/) as string,
      expect.stringMatching(/v is not contiguous/) as string,
      expect.stringMatching(/v is \[2, 8, 256, 64\]: must be \[B, H, S, D\] with B=2, H=8, S=512, D=64/) as string,
      expect.stringMatching(/out is one of the inputs/) as string,
      expect.stringMatching(/q begins at 0x1002: must begin at a multiple of 16 bytes; call \.clone\(\)/) as string,
      1,
    ]);
  });

  test('scale replaces 1 / sqrt(D), and a kernel that multiplies by 1 / sqrt(D) itself refuses other scales', () => {
    const scales = `${QKV}
ctypes.c_int.in_dll(library, "parameters_wanted").value = 8
values = (ctypes.c_float * 32).in_dll(library, "values")
seen = []
for scale in (None, 0.5):
    attention_out(q, k, v, o, scale=scale)
    seen.append(values[12])
print(json.dumps(seen))`;
    expect(run(kernelOf('flashcore_v11', { SMS: 132 }), scales)).toEqual([0.125, 0.5]);
    const own = kernelOf(
      'flashcore_v11',
      { SMS: 132 },
      { edit: (text) => text.replaceAll('- scale', '- { float32: 0.125 }') },
    );
    const said = run(
      own,
      `${QKV}print(json.dumps([refused(attention_out, q, k, v, o, scale=each) for each in (0.125, 0.5)]))`,
    );
    expect(said).toEqual([null, 'flashcore_v11 does not use scale: it must be 0.125, got 0.5']);
  });

  test('traced and transformed calls use the operator, and differentiated eager calls use an autograd function', () => {
    const printed = run(
      kernelOf('flashcore_v11', { SMS: 132 }),
      `${QKV}
attention(q, k, v)
compiling[0] = True
attention(q, k, v)
compiling[0] = False
modes[0] = 1
attention(q, k, v)
modes[0] = 0
q.requires_grad = True
attention(q, k, v)
attention_out(torch.nn.Parameter(q.address, q.shape), k, v, o)
attention_out(type("Fake", (Tensor,), {})(q.address, q.shape), k, v, o)
compiling[0] = True
attention(q, k, v)
print(json.dumps([[each.replace("flashcore::flashcore_v11_abababab", "op") for each in dispatched], applied]))`,
    );
    expect(printed).toEqual([['op', 'op', 'op_out', 'op'], ['_Attention']]);
  });

  test.each<[string, string, string]>([
    ['flashcore_v11', 'flashcore_v11', 'the kernel is for sm_90a only; take another kernel there'],
    ['fa_v1_baseline', 'fa_v1_baseline', 'export it again with --arch sm_89'],
  ])('on another device, the error for %s suggests only what an export can do', (_, id, advice) => {
    const printed = run(
      kernelOf(id, { SMS: 132 }),
      `${QKV}
properties.major, properties.minor, properties.name = 8, 9, "L4"
print(json.dumps(refused(attention_out, q, k, v, o)))`,
    );
    expect(printed).toBe(`${id} was exported for sm_90a, and L4 is sm_89: ${advice}`);
  });
});
