// SPDX-License-Identifier: MIT
/* Activity records to facts: what a record says, without its raw times. */
#include "test/sim/conf.h"

#include <stdio.h>
#include <string.h>

struct kind_name {
	unsigned int kind;
	const char *name;
};

#define KIND(k) { CUPTI_ACTIVITY_KIND_##k, #k }

const char *conf_kind(unsigned int kind)
{
	static const struct kind_name names[] = {
		KIND(MEMCPY), KIND(MEMSET), KIND(KERNEL), KIND(DRIVER),
		KIND(RUNTIME), KIND(DEVICE), KIND(CONTEXT),
		KIND(CONCURRENT_KERNEL), KIND(OVERHEAD), KIND(MEMCPY2),
		KIND(CUDA_EVENT), KIND(STREAM), KIND(SYNCHRONIZATION),
		KIND(EXTERNAL_CORRELATION), KIND(MEMORY2), KIND(MEMORY_POOL),
		KIND(GRAPH_TRACE), KIND(JIT), KIND(DEVICE_GRAPH_TRACE),
	};
	static char other[32];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].kind == kind)
			return names[i].name;
	snprintf(other, sizeof(other), "kind-%u", kind);
	return other;
}

const char *conf_cbid(unsigned int kind, unsigned int cbid)
{
	const char *name = NULL;
	CUpti_CallbackDomain domain = kind == CUPTI_ACTIVITY_KIND_DRIVER ?
		CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API;

	if (cupti.GetCallbackName(domain, cbid, &name) || !name)
		return "unnamed";
	return name;
}

/* Correlation ids and the like as letters, by first appearance. */
struct letters {
	uint64_t seen[26];
	int count;
};

static const char *letter(struct letters *l, uint64_t id)
{
	static char text[8][2];
	static int turn;
	int i;

	if (!id)
		return "0";
	for (i = 0; i < l->count && l->seen[i] != id; i++)
		;
	if (i == 26)
		return "?";
	if (i == l->count)
		l->seen[l->count++] = id;
	turn = (turn + 1) % 8;
	text[turn][0] = (char)('A' + i);
	return text[turn];
}

struct print_state {
	struct letters corr, node, graph, sync;
	uint64_t from, to;
};

static const char *place(const struct print_state *p, uint64_t start,
			 uint64_t end)
{
	if (!start && !end)
		return "none";
	if (end < start)
		return "reversed";
	return start >= p->from && end <= p->to ? "inside" : "outside";
}

static const struct conf_record *api_of(const struct conf_record *r)
{
	for (unsigned int i = 0; i < conf_record_count; i++) {
		const struct conf_record *a = &conf_records[i];

		if (a->corr == r->corr &&
		    (a->kind == CUPTI_ACTIVITY_KIND_DRIVER ||
		     a->kind == CUPTI_ACTIVITY_KIND_RUNTIME))
			return a;
	}
	return NULL;
}

static const char *after_api(const struct conf_record *r)
{
	const struct conf_record *a = api_of(r);

	if (!a)
		return "no-api";
	return r->start >= a->start ? "yes" : "no";
}

static int print_gpu(char *out, size_t size, struct print_state *p,
		     const struct conf_record *r)
{
	return snprintf(out, size, " stream=%u ctx=%u graph=%s node=%s "
			"channel=%u times=%s after_api=%s", r->stream, r->ctx,
			letter(&p->graph, r->graph), letter(&p->node, r->node),
			r->channel, place(p, r->start, r->end), after_api(r));
}

static void print_kernel(char *out, size_t size, const struct conf_record *r)
{
	snprintf(out, size, " %s grid=%d,%d,%d block=%d,%d,%d smem=%u "
		 "cluster=%u,%u,%u launch=%u completed=%s queued=%s "
		 "submitted=%s", r->name ? r->name : "(null)", r->grid[0],
		 r->grid[1], r->grid[2], r->block[0], r->block[1], r->block[2],
		 r->dynamic_smem, r->cluster[0], r->cluster[1], r->cluster[2],
		 r->launch_type, !r->completed ? "0" :
		 r->completed == r->end ? "end" : "other",
		 r->queued ? "set" : "0", r->submitted ? "set" : "0");
}

static void print_detail(char *out, size_t size, struct print_state *p,
			 const struct conf_record *r)
{
	int n = 0;

	switch (r->kind) {
	case CUPTI_ACTIVITY_KIND_DRIVER:
	case CUPTI_ACTIVITY_KIND_RUNTIME:
		snprintf(out, size, " %s ret=%u times=%s",
			 conf_cbid(r->kind, r->cbid), r->ret,
			 place(p, r->start, r->end));
		break;
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
	case CUPTI_ACTIVITY_KIND_KERNEL:
		n = print_gpu(out, size, p, r);
		print_kernel(out + n, size - (size_t)n, r);
		break;
	case CUPTI_ACTIVITY_KIND_MEMCPY:
	case CUPTI_ACTIVITY_KIND_MEMCPY2:
		n = print_gpu(out, size, p, r);
		snprintf(out + n, size - (size_t)n, " copy=%u src=%u dst=%u "
			 "flags=%u bytes=%llu count=%u", r->copy, r->src,
			 r->dst, r->flags, (unsigned long long)r->bytes,
			 r->type);
		break;
	case CUPTI_ACTIVITY_KIND_MEMSET:
		n = print_gpu(out, size, p, r);
		snprintf(out + n, size - (size_t)n, " memory=%u flags=%u "
			 "bytes=%llu value=%u", r->dst, r->flags,
			 (unsigned long long)r->bytes, r->type);
		break;
	case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
		snprintf(out, size, " type=%u stream=%#x ctx=%u event=%#x "
			 "sync_id=%s ret=%u times=%s after_api=%s", r->type,
			 r->stream, r->ctx, r->event,
			 letter(&p->sync, r->sync_id), r->ret,
			 place(p, r->start, r->end), after_api(r));
		break;
	case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
		snprintf(out, size, " event=%#x stream=%u ctx=%u device=%u "
			 "sync_id=%s device_time=%s", r->event, r->stream,
			 r->ctx, r->device, letter(&p->sync, r->sync_id),
			 r->start ? "set" : "0");
		break;
	case CUPTI_ACTIVITY_KIND_STREAM:
		snprintf(out, size, " stream=%u ctx=%u priority=%d flag=%u",
			 r->stream, r->ctx, (int)r->priority, r->flags);
		break;
	case CUPTI_ACTIVITY_KIND_CONTEXT:
		snprintf(out, size, " ctx=%u device=%u api=%u null=%u parent=%u"
			 " green=%u", r->ctx, r->device, r->type, r->stream,
			 r->src, r->flags);
		break;
	case CUPTI_ACTIVITY_KIND_DEVICE:
		snprintf(out, size, " device=%u visible=%u mig=%u", r->device,
			 r->flags, r->src);
		break;
	case CUPTI_ACTIVITY_KIND_MEMORY2:
		snprintf(out, size, " operation=%u memory=%u bytes=%llu "
			 "ctx=%#x stream=%#x async=%u pool=%u name=%s", r->type,
			 r->dst, (unsigned long long)r->bytes, r->ctx,
			 r->stream, r->flags, r->src, r->name ? r->name : "-");
		break;
	case CUPTI_ACTIVITY_KIND_MEMORY_POOL:
		snprintf(out, size, " operation=%u type=%u device=%u", r->type,
			 r->src, r->device);
		break;
	case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
		snprintf(out, size, " stream=%u ctx=%u graph=%s times=%s "
			 "after_api=%s", r->stream, r->ctx,
			 letter(&p->graph, r->graph), place(p, r->start, r->end),
			 after_api(r));
		break;
	case CUPTI_ACTIVITY_KIND_OVERHEAD:
		snprintf(out, size, " kind=%#x object=%u times=%s", r->type,
			 r->src, place(p, r->start, r->end));
		break;
	case CUPTI_ACTIVITY_KIND_JIT:
		snprintf(out, size, " operation=%u entry=%u times=%s", r->type,
			 r->src, place(p, r->start, r->end));
		break;
	case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
		snprintf(out, size, " kind=%u id=%llu", r->type,
			 (unsigned long long)r->bytes);
		break;
	}
}

/*
 * CUPTI may hand over several buffers; the records of one thread stay in
 * their order, and these experiments launch from one thread.
 */
void conf_print_records(const char *prefix, uint64_t from, uint64_t to)
{
	struct print_state p = { .from = from, .to = to };
	char key[96], text[512];

	for (unsigned int i = 0; i < conf_record_count && i < 40; i++) {
		const struct conf_record *r = &conf_records[i];

		text[0] = 0;
		print_detail(text, sizeof(text), &p, r);
		snprintf(key, sizeof(key), "%s%u", prefix, i);
		fact(key, "%s corr=%s%s", conf_kind(r->kind),
		     letter(&p.corr, r->corr), text);
	}
	fact("records", "%u", conf_record_count);
}
