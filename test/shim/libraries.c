/* SPDX-License-Identifier: MIT */
/*
 * host/libraries as a plugin: a program that is not linked to cuBLAS loads it
 * with all that it needs, out of the global scope (as Python its modules).
 */
#define main run_calls
#include "test/host/libraries.c"
