/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_SOURCES_H
#define GPUTRACE_INJECT_SOURCES_H

#include <stdint.h>

#include "collector/source.h"

/*
 * The sources beside CUPTI and NVTX, all together; which is which, the SOURCE_
 * bits of settings.h say.  A source is armed before its first window; where
 * that fails it is left out from then on.
 *
 * Context: capture.c's, one at a time; close also at the end of the process;
 * forget: the atfork child.
 */
void sources_prepare(const struct source_options *options);
void sources_open(uint64_t wanted);
void sources_close(void);
void sources_forget(void);

#endif
