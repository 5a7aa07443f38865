/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_SAMPLER_H
#define GPUTRACE_COLLECTOR_SAMPLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A thread of ours that is alive while a window is open, for a source that
 * looks at something again and again:
 *
 *	open --> record(): while (sampler_wait(...)) look  --> close
 *
 * It has descriptors of its own where the system allows that, unless
 * shares_files.
 */
struct sampler {
	const char *name;               /* of the thread: 15 characters */
	void (*record)(struct sampler *sampler);
	bool shares_files;              /* its descriptors are the program's */
	_Atomic uint32_t turn;          /* odd: a window is open */
	_Atomic uint32_t turn_done;     /* all up to that one is written */
	_Atomic uint32_t is_alive;
	uint32_t turn_now;              /* the thread's */
	_Atomic uint64_t closed_ns;     /* when the window ended */
};

/* As in struct source.  close() waits until record() says that all is written,
 * 0.3 s at most; what is not by then is missing, and that is said. */
void sampler_open(struct sampler *sampler);
void sampler_close(struct sampler *sampler);
void sampler_forget(struct sampler *sampler);

/* Sleeps for so long, or until the window is over: then false.
 * Context: record(). */
bool sampler_wait(struct sampler *sampler, uint64_t ns);

/* When the window ended; after sampler_wait() has said so. */
uint64_t sampler_end_ns(const struct sampler *sampler);

/* All is written; what is still done need not be waited for. */
void sampler_done(struct sampler *sampler);

#endif
