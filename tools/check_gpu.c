/* SPDX-License-Identifier: MIT */
#include "tools/check.h"

#include <inttypes.h>
#include <string.h>

#include "tools/jsonval.h"

/* The launch calls that HTA knows. */
static bool is_launch(const struct json_value *name)
{
	static const char *const launches[] = {
		"cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel",
		"cuLaunchKernelEx", "cudaMemcpyAsync", "cudaMemsetAsync",
	};

	for (size_t i = 0; i < sizeof(launches) / sizeof(*launches); i++)
		if (jsonval_is(name, launches[i]))
			return true;
	return false;
}

/* A name with a parameter: prefix, at least `least` bytes, suffix. */
static bool is_framed(const struct json_value *v, const char *prefix,
		      size_t least, const char *suffix)
{
	size_t before = strlen(prefix), behind = strlen(suffix);

	return v->len >= before + least + behind &&
		!memcmp(v->text, prefix, before) &&
		!memcmp(v->text + v->len - behind, suffix, behind);
}

/* "Memcpy HtoD (Pageable -> Device)" */
static bool is_copy_name(const struct json_value *v)
{
	const char *s = v->text, *arrow;

	if (!is_framed(v, "Memcpy ", 13, ")") || !strchr("HDAP", s[7]) ||
	    memcmp(s + 8, "to", 2) || !strchr("HDAP", s[10]) ||
	    memcmp(s + 11, " (", 2))
		return false;
	arrow = memmem(s + 14, v->len - 14, " -> ", 4);
	return arrow && arrow + 5 < s + v->len;
}

static bool is_word_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		(c >= '0' && c <= '9') || c == '_';
}

/* cudaLaunchKernel, without the version that CUPTI's names end in. */
static bool is_api_name(const struct json_value *v, const char *prefix)
{
	size_t before = strlen(prefix), digits = 0;

	if (!is_framed(v, prefix, 2, "") || v->text[before] < 'A' ||
	    v->text[before] > 'Z')
		return false;
	for (size_t i = before; i < v->len; i++)
		if (!is_word_char(v->text[i]))
			return false;
	while (v->text[v->len - 1 - digits] >= '0' &&
	       v->text[v->len - 1 - digits] <= '9')
		digits++;
	return digits < 4 || memcmp(v->text + v->len - digits - 2, "_v", 2);
}

static bool is_graph_name(const struct json_value *v)
{
	size_t before = strlen("CUDA graph ");

	if (!is_framed(v, "CUDA graph ", 1, ""))
		return false;
	for (size_t i = before; i < v->len; i++)
		if (v->text[i] < '0' || v->text[i] > '9')
			return false;
	return true;
}

static bool is_sync_name(const struct json_value *v)
{
	return jsonval_is(v, "Stream Sync") || jsonval_is(v, "Event Sync") ||
		jsonval_is(v, "Context Sync") ||
		jsonval_is(v, "Unknown Sync") ||
		jsonval_is(v, "Stream Wait Event");
}

bool check_name(enum trace_cat cat, const struct json_value *name)
{
	switch (cat) {
	case CAT_MEMCPY:
		return is_copy_name(name);
	case CAT_MEMSET:
		return is_framed(name, "Memset (", 1, ")");
	case CAT_RUNTIME:
		return is_api_name(name, "cuda");
	case CAT_DRIVER:
		return is_api_name(name, "cu");
	case CAT_GRAPH:
		return is_graph_name(name);
	case CAT_SYNC:
		return is_sync_name(name);
	default:
		return true;
	}
}

static void check_dims(struct check *c, const struct trace_event *ev,
		       enum trace_arg_key key, double most)
{
	const struct json_value *dims = trace_arg(ev, key);
	const char *at = NULL;
	struct json_value v;
	double product = 1;
	int64_t n;
	int nr = 0;

	while (dims->type == JSON_ARRAY && nr <= 3 &&
	       jsonval_next(dims, &at, NULL, &v)) {
		product *= jsonval_int(&v, &n) && n > 0 ? n : -1e300;
		nr++;
	}
	if (nr != 3 || product < 0 || product > most)
		check_note(c, RULE_K006, c->event, "%s",
			   key == ARG_GRID ? "grid" : "block");
}

static void check_bandwidth(struct check *c, const struct trace_event *ev,
			    int64_t dur)
{
	const struct json_value *v = trace_arg(ev, ARG_BANDWIDTH);
	double rate, real;
	int64_t bytes;

	if (v->type != JSON_NUMBER || v->flags & JSON_NONFINITE ||
	    !jsonval_int(trace_arg(ev, ARG_BYTES), &bytes) || bytes < 0)
		return;
	rate = jsonval_real(v);
	real = dur ? (double)bytes / dur : 0;
	if (!dur || rate - real > 0.01 * real + 0.006 ||
	    real - rate > 0.01 * real + 0.006)
		check_note(c, RULE_K012, c->event, "%" PRId64 " bytes in %"
			   PRId64 " ns", bytes, dur);
}

/* Returns whether the work belongs to a graph. */
static bool check_graph(struct check *c, const struct trace_event *ev)
{
	const struct json_value *g = trace_arg(ev, ARG_GRAPH_ID);
	const struct json_value *n = trace_arg(ev, ARG_GRAPH_NODE);
	int64_t graph = 0, node = 0;
	bool has_graph = jsonval_int(g, &graph);
	bool has_node = jsonval_int(n, &node);
	bool good = has_graph && has_node && graph >= 0 && node >= 0 &&
		!graph == !node;

	if (ev->cat != CAT_GRAPH && !good &&
	    (g->type > JSON_NULL || n->type > JSON_NULL))
		check_note(c, RULE_K005, c->event, "graph %.*s, node %.*s",
			   (int)g->len, g->text, (int)n->len, n->text);
	return graph;
}

static void note_device(struct check *c, int64_t device)
{
	for (size_t i = 0; i < c->nr_devices; i++)
		if (c->devices[i] == device)
			return;
	/* no machine has more: only a hostile file does, and its list of
	 * properties is searched for each */
	if (c->nr_devices >= 64)
		return;
	if (!VEC_ROOM(c->devices, c->nr_devices, c->cap_devices))
		c->no_memory = true;
	else
		c->devices[c->nr_devices++] = device;
}

/* A lane belongs to one stream, a pid to one device. */
static void check_owner(struct check *c, const struct trace_event *ev,
			const struct entry *entry)
{
	const struct json_value *v = trace_arg(ev, ARG_DEVICE);
	struct check_lane *lane = &c->lanes[entry->lane];
	struct check_process *process;
	int64_t device, stream = check_value(trace_arg(ev, ARG_STREAM));

	if (v->type == JSON_NONE)
		v = trace_arg(ev, ARG_IN_DEVICE);
	device = check_value(v);
	note_device(c, device);
	process = &c->processes[lane->process];
	if (!process->has_gpu) {
		process->has_gpu = true;
		process->device = device;
		process->first_gpu_event = c->event;
	}
	if (!lane->has_gpu) {
		lane->has_gpu = true;
		lane->device = device;
		lane->stream = stream;
	}
	if (process->device != device || lane->device != device ||
	    lane->stream != stream)
		check_note(c, RULE_K014, c->event, "device %.*s",
			   (int)v->len, v->text);
}

void check_gpu_work(struct check *c, const struct trace_event *ev,
		    struct entry *entry)
{
	const struct json_value *flag = trace_arg(ev, ARG_NOT_TRACED);
	struct check_work *w;
	int64_t n;

	if (!entry->ts)
		check_note(c, RULE_K009, c->event, "ts");
	if (!jsonval_int(trace_arg(ev, ARG_STREAM), &n) || n < 1)
		check_note(c, RULE_H008, c->event, "stream %.*s",
			   (int)trace_arg(ev, ARG_STREAM)->len,
			   trace_arg(ev, ARG_STREAM)->text);
	if (ev->cat == CAT_KERNEL) {
		check_dims(c, ev, ARG_GRID, 1e300);
		check_dims(c, ev, ARG_BLOCK, 1024);
	}
	check_bandwidth(c, ev, entry->dur);
	entry->is_graph = check_graph(c, ev);
	check_owner(c, ev, entry);
	entry->kind = ENTRY_GPU;
	c->nr_kernels += ev->cat == CAT_KERNEL;
	c->nr_copies += ev->cat == CAT_MEMCPY || ev->cat == CAT_MEMSET;
	if (!VEC_ROOM(c->work, c->nr_work, c->cap_work)) {
		c->no_memory = true;
		return;
	}
	w = &c->work[c->nr_work++];
	*w = (struct check_work){
		.correlation = entry->what, .ts = entry->ts,
		.index = c->event, .has_correlation = entry->has_correlation,
		.is_kernel = ev->cat == CAT_KERNEL,
		.is_graph = entry->is_graph, .before_ns = -1,
		.is_flagged = flag->type == JSON_TRUE ||
			(flag->type == JSON_NUMBER && jsonval_real(flag) != 0)
			|| (flag->type == JSON_STRING && flag->len),
	};
	(void)jsonval_int(trace_arg(ev, ARG_BEFORE), &w->before_ns);
}

static struct check_call *call_of(struct check *c, int64_t correlation,
				  bool *is_new)
{
	uint32_t i = UINT32_MAX;

	if (VEC_ROOM(c->calls, c->nr_calls, c->cap_calls))
		i = pairs_put(&c->call_of, correlation, 0, c->nr_calls,
			      is_new);
	if (i == UINT32_MAX) {
		c->no_memory = true;
		return NULL;
	}
	c->nr_calls += *is_new;
	return &c->calls[i];
}

void check_api_call(struct check *c, const struct trace_event *ev,
		    const struct entry *entry)
{
	const struct json_value *text = trace_field(ev, EV_NAME);
	struct check_call now = {
		.ts = entry->ts, .dur = entry->dur, .index = c->event,
		.is_launch = is_launch(text),
	};
	struct check_call *seen;
	bool is_new;

	c->nr_api++;
	if (!entry->ts)
		check_note(c, RULE_K009, c->event, "ts");
	if (trace_arg(ev, ARG_STREAM)->type != JSON_NONE)
		check_note(c, RULE_H004, c->event, "%.*s", (int)text->len,
			   text->text);
	if (text->type == JSON_STRING)
		now.name = intern_value(&c->names, text);
	if (!entry->has_correlation)
		return;
	seen = call_of(c, entry->what, &is_new);
	if (!seen)
		return;
	if (is_new) {
		*seen = now;
	} else if (seen->ts == now.ts && seen->dur == now.dur &&
		   seen->name == now.name) {
		check_note(c, RULE_K003, c->event, "%.*s, first event %"
			   PRIu64, (int)text->len, text->text, seen->index);
	} else {
		if (now.is_launch && seen->is_launch)
			check_note(c, RULE_H005, c->event,
				   "correlation %" PRId64 ", first event %"
				   PRIu64, entry->what, seen->index);
		seen->ts = now.ts < seen->ts ? now.ts : seen->ts;
		seen->name = now.is_launch ? now.name : seen->name;
		seen->is_launch |= now.is_launch;
	}
}
