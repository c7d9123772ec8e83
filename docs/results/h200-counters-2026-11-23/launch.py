import ctypes, sys
cubin, shape, block_q, smem, times = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
B, S = map(int, shape.split('x'))
cu = ctypes.CDLL('libcuda.so.1')
def ok(result):
    if result: sys.exit('CUDA error %d' % result)
V = ctypes.c_void_p
ok(cu.cuInit(0)); ctx, mod, fn = V(), V(), V()
ok(cu.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0)); ok(cu.cuCtxSetCurrent(ctx))
image = open(cubin, 'rb').read() + b'\0'; ok(cu.cuModuleLoadData(ctypes.byref(mod), image)); ok(cu.cuModuleGetFunction(ctypes.byref(fn), mod, b'flashcore_v9'))
ok(cu.cuFuncSetAttribute(fn, 8, smem))
tensors = []
for _ in range(4):
    p = ctypes.c_uint64(); ok(cu.cuMemAlloc_v2(ctypes.byref(p), B * S * 128)); ok(cu.cuMemsetD16_v2(p, 0x3400, B * S * 64)); tensors.append(p)
arguments = tensors + [ctypes.c_int(S), ctypes.c_float(0.125), ctypes.c_int(0)]
pointers = (V * 7)(*[ctypes.cast(ctypes.pointer(a), V) for a in arguments])
for _ in range(times):
    ok(cu.cuLaunchKernel(fn, (S + block_q - 1) // block_q, B, 1, 2 * block_q, 1, 1, smem, None, pointers, None)); ok(cu.cuCtxSynchronize())
