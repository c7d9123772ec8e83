#pragma once
#include "flashcore_emulator/intrinsics.h"
#include "vector_types.h"
