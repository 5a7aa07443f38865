/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_CONTROL_CHOOSE_H
#define GPUTRACE_TOOLS_CONTROL_CHOOSE_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/control.h"
#include "tools/options.h"

/*
 * What start, stop, status, capture and dump have in common: which processes,
 * and when.
 */
struct chosen {
	struct look machine;
	struct targets found;
	struct control *control;        /* one each, open */
	int status;                     /* of those that were named and cannot
					 * be reached */
};

/* What is chosen by: the operands, which are PIDs, or these. */
struct choice {
	bool all;                       /* that can be reached */
	const char *match;              /* of those, the ones that match */
	bool all_or_none;               /* of those that are named */
	const char *out;                /* a file's name, which must differ for
					 * each; NULL: none is made */
};

/* Opens the sockets; one that cannot be reached is said.  A status of
 * gputrace.h.  chosen_fini() in every case. */
int control_choose(const struct options *o, const struct choice *choice,
		   struct chosen *chosen);
void chosen_fini(struct chosen *chosen);

/* All of a verb whose options are --out and CONTROL_SPECS, in this order: run()
 * with what was chosen, and FILE or NULL.  A status of gputrace.h. */
int control_verb(struct options *o,
		 int (*run)(struct chosen *chosen, const char *out));

/* "5s"; false, said: it is none. */
bool control_duration(const struct options *o, const char *text,
		      uint64_t *ns);

/* "cuda,nvtx", as in GPUTRACE_TRACE; false, said: it is not. */
bool control_trace(const struct options *o, const char *list);

/* "+2s", "12:30", "12:30:05" (the next one, of the local time),
 * "2026-11-30T12:30:05" (UTC), or seconds since 1970, also with a fraction.
 * One that has passed is said.  False, said: it is none. */
bool control_at(const struct options *o, const char *text, uint64_t *at_ns);

/* The last rows of each command's options. */
#define CONTROL_SPECS \
	{ "all", 'a', NULL, "all processes that can be reached" }, \
	{ "match", 'm', "GLOB", "all whose program, or a word of the command,\n" \
		"matches" }

/* CLOCK_REALTIME. */
uint64_t control_now_ns(void);

/* Several processes begin at one moment, that far ahead. */
#define CONTROL_AHEAD_NS UINT64_C(200000000)

#endif
