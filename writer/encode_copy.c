/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "writer/trace.h"

/*
 * GPU work that is no kernel: copies, sets, whole graphs, decompressions; and
 * the arrow from a call to what it launched.
 */
static const char *const copy_kinds[] = {
	"Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA",
	"DtoD", "HtoH", "PtoP",
};

static const char *const memory_kinds[] = {
	"Unknown", "Pageable", "Pinned", "Device", "Array", "Managed",
	"Device Static", "Managed Static",
};

#define NR(table) (sizeof(table) / sizeof(*(table)))

static const char *memory_kind(uint32_t kind)
{
	return memory_kinds[kind < NR(memory_kinds) ? kind : 0];
}

void encode_arrow(struct trace *trace, const struct launch *launch,
		  const struct lane *lane, uint64_t t_ns)
{
	const struct call *call = launch->call;
	char *to;

	if (call)
		event_launched(trace, launch->before_launch_ns ? t_ns :
			       call->start_ns);
	if (!call || launch->before_launch_ns)
		return;
	to = bytes_room(&trace->out, 512);
	if (!to)
		return;
	trace->next_arrow++;
	to = json_put(to, JSON_ARROW_START);
	to = json_put_u64(to, trace->next_arrow);
	*to++ = ',';
	memcpy(to, call->lane->where, sizeof(call->lane->where));
	to = json_put(to + call->lane->where_len, JSON_TS);
	to = json_put_us(to, call->start_ns - trace->base_ns);
	to = json_put(to, JSON_END JSON_ARROW_END);
	to = json_put_u64(to, trace->next_arrow);
	*to++ = ',';
	memcpy(to, lane->where, sizeof(lane->where));
	to = json_put(to + lane->where_len, JSON_TS);
	to = json_put_us(to, t_ns - trace->base_ns);
	bytes_end(&trace->out, json_put(to, JSON_END));
	trace->nr_events += 2;
}

/* Begins the event of an operation, up to its correlation. */
static struct lane *begin(struct trace *trace, const struct gpu_op *op,
			  const char *cat, const char *name)
{
	struct lane *lane;

	lane = track_gpu(&trace->tracks, op->device, op->context, op->stream,
			 ROLE_WORK);
	lane = track_place(&trace->tracks, lane, 0, op->start_ns, op->end_ns);
	if (!lane)
		return NULL;
	event_begin(trace, cat, name, strlen(name), lane, op->start_ns,
		    op->end_ns);
	json_member_u64(&trace->out, "device", op->device);
	json_member_u64(&trace->out, "context", op->context);
	json_member_u64(&trace->out, "stream", op->stream);
	json_member_u64(&trace->out, "correlation", op->correlation);
	return lane;
}

static void finish(struct trace *trace, const struct gpu_op *op,
		   const struct launch *launch, const struct lane *lane)
{
	struct bytes *out = &trace->out;

	if (op->graph_id && op->graph_node_id) {
		json_member_u64(out, "graph id", op->graph_id);
		json_member_u64(out, "graph node id", op->graph_node_id);
	}
	if (op->channel_type) {
		json_member_u64(out, "channel", op->channel);
		json_member_u64(out, "channel_type", op->channel_type);
	}
	if (!launch->call) {
		json_key(out, "launch not traced");
		json_bool(out, true);
	} else if (launch->before_launch_ns) {
		json_member_u64(out, "before launch ns",
				launch->before_launch_ns);
	}
	if (launch->external_id)
		json_member_u64(out, "External id", launch->external_id);
	event_end(trace);
	encode_arrow(trace, launch, lane, op->start_ns);
}

/* Bytes per nanosecond are GB/s. */
static void add_bytes(struct trace *trace, const struct gpu_op *op,
		      uint64_t bytes)
{
	json_member_u64(&trace->out, "bytes", bytes);
	if (op->end_ns == op->start_ns)
		return;
	json_key(&trace->out, "memory bandwidth (GB/s)");
	json_ratio(&trace->out, bytes, op->end_ns - op->start_ns);
}

void encode_copy(struct trace *trace, const struct copy *copy,
		 const struct launch *launch)
{
	struct bytes *out = &trace->out;
	struct lane *lane;
	uint32_t kind = copy->copy_kind < NR(copy_kinds) ? copy->copy_kind : 0;
	char name[96];

	snprintf(name, sizeof(name), "Memcpy %s (%s -> %s)", copy_kinds[kind],
		 memory_kind(copy->src_kind), memory_kind(copy->dst_kind));
	lane = begin(trace, &copy->op, "gpu_memcpy", name);
	if (!lane)
		return;
	if (copy->is_peer) {
		json_member_u64(out, "fromDevice", copy->src_device);
		json_member_u64(out, "inDevice", copy->op.device);
		json_member_u64(out, "toDevice", copy->dst_device);
		json_member_u64(out, "fromContext", copy->src_context);
		json_member_u64(out, "inContext", copy->op.context);
		json_member_u64(out, "toContext", copy->dst_context);
	}
	add_bytes(trace, &copy->op, copy->bytes);
	if (copy->count > 1)
		json_member_u64(out, "copies", copy->count);
	json_member_u64(out, "async", copy->is_async);
	finish(trace, &copy->op, launch, lane);
}

void encode_set(struct trace *trace, const struct set *set,
		const struct launch *launch)
{
	struct lane *lane;
	char name[64];

	snprintf(name, sizeof(name), "Memset (%s)",
		 memory_kind(set->memory_kind));
	lane = begin(trace, &set->op, "gpu_memset", name);
	if (!lane)
		return;
	add_bytes(trace, &set->op, set->bytes);
	json_member_u64(&trace->out, "value", set->value);
	json_member_u64(&trace->out, "async", set->is_async);
	finish(trace, &set->op, launch, lane);
}

void encode_graph(struct trace *trace, const struct graph_launch *graph,
		  const struct launch *launch)
{
	struct lane *lane;
	char name[32];

	snprintf(name, sizeof(name), "CUDA graph %u", graph->op.graph_id);
	lane = begin(trace, &graph->op, "cuda_graph", name);
	if (!lane)
		return;
	json_member_u64(&trace->out, "graph id", graph->op.graph_id);
	finish(trace, &graph->op, launch, lane);
}

void encode_decompress(struct trace *trace, const struct decompress *work,
		       const struct launch *launch)
{
	struct lane *lane;

	/* The nearest of Kineto's categories: it fills memory. */
	lane = begin(trace, &work->op, "gpu_memcpy",
		     "Memcpy DtoD (Device -> Device)");
	if (!lane)
		return;
	add_bytes(trace, &work->op, work->bytes);
	json_member_u64(&trace->out, "decompressions", work->operations);
	finish(trace, &work->op, launch, lane);
}
