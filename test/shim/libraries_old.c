/* SPDX-License-Identifier: MIT */
/* The same plugin for an older cuBLAS, without what a later one brought. */
#define OLD_CUBLAS
#include "test/shim/libraries.c"
