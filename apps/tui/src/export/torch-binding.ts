/**
 * The part of an exported PyTorch file that repeats a prepared launch from C. Python needs microseconds to read tensors
 * and to look up the launch that was prepared for them; C needs a fraction of one. The host's C compiler builds this
 * part, without headers, when the first launch is prepared. If that fails, the file launches from Python.
 */
export const BINDING = String.raw`_BINDING_SOURCE = r"""
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// In CPython's stable ABI, and in builds with a GIL, an object begins with its reference count and its type.
typedef struct Object { intptr_t count; struct Object* type; } Object;
typedef struct { const char* name; void* function; int flags; const char* about; } Method;
extern Object* PyCFunction_NewEx(Method*, Object*, Object*);
extern Object* PyBool_FromLong(long);
extern Object* PyObject_GetAttr(Object*, Object*);
extern Object* PyObject_CallNoArgs(Object*);
extern int PyObject_IsTrue(Object*);
extern double PyFloat_AsDouble(Object*);
extern void* PyLong_AsVoidPtr(Object*);
extern void Py_IncRef(Object*);
extern void Py_DecRef(Object*);
extern Object* PyErr_Occurred(void);
extern void PyErr_Clear(void);
extern void* PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void*);
extern Object _Py_NoneStruct;
enum { FASTCALL = 0x80 };

// DLPack 1.x: PyTorch describes a tensor without a call to Python.
typedef struct { int32_t type, id; } Device;
typedef struct { uint8_t code, bits; uint16_t lanes; } Type;
typedef struct {
  void* data;
  Device device;
  int32_t rank;
  Type type;
  int64_t *shape, *strides;
  uint64_t offset;
} Tensor;
typedef struct {
  struct { uint32_t major, minor; void* previous; } header;
  void *allocate, *from_object, *to_object;
  int (*view)(void* object, Tensor* out);
  int (*stream)(int32_t type, int32_t id, void** out);
} Exchange;
enum { CUDA = 2 };

// cuda.h
typedef struct { uint32_t grid[3], block[3], shared; void* stream; void* attributes; uint32_t count; } Config;

enum { WORDS = 144, LAUNCHES = 4, PARAMETERS = 32, WORKSPACES = 4, ENTRIES = 2048, PROBES = 8, MODES = 4 };
typedef struct {
  int launches, workspaces;
  struct { Config config; void *function, **parameters; uint64_t count; } launch[LAUNCHES];
  struct { void* slot; uint64_t offset; } workspace[WORKSPACES];  // a parameter that points to the slot is its address
  Object *allocate, *held;  // allocates the workspaces, or None; what the pointers point to
} Prepared;
typedef struct {
  uint64_t words, key[WORDS];
  void* context;
  Prepared prepared;
} Entry;

static Entry entries[ENTRIES];
static const Exchange* exchange;
static Object *tensor_type, *parameter_type, *grad_enabled, *requires_grad, *modes[MODES];
static int (*launch_kernel)(const Config*, void*, void**, void**);
static int (*current_context)(void**);

static int is_true(Object* owned) {
  const int truth = owned == NULL ? -1 : PyObject_IsTrue(owned);
  if (owned != NULL) Py_DecRef(owned);
  if (truth < 0) PyErr_Clear();
  return truth != 0;  // an error is for Python, too
}

static int is_number(const Object* object) { return object->type != tensor_type && object->type != parameter_type; }

// The words that a prepared launch depends on, and the device; 0: the call is not for this path.
static uint64_t key_of(Object* self, Object* const* arguments, intptr_t count, uint64_t* key, int32_t* device) {
  uint64_t words = 0;
  key[words++] = (uint64_t)(uintptr_t)self;
  intptr_t at = 0;
  for (; at < count && !is_number(arguments[at]); ++at) {
    Tensor tensor;
    if (exchange->view(arguments[at], &tensor) != 0) {
      PyErr_Clear();
      return 0;
    }
    if (tensor.device.type != CUDA || (at > 0 && tensor.device.id != *device)) return 0;
    if (tensor.rank > 6 || words + 2 + 2 * 6 > WORDS) return 0;
    *device = tensor.device.id;
    key[words++] = (uint64_t)(uintptr_t)tensor.data + tensor.offset;
    key[words++] = (uint64_t)tensor.device.id << 48 | (uint64_t)tensor.rank << 40 | (uint64_t)tensor.type.code << 32 |
                   (uint64_t)tensor.type.bits << 16 | tensor.type.lanes;
    int64_t stride = 1;  // without strides DLPack's tensors are contiguous; a dimension of one element has any
    for (int dim = tensor.rank - 1; dim >= 0; --dim) {
      key[words++] = (uint64_t)tensor.shape[dim];
      key[words++] = (uint64_t)(tensor.shape[dim] == 1 ? 0 : tensor.strides != NULL ? tensor.strides[dim] : stride);
      stride *= tensor.shape[dim];
    }
  }
  if (at == 0 || words + (uint64_t)(count - at) > WORDS) return 0;
  for (; at < count; ++at) {
    double value = -1.0e308;  // None
    if (arguments[at] != &_Py_NoneStruct) value = PyFloat_AsDouble(arguments[at]);
    if (value == -1.0 && PyErr_Occurred()) {
      PyErr_Clear();
      return 0;
    }
    memcpy(&key[words++], &value, sizeof value);
  }
  return words;
}

static Entry* slot_of(const uint64_t* key, uint64_t words, int wants_free) {
  uint64_t hash = 1469598103934665603u;
  for (uint64_t word = 0; word < words; ++word) hash = (hash ^ key[word]) * 1099511628211u, hash ^= hash >> 29;
  for (int probe = 0; probe < PROBES; ++probe) {
    Entry* entry = &entries[(hash + probe) % ENTRIES];
    if (entry->words == words && memcmp(entry->key, key, words * sizeof *key) == 0) return entry;
    if (wants_free && entry->words == 0) return entry;
  }
  return wants_free ? &entries[hash % ENTRIES] : NULL;
}

// Whether PyTorch has to see the call: it traces, transforms or records it.
static int is_for_pytorch(Object* const* arguments, intptr_t count) {
  for (int mode = 0; mode < MODES; ++mode)
    if (is_true(PyObject_CallNoArgs(modes[mode]))) return 1;
  if (!is_true(PyObject_CallNoArgs(grad_enabled))) return 0;
  for (intptr_t at = 0; at < count && !is_number(arguments[at]); ++at)
    if (is_true(PyObject_GetAttr(arguments[at], requires_grad))) return 1;
  return 0;
}

// launch(tensors..., numbers...): whether it launched.
static Object* launch(Object* self, Object* const* arguments, intptr_t count) {
  uint64_t key[WORDS];
  int32_t device = 0;
  void *context = NULL, *stream = NULL;
  if (is_for_pytorch(arguments, count)) return PyBool_FromLong(0);
  const uint64_t words = key_of(self, arguments, count, key, &device);
  const Entry* entry = words == 0 ? NULL : slot_of(key, words, 0);
  if (entry == NULL || current_context(&context) != 0 || context != entry->context) return PyBool_FromLong(0);
  if (exchange->stream(CUDA, device, &stream) != 0) {
    PyErr_Clear();
    return PyBool_FromLong(0);
  }
  // A launch may wait for room in the queue: others run meanwhile, and may put something else into the entry.
  Prepared prepared = entry->prepared;
  Object* memory = NULL;
  char* workspace = NULL;
  Py_IncRef(prepared.held);
  if (prepared.workspaces > 0) {
    Tensor tensor;
    Py_IncRef(prepared.allocate);
    memory = PyObject_CallNoArgs(prepared.allocate);
    Py_DecRef(prepared.allocate);
    if (memory == NULL || exchange->view(memory, &tensor) != 0) {
      Py_DecRef(prepared.held);
      if (memory != NULL) Py_DecRef(memory);
      return NULL;  // with the error of PyTorch: out of memory
    }
    workspace = (char*)tensor.data + tensor.offset;
  }
  void* state = PyEval_SaveThread();
  int failed = 0;
  for (int each = 0; each < prepared.launches && !failed; ++each) {
    void *parameters[PARAMETERS], *addresses[WORKSPACES];
    memcpy(parameters, prepared.launch[each].parameters, prepared.launch[each].count * sizeof *parameters);
    for (int of = 0; of < prepared.workspaces; ++of) {
      addresses[of] = workspace + prepared.workspace[of].offset;
      for (uint64_t at = 0; at < prepared.launch[each].count; ++at)
        if (parameters[at] == prepared.workspace[of].slot) parameters[at] = &addresses[of];
    }
    prepared.launch[each].config.stream = stream;
    failed = launch_kernel(&prepared.launch[each].config, prepared.launch[each].function, parameters, NULL);
  }
  PyEval_RestoreThread(state);
  Py_DecRef(prepared.held);
  // PyTorch reuses memory in the order of the stream.
  if (memory != NULL) Py_DecRef(memory);
  return PyBool_FromLong(!failed);  // Python launches again, and says what failed
}

// remember(tensors..., numbers..., allocate, held, address of the words of _Prepared.for_binding())
static Object* remember(Object* self, Object* const* arguments, intptr_t count) {
  uint64_t key[WORDS];
  int32_t device = 0;
  void* context = NULL;
  const uint64_t* told = PyLong_AsVoidPtr(arguments[count - 1]);
  const uint64_t words = key_of(self, arguments, count - 3, key, &device);
  if (words == 0 || told == NULL || current_context(&context) != 0) return PyBool_FromLong(0);
  Entry* entry = slot_of(key, words, 1);
  const Prepared former = entry->prepared;
  Prepared* prepared = &entry->prepared;
  entry->words = words;
  memcpy(entry->key, key, sizeof key);
  entry->context = context;
  prepared->launches = (int)told[0], prepared->workspaces = (int)told[1];
  told += 2;
  for (int each = 0; each < prepared->launches; ++each, told += 4) {
    memcpy(&prepared->launch[each].config, (void*)(uintptr_t)told[0], sizeof(Config));
    prepared->launch[each].function = (void*)(uintptr_t)told[1];
    prepared->launch[each].parameters = (void**)(uintptr_t)told[2];
    prepared->launch[each].count = told[3];
  }
  for (int each = 0; each < prepared->workspaces; ++each, told += 2) {
    prepared->workspace[each].slot = (void*)(uintptr_t)told[0];
    prepared->workspace[each].offset = told[1];
  }
  prepared->allocate = arguments[count - 3], prepared->held = arguments[count - 2];
  Py_IncRef(prepared->allocate), Py_IncRef(prepared->held);
  if (former.held != NULL) Py_DecRef(former.allocate), Py_DecRef(former.held);
  return PyBool_FromLong(1);
}

static Method methods[] = {{"launch", launch, FASTCALL, NULL}, {"remember", remember, FASTCALL, NULL}};

void set_up(const void* api, Object* const* objects, void* launch_function, void* context_function) {
  exchange = api;
  tensor_type = objects[0], parameter_type = objects[1], grad_enabled = objects[2], requires_grad = objects[3];
  for (int mode = 0; mode < MODES; ++mode) modes[mode] = objects[4 + mode];
  memcpy(&launch_kernel, &launch_function, sizeof launch_function);
  memcpy(&current_context, &context_function, sizeof context_function);
}
Object* method(int number, Object* self) { return PyCFunction_NewEx(&methods[number], self, NULL); }
"""


# Limits of the source's arrays.
_MOST_LAUNCHES = 4
_MOST_PARAMETERS = 32
_MOST_WORKSPACES = 4


class _Binding:
    """fast(tensors…, numbers…) of a kernel repeats what remember_fast() has for them, and answers whether it did."""

    def __init__(self, driver):
        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            raise OSError("Python has no GIL")
        if not _KNOWS_MODES or not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
            raise OSError(f"PyTorch {torch.__version__} has no C exchange of DLPack")
        with tempfile.TemporaryDirectory() as folder:
            source, binary = os.path.join(folder, "launch.c"), os.path.join(folder, "launch.so")
            with open(source, "w", encoding="ascii") as file:
                file.write(_BINDING_SOURCE)
            compiler = [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC"]
            subprocess.run([*compiler, source, "-o", binary], check=True, capture_output=True, timeout=60)
            library = ctypes.PyDLL(binary)
        api = ctypes.pythonapi.PyCapsule_GetPointer
        api.restype, api.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        exchange = api(torch.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
        if ctypes.c_uint32.from_address(exchange).value != 1:
            raise OSError("PyTorch has another DLPack than 1.x")
        self._objects = (*_PLAIN, torch.is_grad_enabled, "requires_grad", *_MODES)
        held = (ctypes.py_object * len(self._objects))(*self._objects)
        functions = (ctypes.cast(each, ctypes.c_void_p) for each in (driver.launch, driver.current_context))
        library.set_up(ctypes.c_void_p(exchange), held, *functions)
        library.method.restype, library.method.argtypes = ctypes.py_object, [ctypes.c_int, ctypes.py_object]
        self._method = library.method

    def bind(self, kernel):
        kernel.fast, kernel.remember_fast = self._method(0, kernel), self._method(1, kernel)


_binding = None
_binding_lock = threading.Lock()
# Why launches are made from Python; None: they are not, or none has been prepared yet.
BINDING_PROBLEM = None


def _bind(kernel, driver):
    """Compiles the binding once; FLASHCORE_BINDING=0 in the environment leaves it out."""
    global _binding, BINDING_PROBLEM
    with _binding_lock:
        if _binding is None and BINDING_PROBLEM is None:
            try:
                if os.environ.get("FLASHCORE_BINDING") == "0":
                    raise OSError("FLASHCORE_BINDING is 0")
                _binding = _Binding(driver)
            except (OSError, subprocess.SubprocessError, AttributeError) as error:
                BINDING_PROBLEM = f"{type(error).__name__}: {error}"
    if _binding is not None and "fast" not in vars(kernel):
        _binding.bind(kernel)
`;
