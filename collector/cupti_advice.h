/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CUPTI_ADVICE_H
#define GPUTRACE_COLLECTOR_CUPTI_ADVICE_H

#include <stddef.h>
#include <stdint.h>

#include <cupti.h>

/*
 * Why CUPTI refuses, and what helps: the pairs of things that do not go
 * together (versions, stubs, copies, other tools, GPUs), each in one line that
 * names both and says what to install or to set.
 */

/* The advice for a result; asks CUPTI who holds it where it tells (13.0).
 * Context: attach, or a start; not on the program's hot path. */
void cupti_advice(CUptiResult reason, char *text, size_t size);

/* Says once in a line when this CUPTI does not know the GPU's compute
 * capability: it would record nothing.  Context: writer thread. */
void cupti_advice_device(uint32_t major, uint32_t minor);

#endif
