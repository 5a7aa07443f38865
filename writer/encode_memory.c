/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "writer/trace.h"

/*
 * Allocations, memory pools and unified memory: counters, in processes of
 * their own so that they stand below everything else.
 */
enum { ALLOCATION = 1, RELEASE = 2 };

static uint32_t counters_pid(uint32_t device)
{
	return device < 255 ? TRACK_GPU_COUNTERS_PID + device :
		TRACK_COUNTERS_PID;
}

void encode_memory(struct trace *trace, const struct memory_op *op)
{
	/* CUPTI: 1 pageable, 2 pinned, 3 device, 4 array, 5 managed,
	 * 6 device static, 7 managed static */
	static const char *const names[] = {
		"other", "pageable", "pinned", "device", "array", "managed",
		"device static", "managed static",
	};
	uint32_t kind = op->memory_kind < 8 ? op->memory_kind : 0;
	uint32_t device = op->device < 64 ? op->device : 64;
	uint64_t *held = &trace->allocated[device][kind];
	uint32_t pid = kind == 1 || kind == 2 ? TRACK_COUNTERS_PID :
		counters_pid(op->device);
	char name[64];

	if (!event_times(trace, op->t_ns, op->t_ns))
		return;
	if (op->operation == ALLOCATION)
		*held += op->bytes;
	else if (op->operation == RELEASE)      /* perhaps from before us */
		*held -= op->bytes < *held ? op->bytes : *held;
	snprintf(name, sizeof(name), "allocated %s memory", names[kind]);
	event_counter(trace, pid, name, op->t_ns, "bytes", *held);
	if (op->pool_type) {
		snprintf(name, sizeof(name), "pool %#llx",
			 (unsigned long long)op->pool_address);
		event_counter(trace, pid, name, op->t_ns, "used bytes",
			      op->pool_used);
	}
}

void encode_pool(struct trace *trace, const struct pool_op *op)
{
	char name[64];

	if (!event_times(trace, op->t_ns, op->t_ns))
		return;
	snprintf(name, sizeof(name), "pool %#llx",
		 (unsigned long long)op->address);
	event_counter(trace, counters_pid(op->device), name, op->t_ns,
		      "used bytes", op->used);
	event_counter(trace, counters_pid(op->device), name, op->t_ns,
		      "size bytes", op->size);
}

void encode_unified(struct trace *trace, const struct unified_memory *um)
{
	static const struct {
		const char *name, *key;
		bool is_sum;
	} counters[] = {
		{ "unified memory", "value", false },
		{ "unified memory HtoD", "bytes", false },
		{ "unified memory DtoH", "bytes", false },
		{ "unified memory CPU page faults", "faults", true },
		{ "unified memory GPU page faults", "faults", false },
		{ "unified memory thrashing", "events", true },
		{ "unified memory throttling", "events", true },
		{ "unified memory remote map", "events", true },
		{ "unified memory DtoD", "bytes", false },
	};
	uint32_t kind = um->counter < 9 ? um->counter : 0;
	/* The GPU's side of a migration, or of a fault. */
	uint32_t device = kind == 1 ? um->dst : um->src;

	if (!event_times(trace, um->start_ns, um->start_ns))
		return;
	/* A total since the start: its slope is the rate. */
	trace->unified[kind] += counters[kind].is_sum ? 1 : um->value;
	event_counter(trace, counters_pid(device), counters[kind].name,
		      um->start_ns, counters[kind].key, trace->unified[kind]);
}
