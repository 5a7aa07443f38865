/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_CONTROL_REPLY_H
#define GPUTRACE_INJECT_CONTROL_REPLY_H

#include "inject/control_work.h"
#include "writer/bytes.h"

/*
 * What the control socket answers: one JSON object, without its newline, in a
 * buffer that is emptied before.  Context: the socket's thread.
 */
void reply_error(struct bytes *out, const char *code, const char *why);

/* Of a start, and of a dump. */
void reply_started(struct bytes *out, const struct work *work);
void reply_dumped(struct bytes *out, const struct work *work);

/* Of a window whose file is complete, or never will be. */
void reply_window(struct bytes *out, uint32_t window,
		  const struct writer_result *result);

void reply_status(struct bytes *out);

#endif
