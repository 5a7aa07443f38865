/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_CONTROL_PARSE_H
#define GPUTRACE_INJECT_CONTROL_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A line of the control socket: text in, request out.  It allocates nothing
 * and asks the system for nothing.
 */
enum request_verb {
	REQUEST_START, REQUEST_WAIT, REQUEST_STOP, REQUEST_STATUS,
	REQUEST_DUMP,
};

struct request {
	enum request_verb verb;
	uint64_t duration_ns;           /* 0: none */
	uint64_t sources;               /* SOURCE_ bits; 0: as GPUTRACE_TRACE */
	uint64_t at_ns;                 /* CLOCK_REALTIME; 0: now */
	uint32_t window;                /* of wait; never 0 there */
	bool has_fd, is_gz;
	char path[4096];                /* decoded, not yet looked at; or "" */
};

/* The line has no newline.  NULL; or the code of the error (protocol.h) with
 * a sentence in `why`, that holds nothing of the line but what is printable.
 * Context: any. */
const char *request_parse(const char *line, size_t len,
			  struct request *request, char *why, size_t why_size);

#endif
