#pragma once
#define SYS_gettid 186
