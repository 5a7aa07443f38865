/* SPDX-License-Identifier: MIT */
#include "collector/client.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "collector/clock.h"

/* torch.profiler asks for its buffers right after it has turned its kinds
 * off; one that does so later than this has given them up. */
#define PATIENCE_NS 1000000000u

#define NR_KINDS 64             /* CUPTI_ACTIVITY_KIND_COUNT is 57 in 13.0 */

/* The attributes that we set, too: one byte each. */
static const CUpti_ActivityAttribute shared[] = {
	CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER,
	CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER,
};

#define NR_SHARED (sizeof shared / sizeof *shared)
#define NOT_SET 256

static _Atomic(CUpti_BuffersCallbackRequestFunc) request;
static _Atomic(CUpti_BuffersCallbackCompleteFunc) complete;
static _Atomic uint64_t kinds, last_call_ns;
static _Atomic uint32_t nr_outstanding, nr_calling, is_unrouted;
static _Atomic pid_t tid_in_callback;
static _Atomic uint32_t values[NR_SHARED] = { NOT_SET, NOT_SET };

static pid_t own_tid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

void client_calls(void)
{
	atomic_store(&last_call_ns, clock_now_ns());
}

void client_begins(void)
{
	client_calls();
	atomic_fetch_add(&nr_calling, 1);
}

void client_has_called(void)
{
	client_calls();
	atomic_fetch_sub(&nr_calling, 1);
}

void client_registers(const struct client_callbacks *callbacks)
{
	client_calls();
	atomic_store(&request, callbacks->request);
	atomic_store(&complete, callbacks->complete);
}

void client_enables(CUpti_ActivityKind kind)
{
	client_calls();
	if ((unsigned int)kind < NR_KINDS)
		atomic_fetch_or(&kinds, UINT64_C(1) << kind);
}

void client_disables(CUpti_ActivityKind kind)
{
	client_calls();
	if ((unsigned int)kind < NR_KINDS)
		atomic_fetch_and(&kinds, ~(UINT64_C(1) << kind));
}

void client_ends(void)
{
	client_calls();
	atomic_store(&kinds, 0);
	atomic_store(&nr_outstanding, 0);
	client_was_flushed();
}

bool client_is_busy(void)
{
	return atomic_load(&kinds) != 0;
}

bool client_has_enabled(CUpti_ActivityKind kind)
{
	return (unsigned int)kind < NR_KINDS &&
		atomic_load(&kinds) >> kind & 1;
}

bool client_may_be_left(void)
{
	return !client_is_busy() && !atomic_load(&nr_calling) &&
		atomic_load(&tid_in_callback) != own_tid();
}

bool client_is_done(void)
{
	return client_may_be_left() && !client_holds_buffers();
}

bool client_is_idle(void)
{
	return client_may_be_left() &&
		clock_now_ns() > atomic_load(&last_call_ns) + PATIENCE_NS;
}

bool client_holds_buffers(void)
{
	return atomic_load(&nr_outstanding) || atomic_load(&is_unrouted);
}

void client_is_past_us(void)
{
	atomic_store(&is_unrouted, 1);
}

void client_was_flushed(void)
{
	atomic_store(&is_unrouted, 0);
}

bool client_keeps_attribute(CUpti_ActivityAttribute attribute, size_t size,
			    const void *value)
{
	for (size_t i = 0; i < NR_SHARED; i++) {
		if (shared[i] != attribute || !size)
			continue;
		atomic_store(&values[i], *(const uint8_t *)value);
		return true;
	}
	return false;
}

uint8_t client_attribute(CUpti_ActivityAttribute attribute, uint8_t fallback)
{
	for (size_t i = 0; i < NR_SHARED; i++)
		if (shared[i] == attribute &&
		    atomic_load(&values[i]) != NOT_SET)
			return (uint8_t)atomic_load(&values[i]);
	return fallback;
}

bool client_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
	CUpti_BuffersCallbackRequestFunc call = atomic_load(&request);

	if (!call)
		return false;
	atomic_store(&tid_in_callback, own_tid());
	call(buffer, size, max_records);
	atomic_store(&tid_in_callback, 0);
	if (*buffer)
		atomic_fetch_add(&nr_outstanding, 1);
	return true;
}

bool client_complete(CUcontext context, uint32_t stream, uint8_t *buffer,
		     size_t size, size_t valid)
{
	CUpti_BuffersCallbackCompleteFunc call = atomic_load(&complete);
	uint32_t nr = atomic_load(&nr_outstanding);

	if (!call)
		return false;
	atomic_store(&tid_in_callback, own_tid());
	call(context, stream, buffer, size, valid);
	atomic_store(&tid_in_callback, 0);
	/* One from before a cuptiFinalize is not counted any more. */
	while (nr && !atomic_compare_exchange_weak(&nr_outstanding, &nr,
						   nr - 1))
		;
	return true;
}
