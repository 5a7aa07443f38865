/* SPDX-License-Identifier: MIT */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "collector/loss.h"
#include "collector/nvtx.h"
#include "writer/trace.h"

/*
 * NVTX: ranges on the CPU (user_annotation), what they did on the GPU
 * (gpu_user_annotation), and marks.
 */
static void add_payload(struct bytes *out, uint8_t type, uint64_t bits)
{
	union {
		uint64_t bits;
		double d;
		float f;
		int64_t i;
		int32_t i32;
		uint32_t u32;
	} payload = { .bits = bits };

	if (type == PAYLOAD_NONE || type > PAYLOAD_FLOAT)
		return;
	json_key(out, "payload");
	if (type == PAYLOAD_DOUBLE)
		json_double(out, payload.d);
	else if (type == PAYLOAD_FLOAT)
		json_double(out, (double)payload.f);
	else if (type == PAYLOAD_I64)
		json_i64(out, payload.i);
	else if (type == PAYLOAD_I32)
		json_i64(out, payload.i32);
	else if (type == PAYLOAD_U32)
		json_u64(out, payload.u32);
	else
		json_u64(out, bits);
}

/* The name that the program gave the number, or the number. */
static void add_category(struct bytes *out, const struct nvtx_domain *domain,
			 uint32_t id)
{
	const struct nvtx_text *name;

	if (!id)
		return;
	if (!domain)
		domain = nvtx_default_domain();
	name = atomic_load_explicit(&domain->categories,
				    memory_order_acquire);
	while (name && name->id != id)
		name = name->next;
	json_key(out, "category");
	if (name)
		json_string(out, name->text, name->len);
	else
		json_u64(out, id);
}

static void add_domain(struct bytes *out, const struct nvtx_domain *domain)
{
	if (!domain || !domain->len)
		return;
	json_key(out, "domain");
	json_string(out, domain->name, domain->len);
}

static void add_color(struct bytes *out, uint32_t flags, uint32_t color)
{
	char text[16];

	if (!(flags & RECORD_HAS_COLOR))
		return;
	snprintf(text, sizeof(text), "#%08x", color);
	json_member_text(out, "color", text);
}

/* The program's name was longer than what is kept of one. */
static void add_cut(struct bytes *out, uint32_t flags,
		    const struct nvtx_text *string)
{
	if (!(flags & RECORD_CUT) && !(string && string->is_cut))
		return;
	json_key(out, "name cut");
	json_bool(out, true);
}

static void add_attributes(struct bytes *out, const struct node *node)
{
	add_domain(out, node->domain);
	add_category(out, node->domain, node->category);
	add_color(out, node->record_flags, node->color);
	add_payload(out, node->payload_type, node->payload);
	add_cut(out, node->record_flags, node->string);
}

static struct lane *lane_of(struct trace *trace, const struct node *node,
			    uint64_t end_ns)
{
	struct lane *lane = node->thread->lane;

	if (node->flags & NODE_STARTED)
		lane = track_own(&trace->tracks, ROLE_STARTED);
	else if (node->flags & NODE_CROSSES)
		lane = track_more(&trace->tracks, lane);
	else
		return lane;
	return track_place(&trace->tracks, lane, ++trace->batch,
			   node->start_ns, end_ns);
}

static void write_range(struct trace *trace, const struct node *node,
			struct lane *lane, uint64_t end_ns, bool is_open)
{
	const char *name;
	uint32_t len;

	name = range_name(node, &len);
	event_begin(trace, node->domain && node->domain->cat ?
		    node->domain->cat : "user_annotation", name, len, lane,
		    node->start_ns, end_ns);
	if (node->external_id)
		json_member_u64(&trace->out, "External id", node->external_id);
	add_attributes(&trace->out, node);
	if (node->args_len)
		json_members(&trace->out, node->text + node->text_len,
			     node->args_len);
	if (is_open) {
		json_key(&trace->out, "open");
		json_bool(&trace->out, true);
	}
	event_end(trace);
}

void encode_range(struct trace *trace, const struct node *node)
{
	struct lane *lane;

	if (!event_times(trace, node->start_ns, node->end_ns))
		return;
	lane = lane_of(trace, node, node->end_ns);
	if (lane == node->thread->lane)
		cpu_thread_stands(node->thread, node->start_ns, node->end_ns);
	if (lane)
		write_range(trace, node, lane, node->end_ns,
			    node->flags & NODE_CUT_OPEN);
}

static int by_start(const void *a, const void *b, void *nodes)
{
	const struct node *x = (struct node *)nodes + *(const uint32_t *)a;
	const struct node *y = (struct node *)nodes + *(const uint32_t *)b;

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* Open start/end ranges have lanes of their own, which are empty again at
 * each write-out; all end now, so by start they nest. */
static void write_open_started(struct trace *trace, uint64_t now_ns)
{
	struct ranges *ranges = &trace->ranges;
	struct lane *first = NULL, *lane;
	uint64_t end_ns;
	bool is_open;
	uint32_t i;

	if (ranges->nr_started)
		first = track_own(&trace->tracks, ROLE_STARTED_OPEN);
	for (lane = first; lane; lane = lane->more)
		nest_fini(&lane->nest);
	if (ranges->nr_started)
		qsort_r(ranges->open_started, ranges->nr_started,
			sizeof(uint32_t), by_start, ranges->nodes);
	trace->batch++;
	for (i = 0; i < ranges->nr_started; i++) {
		struct node *node = &ranges->nodes[ranges->open_started[i]];

		if (node->start_ns > now_ns)
			continue;
		is_open = !(node->flags & NODE_ENDING);
		end_ns = is_open ? now_ns : node->end_ns;
		lane = track_place(&trace->tracks, first, trace->batch,
				   node->start_ns, end_ns);
		if (lane)
			write_range(trace, node, lane, end_ns, is_open);
	}
}

/* They will be written again, longer, or closed. */
void encode_open_ranges(struct trace *trace, struct bytes *tail,
			uint64_t now_ns)
{
	struct bytes out = trace->out;
	uint64_t nr_events = trace->nr_events;
	const struct node *node;
	uint64_t end_ns;
	bool is_running;
	uint32_t i;

	trace->out = *tail;
	for (i = 1; i < trace->ranges.nr; i++) {
		node = &trace->ranges.nodes[i];
		if (!node->thread || node->end_ns != RANGE_OPEN ||
		    node->flags & NODE_STARTED || node->start_ns > now_ns)
			continue;
		end_ns = node->thread->latest.end_ns;
		end_ns = range_open_end(&trace->ranges, node, end_ns > now_ns ?
					end_ns : now_ns, &is_running);
		write_range(trace, node, node->thread->lane, end_ns,
			    is_running);
	}
	write_open_started(trace, now_ns);
	*tail = trace->out;
	trace->out = out;
	trace->nr_events = nr_events;
}

void encode_mark(struct trace *trace, struct cpu_thread *thread,
		 const struct range_record *record)
{
	const struct nvtx_text *string = record->string;
	struct bytes *out = &trace->out;
	struct record_text text;

	if (!event_times(trace, record->head.t_ns, record->head.t_ns))
		return;
	text = payload_of_record(record, &trace->scratch);
	event_instant_begin(trace, string ? string->text : text.name,
			    string ? string->len : text.name_len,
			    thread->lane, record->head.t_ns);
	add_domain(out, record->domain);
	add_category(out, record->domain, record->category);
	add_color(out, record->flags, record->color);
	add_payload(out, record->payload_type, record->payload);
	add_cut(out, record->flags, string);
	if (text.args_len)
		json_members(out, text.args, text.args_len);
	event_end(trace);
}

static void write_projection(struct trace *trace, const struct node *node,
			     const struct projection *at)
{
	struct bytes *out = &trace->out;
	struct lane *lane;
	const char *name;
	uint32_t len;

	lane = track_gpu(&trace->tracks, at->device, at->context, at->stream,
			 ROLE_RANGES);
	lane = track_place(&trace->tracks, lane, trace->batch, at->start_ns,
			   at->end_ns);
	if (!lane)
		return;
	name = range_name(node, &len);
	event_begin(trace, "gpu_user_annotation", name, len, lane,
		    at->start_ns, at->end_ns);
	json_member_u64(out, "device", at->device);
	json_member_u64(out, "context", at->context);
	/* No args.stream: HTA would count the range as GPU work. */
	json_member_u64(out, "GPU operations", at->nr_ops);
	add_attributes(out, node);
	event_end(trace);
}

/* A projection in the order in which they must stand on a lane. */
struct order {
	const struct projection *at;
	const struct node *node;
};

static int compare(const void *a, const void *b)
{
	const struct order *x = a, *y = b;

	if (x->at->start_ns != y->at->start_ns)
		return x->at->start_ns < y->at->start_ns ? -1 : 1;
	if (x->at->end_ns != y->at->end_ns)
		return x->at->end_ns > y->at->end_ns ? -1 : 1;
	if (x->node->depth != y->node->depth)
		return x->node->depth < y->node->depth ? -1 : 1;
	return x->node->start_ns < y->node->start_ns ? -1 :
	       x->node->start_ns > y->node->start_ns;
}

void encode_projections(struct trace *trace, bool everything)
{
	struct ranges *ranges = &trace->ranges;
	const struct projection *at;
	struct bytes orders = { 0 };
	const uint32_t *list;
	uint32_t nr, i;
	size_t nr_orders;

	nr = ranges_collect(ranges, everything, clock_now_ns(), &list);
	for (i = 0; i < nr; i++) {
		const struct node *node = &ranges->nodes[list[i]];

		if (node->flags & NODE_PARTIAL) {
			loss_add(LOSS_TABLE_FULL, 1);
			continue;
		}
		for (at = node->projections; at; at = at->next) {
			struct order order = { at, node };

			bytes_add(&orders, &order, sizeof(order));
		}
	}
	if (orders.is_cut)
		loss_add(LOSS_TABLE_FULL, 1);
	nr_orders = orders.len / sizeof(struct order);
	if (nr_orders)
		qsort(orders.data, nr_orders, sizeof(struct order), compare);
	trace->batch++;
	for (i = 0; i < nr_orders; i++) {
		const struct order *order =
			(const struct order *)(void *)orders.data + i;

		write_projection(trace, order->node, order->at);
	}
	bytes_fini(&orders);
	ranges_sweep(ranges, &trace->threads);
}
