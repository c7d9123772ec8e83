// The whole library as one translation unit. It compiles in a third of the time of its parts, and calls between them
// are inlined.
#if !defined(FLASHCORE_PTX_ENGINE)
#define FLASHCORE_PTX_ENGINE 0
#endif
#include "exec/alignment.cpp"
#include "exec/async_copy.cpp"
#include "exec/block.cpp"
#include "exec/context_switch.cpp"
#include "exec/device_memory.cpp"
#include "exec/device_printf.cpp"
#include "exec/fault.cpp"
#include "exec/grid.cpp"
#include "exec/module_files.cpp"
#include "exec/race.cpp"
#include "exec/runtime_calls.cpp"
#include "exec/shared_memory.cpp"
#include "exec/signals.cpp"
#include "exec/stack_pool.cpp"
#if !FLASHCORE_PTX_ENGINE  // otherwise ptx/*.cpp are compiled separately, for the processor that they run on
#include "ptx/absent.cpp"
#endif
#include "driver/context.cpp"
#include "driver/device.cpp"
#include "driver/errors.cpp"
#include "driver/extras.cpp"
#include "driver/functions.cpp"
#include "driver/graphs.cpp"
#include "driver/image.cpp"
#include "driver/launch.cpp"
#include "driver/memory.cpp"
#include "driver/module.cpp"
#include "driver/queue.cpp"
#include "driver/streams.cpp"
#include "driver/tensor_map.cpp"
