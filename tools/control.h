/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_CONTROL_H
#define GPUTRACE_TOOLS_CONTROL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/json.h"
#include "tools/target.h"

/*
 * The client's end of a control socket (inject/protocol.h).  What answers is
 * not to be trusted: it must be the process that was meant, its texts are made
 * plain, and nothing of it is without a bound.
 */
enum { CONTROL_REPLY_MAX = 64 << 10 };

struct control {
	int fd;                         /* -1: closed */
	long pid;
	size_t len;
	char in[CONTROL_REPLY_MAX + JSON_PAD];
};

/* An answer; what it does not have is 0 or "". */
struct control_reply {
	bool ok;
	char code[16], error[1024];     /* unless ok */
	char path[PATH_MAX];            /* as the process sees it; any bytes */
	char state[16], version[32], start[256];
	int64_t window, started_ns, windows, opened_ns;
	int64_t kernels, events, bytes, lost, span_ns, unfinished;
};

/* Connects; as root in the process's own user, who it is there whatever its
 * user namespace.  0, or -errno with a sentence in `why` that says what to do
 * where there is no socket.  control_close() in every case. */
int control_open(struct control *c, const struct look *machine,
		 const struct target *t, char *why, size_t why_size);
void control_close(struct control *c);

/* A line without its newline, with a descriptor unless passed is -1.
 * 0 or -errno. */
int control_send(struct control *c, const char *line, int passed);

/* Waits so long for an answer; with 0 ms it only looks.  0; or, in words too,
 * -ETIMEDOUT; -ECONNRESET: the process has ended; -EBADMSG: that is no answer;
 * -EPROTO: the answer is an error; another -errno. */
int control_answer(struct control *c, int timeout_ms,
		   struct control_reply *reply, char *why, size_t why_size);

/* Sends and waits. */
int control_ask(struct control *c, const char *line, int passed,
		int timeout_ms, struct control_reply *reply, char *why,
		size_t why_size);

/* "key=" and the value as a line may hold it (%XX); false: no room. */
bool control_add(char *line, size_t size, const char *key, const char *value);

/* For target_read() and targets_find(). */
target_ask control_ask_state;

#endif
