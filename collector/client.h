/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CLIENT_H
#define GPUTRACE_COLLECTOR_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cupti.h>

/*
 * Another client of CUPTI in this process: torch.profiler, or a profiler that
 * the program brings along.  CUPTI has one pair of buffer callbacks, one set
 * of kinds and one clock for all of its clients.  What the other one wants of
 * these is kept here; CUPTI itself only ever knows our pair of callbacks,
 * which hand each buffer to whom it belongs:
 *
 *   requested  while we stand aside (cupti.h)      the client's
 *   completed  memory of our pool                  ours
 *              other memory                        the client's
 *
 * One other client: with two of them, the last to register has it all, as it
 * is without us.
 */
struct client_callbacks {
	CUpti_BuffersCallbackRequestFunc request;
	CUpti_BuffersCallbackCompleteFunc complete;
};

/* It calls CUPTI; it is in a call that may turn something on; out of it.
 * Context: the client's thread. */
void client_calls(void);
void client_begins(void);
void client_has_called(void);

/* Something is on for it while CUPTI knows its callbacks and not ours: buffers
 * that we cannot count, until a forced flush. */
void client_is_past_us(void);
void client_was_flushed(void);

/* Its calls have succeeded: what it wants.
 * Context: the client's thread. */
void client_registers(const struct client_callbacks *callbacks);
void client_enables(CUpti_ActivityKind kind);
void client_disables(CUpti_ActivityKind kind);
void client_ends(void);                 /* cuptiFinalize */

/* Some kind is on for it.  Context, also of those that follow: any thread. */
bool client_is_busy(void);

bool client_has_enabled(CUpti_ActivityKind kind);

/* Nothing is on for it, or about to be, and this is no callback of its. */
bool client_may_be_left(void);

/* And it has its buffers back. */
bool client_is_done(void);

/* Nothing is on for it, and it has not called for a second: what CUPTI still
 * holds of it, it will not ask for. */
bool client_is_idle(void);

/* CUPTI holds buffers of it, or may. */
bool client_holds_buffers(void);

/* Attributes that we set too are not passed on while we record: they are
 * applied when the client's turn comes.  False: not one of them.
 * Context: the client's thread. */
bool client_keeps_attribute(CUpti_ActivityAttribute attribute, size_t size,
			    const void *value);
/* As the client set it, or `fallback`.  Context: any thread. */
uint8_t client_attribute(CUpti_ActivityAttribute attribute, uint8_t fallback);

/* False: the client has no callbacks.  Context: inside CUPTI's
 * callbacks. */
bool client_request(uint8_t **buffer, size_t *size, size_t *max_records);
bool client_complete(CUcontext context, uint32_t stream, uint8_t *buffer,
		     size_t size, size_t valid);

#endif
