/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_STACK_FILL_H
#define GPUTRACE_COLLECTOR_STACK_FILL_H

#include "collector/record.h"
#include "collector/unwind.h"

/* The most that a stack needs. */
#define STACK_RECORD_MAX \
	(sizeof(struct stack_record) + STACK_PCS_MAX * 8 + RECORD_TEXT_MAX)

/* Fills a stack record, of STACK_RECORD_MAX bytes, with the frame's callers
 * and the thread's Python frames; the rest is the caller's.  Returns the bytes
 * that it needs.  Context: the thread itself, signal-safe; errno may change. */
uint32_t stack_fill(struct stack_record *record, struct unwind_frame *frame);

#endif
