/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_PIN_H
#define GPUTRACE_COLLECTOR_PIN_H

#include <stdbool.h>

/* The library that holds the address stays loaded, also if the program closes
 * it: we keep pointers into it.  (The program itself stays anyway.)  False: it
 * is in none.  No dlerror() is left behind; errno may change.
 * Context: any thread; takes the loader's lock. */
bool pin_library(const void *address);

#endif
