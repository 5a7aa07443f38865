/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CUPTI_KINDS_H
#define GPUTRACE_COLLECTOR_CUPTI_KINDS_H

#include <cupti.h>

#include "collector/cupti.h"

/*
 * Which kinds of activity are on.  One table says which setting wants which
 * kind, and whether tracing can go on without it.
 */
void cupti_kinds_select(const struct cupti_options *options);

/* Of these, what the next windows want; NULL: all.
 * Context: with CUPTI's control lock held (cupti.c). */
void cupti_kinds_choose(const struct cupti_choice *choice);

/* Turns the selected kinds on.  0 or -errno (said in a line). */
int cupti_kinds_enable(void);

/* All off at once: while kernels were on and API records off the heap of a
 * program with CUDA graphs was seen to grow, 50 bytes a kernel (CUPTI 13.0.1,
 * test/gpu/RESULTS.md).  That one comes from the other is not shown. */
void cupti_kinds_disable(void);

/* 0 for success; otherwise says in one line what is lost, why and what to
 * do, and returns -EPROTO. */
int cupti_kinds_explain(CUptiResult result, const char *lost);

#endif
