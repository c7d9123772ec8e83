/**
 * The part of an exported PyTorch file that launches: modules, tensor maps, and launches that are prepared once for
 * each case and its addresses. Needs the file's constants.
 */
export const LAUNCHER = String.raw`_SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
_MAX_DYNAMIC_SHARED = 8
_NON_PORTABLE_CLUSTER = 14
_LIMIT_PERSISTING_L2 = 6
_MAX_PERSISTING_L2 = 108
_MAX_ACCESS_POLICY_WINDOW = 109
_WORKSPACE_ALIGNMENT = 256


class _LaunchConfig(ctypes.Structure):
    """CUlaunchConfig of cuda.h."""

    _fields_ = [
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint32),
    ]


class _Driver:
    """The CUDA driver's functions that a launch needs; every call is checked."""

    def __init__(self):
        self._library = ctypes.CDLL("libcuda.so.1")
        self._library.cuGetErrorString.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
        self.launch = self._library.cuLaunchKernelEx
        self.current_context = self._library.cuCtxGetCurrent

    def call(self, name, *arguments):
        self.check(getattr(self._library, name)(*arguments), name)

    def check(self, code, name):
        if code != 0:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(code, ctypes.byref(text))
            raise RuntimeError(f"{KERNEL}: {name} failed: {(text.value or b'unknown error').decode()} ({code})")


class _Prepared:
    """The launches of a case at fixed addresses; only stream and workspace change from call to call."""

    def __init__(self, kernel, loaded, launches, sizes, tensors):
        self._driver = loaded.driver
        self._launch = loaded.driver.launch
        self._slots, self._bytes = [], 0
        workspace = {}
        for name, size in sizes.items():
            workspace[name] = ctypes.c_void_p()
            self._slots.append((workspace[name], self._bytes))
            self._bytes += -(-max(1, size) // _WORKSPACE_ALIGNMENT) * _WORKSPACE_ALIGNMENT
        self._fills = [_fill(workspace[name], sizes[name], *value) for name, value in kernel.workspace_fills.items()]
        for name, value in kernel.output_fills.items():
            self._fills.append(_fill(ctypes.c_void_p(tensors[name].data_ptr()), tensors[name].nbytes, *value))
        self._launches = [self._prepare(loaded, launch, tensors, workspace) for launch in launches]

    def _prepare(self, loaded, launch, tensors, workspace):
        values = [loaded.value(argument, tensors, workspace) for argument in launch.arguments]
        parameters = (ctypes.c_void_p * max(1, len(values)))(*[address for address, _ in values])
        attributes = loaded.attributes(launch, tensors)
        block = ctypes.create_string_buffer(b"".join(attributes) or b"\0")
        config = _LaunchConfig(
            (ctypes.c_uint32 * 3)(*launch.grid),
            (ctypes.c_uint32 * 3)(*launch.block),
            launch.shared_bytes,
            None,
            ctypes.addressof(block) if attributes else None,
            len(attributes),
        )
        # The last item keeps alive what the others point to.
        return config, (ctypes.byref(config), loaded.function(launch), parameters, None), (values, block)

    def for_binding(self):
        """The launches and workspaces as the binding reads them; None: it does not fill memory, and has limits."""
        most = max(len(parameters) for _, (_, _, parameters, _), _ in self._launches)
        if self._fills or len(self._launches) > _MOST_LAUNCHES or most > _MOST_PARAMETERS:
            return None
        if len(self._slots) > _MOST_WORKSPACES:
            return None
        words = [len(self._launches), len(self._slots)]
        for config, (_, function, parameters, _), _ in self._launches:
            words += [ctypes.addressof(config), function.value, ctypes.addressof(parameters), len(parameters)]
        for slot, offset in self._slots:
            words += [ctypes.addressof(slot), offset]
        return (ctypes.c_uint64 * len(words))(*words)

    def allocation(self, index):
        """Allocates the workspaces when it is called; None: there are none."""
        if self._bytes == 0:
            return None
        return functools.partial(torch.empty, self._bytes, dtype=torch.uint8, device=torch.device("cuda", index))

    def run(self, index, stream):
        if self._bytes:
            # Kept until the launches are queued: PyTorch reuses memory in the order of the stream.
            held = torch.empty(self._bytes, dtype=torch.uint8, device=index)
            begin = held.data_ptr()
            for slot, offset in self._slots:
                slot.value = begin + offset
        for name, slot, bits, count in self._fills:
            self._driver.call(name, slot, bits, count, ctypes.c_void_p(stream))
        launch = self._launch
        for config, arguments, _ in self._launches:
            config.stream = stream
            code = launch(*arguments)
            if code != 0:
                self._driver.check(code, "cuLaunchKernelEx")


def _fill(slot, size, width, bits):
    """Arguments of the driver's memset, without the stream."""
    return f"cuMemsetD{8 * width}Async", slot, ctypes.c_uint32(bits), ctypes.c_size_t(size // width)


class _Loaded:
    """A kernel's modules on one device, and their entries."""

    def __init__(self, index, cubins):
        self.driver = _Driver()
        self._functions = {}
        self._maps = {}
        self._index = index
        self.bind()
        self._modules = [(entries, self._load(text)) for entries, text in cubins]

    def bind(self):
        """A thread that has not used the device yet has no context, and PyTorch's is the primary one."""
        context = ctypes.c_void_p()
        self.driver.call("cuCtxGetCurrent", ctypes.byref(context))
        if not context.value:
            self.driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._index)
            self.driver.call("cuCtxSetCurrent", context)

    def _load(self, text):
        module = ctypes.c_void_p()
        self.driver.call("cuModuleLoadData", ctypes.byref(module), zlib.decompress(base64.b85decode(text)))
        return module

    def function(self, launch):
        if launch.entry not in self._functions:
            function = ctypes.c_void_p()
            module = next(module for entries, module in self._modules if entries is None or launch.entry in entries)
            self.driver.call("cuModuleGetFunction", ctypes.byref(function), module, launch.entry.encode())
            if launch.cluster is not None:
                self.driver.call("cuFuncSetAttribute", function, _NON_PORTABLE_CLUSTER, 1)
            self._functions[launch.entry] = [function, 0]
        known = self._functions[launch.entry]
        if launch.shared_bytes > known[1]:
            self.driver.call("cuFuncSetAttribute", known[0], _MAX_DYNAMIC_SHARED, launch.shared_bytes)
            known[1] = launch.shared_bytes
        return known[0]

    def value(self, argument, tensors, workspace):
        """Address of an argument's bytes, and what keeps them alive. A tensor that the case lacks is null."""
        kind, value = argument[:2]
        if kind == "tensor_map":
            return self._tensor_map(tensors[value], *argument[2:])
        if kind == "int32":
            held = ctypes.c_int64(value)
        elif kind == "float32":
            held = ctypes.c_float(value)
        elif kind == "workspace":
            held = workspace[value]
        else:
            held = ctypes.c_void_p(tensors[value].data_ptr() if value in tensors else None)
        return ctypes.addressof(held), held

    def _tensor_map(self, tensor, box, swizzle, order=None):
        """CUtensorMap of a tensor as [heads, rows, columns], or with all its dimensions where those lie in memory in an
        order of their own, 128 bytes, aligned to 64. It follows from address and shape, so that it is right for every
        tensor that is ever at this address."""
        key = (tensor.data_ptr(), tensor.shape, box, swizzle)
        if key in self._maps:
            return self._maps[key]
        *heads, rows, columns = tensor.shape
        extents, strides = (columns, rows, math.prod(heads)), (columns, rows * columns)
        if order is not None:
            extents, strides = tensor.shape[::-1], _strides(tensor.shape, order)[-2::-1]
        rank = len(extents)
        held = ctypes.create_string_buffer(128 + 64)
        address = (ctypes.addressof(held) + 63) // 64 * 64
        promotion_256b = 3
        self.driver.call(
            "cuTensorMapEncodeTiled",
            ctypes.c_void_p(address),
            _TENSOR_MAP_TYPE,
            ctypes.c_uint32(rank),
            ctypes.c_void_p(tensor.data_ptr()),
            (ctypes.c_uint64 * rank)(*extents),
            (ctypes.c_uint64 * (rank - 1))(*(stride * _ELEMENT_BYTES for stride in strides)),
            (ctypes.c_uint32 * rank)(*box, *(1,) * (rank - len(box))),
            (ctypes.c_uint32 * rank)(*(1,) * rank),
            0,
            _SWIZZLES[swizzle],
            promotion_256b,
            0,
        )
        _remember(self._maps, key, (address, held))
        return address, held

    def attributes(self, launch, tensors):
        """CUlaunchAttribute, 72 bytes each: the cluster, and the window of L2 that is to stay."""
        attributes = []
        if launch.cluster is not None:
            attributes.append(_packed(4, (ctypes.c_uint32 * 3)(*launch.cluster)))
        if launch.l2_persist:
            attributes.append(self._window([tensors[name] for name in launch.l2_persist]))
        return attributes

    def _window(self, tensors):
        low = min(tensor.data_ptr() for tensor in tensors)
        high = max(tensor.data_ptr() + tensor.nbytes for tensor in tensors)
        most = self._attribute(_MAX_ACCESS_POLICY_WINDOW)
        if high - low > most:  # too far apart for one window: the first alone
            low, high = tensors[0].data_ptr(), tensors[0].data_ptr() + tensors[0].nbytes
        kept = min(high - low, self._attribute(_MAX_PERSISTING_L2))
        self.driver.call("cuCtxSetLimit", _LIMIT_PERSISTING_L2, ctypes.c_size_t(kept))
        window = ctypes.create_string_buffer(32)
        ctypes.c_uint64.from_buffer(window, 0).value = low
        ctypes.c_uint64.from_buffer(window, 8).value = min(high - low, most)
        ctypes.c_float.from_buffer(window, 16).value = 1.0
        persisting, streaming = 2, 1
        ctypes.c_uint32.from_buffer(window, 20).value = persisting
        ctypes.c_uint32.from_buffer(window, 24).value = streaming
        return _packed(1, window)

    def _attribute(self, number):
        value = ctypes.c_int()
        self.driver.call("cuDeviceGetAttribute", ctypes.byref(value), number, self._index)
        return value.value


def _strides(extents, order):
    """Strides of dimensions that lie in memory in this order, outermost first."""
    strides, stride = [1] * len(extents), 1
    for dim in order[::-1]:
        strides[dim] = stride
        stride *= extents[dim]
    return strides


def _packed(kind, value):
    return (kind.to_bytes(4, "little") + bytes(4) + bytes(value)).ljust(72, b"\0")


_MOST_REMEMBERED = 4096


def _remember(known, key, value):
    """The oldest entry goes where there are too many."""
    if len(known) >= _MOST_REMEMBERED:
        known.pop(next(iter(known)), None)
    known[key] = value


class _Kernel:
    """A kernel of this file: the cases that it takes, its modules by device, and what is prepared for its calls."""

    def __init__(self, **told):
        self.__dict__.update(told)
        # One cache a thread: a launch writes stream and workspace into what it prepared before the driver reads them.
        self.threads = threading.local()
        self._loaded = {}
        self._lock = threading.Lock()

    def fast(self, *arguments):
        """Repeats a prepared launch where the binding has it; until it is compiled there is none."""
        return False

    def on(self, index):
        """The modules on a device."""
        with self._lock:
            if index not in self._loaded:
                self._require_device(index)
                self._loaded[index] = _Loaded(index, self.cubins())
            return self._loaded[index]

    def _require_device(self, index):
        properties = torch.cuda.get_device_properties(index)
        found = (properties.major, properties.minor)
        digits = "".join(digit for digit in self.arch if digit.isdigit())
        wanted = (int(digits[:-1]), int(digits[-1]))
        # Machine code runs on its own major version, at its minor one or a later; "a" is for one alone.
        fits = found == wanted if self.arch[-1] in "af" else found[0] == wanted[0] and found[1] >= wanted[1]
        if not fits:
            raise RuntimeError(
                f"{self.name} was exported for {self.arch}, and {properties.name} is sm_{found[0]}{found[1]}: {self._advice(found)}"
            )
        for name, values in self.of_device.items():
            own = self.parameters[name]
            nearest = min(values, key=lambda value: abs(value - properties.multi_processor_count))
            if nearest != own:
                warnings.warn(
                    f"{self.name} was exported with {name}={own}, and {properties.name} has "
                    f"{properties.multi_processor_count} multiprocessors: it is right there, and {name}={nearest} may be faster",
                    stacklevel=2,
                )

    def _advice(self, found):
        """What to do on a device that the machine code is not for; an export refuses what the kernel can't be built for."""
        digits = "".join(digit for digit in self.min_arch if digit.isdigit())
        least = (int(digits[:-1]), int(digits[-1]))
        if self.exact_arch:
            return f"the kernel is for {self.min_arch} only; take another kernel there"
        if found < least:
            return f"the kernel needs {self.min_arch} or later; take another kernel there"
        return f"export it again with --arch sm_{found[0]}{found[1]}"

    def check_rank(self, name, tensor):
        dims = self.forms[name][1]
        if tensor.dim() != len(dims):
            raise ValueError(f"{self.name}: {name} has {tensor.dim()} dimensions: must be [{', '.join(dims)}]")

    def _check(self, name, tensor, first_name, first):
        dtype, dims = self.forms[name]
        if tensor.device.type != "cuda":
            raise ValueError(f"{self.name}: {name} is on {tensor.device}: must be on a CUDA device")
        if tensor.device != first.device:
            raise ValueError(f"{self.name}: {name} is on {tensor.device}: must be on {first.device}, as {first_name} is")
        if tensor.dtype != dtype:
            raise TypeError(f"{self.name}: {name} is {tensor.dtype}: must be {dtype}, for example {name}.to({dtype})")
        self.check_rank(name, tensor)
        order = self.layouts.get(name)
        if order is None and not tensor.is_contiguous():
            raise ValueError(
                f"{self.name}: {name} is not contiguous as [{', '.join(dims)}]: call .contiguous(), also after a transpose"
            )
        if order is not None and not tensor.permute(order).is_contiguous():
            raise ValueError(
                f"{self.name}: {name} must lie in memory as [{', '.join(dims[dim] for dim in order)}]: call "
                f".permute{order}.contiguous(), and permute the result back"
            )
        alignment = 4 if dtype is torch.int32 else 16
        if tensor.data_ptr() % alignment != 0:
            raise ValueError(
                f"{self.name}: {name} begins at {tensor.data_ptr():#x}: must begin at a multiple of {alignment} bytes; call .clone()"
            )
        if tensor.numel() == 0:
            raise ValueError(f"{self.name}: {name} is {list(tensor.shape)}: every extent must be at least 1")

    def extents(self, tensors):
        """The axes' extents, of which each must be the same wherever it occurs."""
        extents = {}
        for name, tensor in tensors.items():
            dims = self.forms[name][1]
            for dim, extent in zip(dims, tensor.shape):
                axis, _, more = dim.partition(" + ")
                found = extent - int(more or 0)
                if axis.isidentifier():
                    wanted = extents.setdefault(axis, found)
                else:  # an extent that the kernel fixes, or "*"
                    wanted = int(axis) if axis.isdigit() else found
                if found != wanted:
                    known = ", ".join(f"{each}={extents[each]}" for each in dims if each in extents)
                    raise ValueError(
                        f"{self.name}: {name} is {list(tensor.shape)}: must be [{', '.join(dims)}]{known and f' with {known}'}"
                    )
        return self.derive(extents, tensors)

    def planned(self, tensors, given):
        """The launches of a case and the bytes of each workspace. ValueError: the kernel does not take the case."""
        extents = self.extents(tensors)
        return self.plan(**{name: extents[name] for name in self.axes}, **given)

    def prepare(self, tensors, given):
        """The launches of tensors by their names, with numbers by theirs. Errors: a tensor that the kernel does not take."""
        first_name, first = next(iter(tensors.items()))
        for name, tensor in tensors.items():
            self._check(name, tensor, first_name, first)
        inputs = {tensor.data_ptr() for name, tensor in tensors.items() if name not in self.outputs}
        for name in self.outputs:
            if tensors[name].data_ptr() in inputs:
                raise ValueError(f"{self.name}: {name} is one of the inputs: must be a tensor of its own")
        launches, sizes = self.planned(tensors, given)
        index = first.get_device()
        with torch.cuda.device(index):
            loaded = self.on(index)
            loaded.bind()
            _bind(self, loaded.driver)
            return _Prepared(self, loaded, launches, sizes, {self.names[name]: tensor for name, tensor in tensors.items()})

    def remember(self, known, key, prepared, index, arguments):
        """Keeps what was prepared for a call, also in the binding."""
        _remember(known, key, prepared)
        words = prepared.for_binding() if _binding is not None and _current_device() == index else None
        if words is not None:
            held = (prepared, words)
            self.remember_fast(*arguments, prepared.allocation(index), held, ctypes.addressof(words))


_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
    lambda index: torch.cuda.current_stream(index).cuda_stream
)
_current_device = getattr(torch._C, "_cuda_getDevice", None) or torch.cuda.current_device


# Whether PyTorch has to see an operator: it traces, transforms or records calls.
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", None)
_function_modes = getattr(torch._C, "_len_torch_function_stack", None)
_tracing = getattr(torch._C, "_get_tracing_state", None)
_transforms = getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", None)
_MODES = (_dispatch_modes, _function_modes, _tracing, _transforms)
_KNOWS_MODES = None not in _MODES


def _is_plain(*tensors):
    """Whether the call may go around PyTorch's dispatcher, which takes longer than the launch."""
    if torch.compiler.is_compiling() or not _KNOWS_MODES:
        return False
    for tensor in tensors:
        if type(tensor) not in _PLAIN:
            return False
    return not (_dispatch_modes() or _function_modes() or _tracing() or _transforms())


def _is_differentiated(*tensors):
    """Whether autograd records the call."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor.requires_grad:
                return True
    return False
`;
