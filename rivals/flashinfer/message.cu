#include "guarded.h"

// Why a function of this thread last returned -1.
extern "C" const char* flashinfer_message() { return last_message.c_str(); }
