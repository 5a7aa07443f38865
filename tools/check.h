/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_CHECK_H
#define GPUTRACE_TOOLS_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/check_rules.h"
#include "tools/intern.h"
#include "tools/trace.h"
#include "tools/vec.h"

/*
 * `gputrace check` in three steps: each event by itself (check_event.c,
 * check_gpu.c), then each lane as Perfetto's importer replays it with the
 * arrows that bind to its slices (check_lanes.c), then what holds for the
 * file: header, launches, names (check_whole.c).
 *
 * Of an event only what the later steps need is kept, 48 bytes.
 */
#define X(id, severity, profiles, text) RULE_##id,
enum check_rule { CHECK_RULES(X) NR_RULES };
#undef X

enum { CHECK_PERFETTO = 1, CHECK_HTA = 2, CHECK_KINETO = 4, CHECK_ALL = 7 };

#define CHECK_NO_EVENT UINT64_MAX

enum entry_kind {
	ENTRY_SLICE, ENTRY_GPU, ENTRY_INSTANT,
	ENTRY_FLOW_START, ENTRY_FLOW_STEP, ENTRY_FLOW_END,
};

struct entry {                  /* what stands on a lane */
	int64_t ts, dur;
	uint64_t index;         /* of the event */
	int64_t what;           /* correlation, or number of the flow's key */
	uint32_t lane;
	uint8_t kind;
	bool has_correlation, is_graph;
};

struct check_lane {
	uint64_t pid, tid;      /* CHECK_TEXT | name for strings */
	int64_t device, stream; /* of its GPU work */
	uint32_t process, name;
	bool has_gpu, has_name, has_sort, is_used;
};
#define CHECK_TEXT (1ull << 63)

struct check_process {
	uint64_t pid, first_gpu_event;
	int64_t device;
	uint32_t name;
	bool has_gpu, has_cpu, has_name, has_sort, is_used;
};

struct check_call {             /* API calls of one correlation */
	int64_t ts, dur;
	uint64_t index;
	uint32_t name;
	bool is_launch;
};

struct check_work {             /* GPU work */
	int64_t correlation, ts, before_ns;
	uint64_t index;
	bool has_correlation, is_kernel, is_graph, is_flagged;
};

struct check {
	const char *path;
	unsigned profiles, limit;
	uint64_t count[NR_RULES], errors, warnings;
	uint64_t event, offset;         /* being checked */
	struct intern names;
	struct pairs lane_of, process_of, call_of, flow_names, flow_of;
	struct entry *entries;
	struct check_lane *lanes;
	struct check_process *processes;
	struct check_call *calls;
	struct check_work *work;
	int64_t *devices;               /* ids seen on GPU work */
	size_t nr_entries, cap_entries, nr_lanes, cap_lanes, nr_processes,
	       cap_processes, nr_calls, cap_calls, nr_work, cap_work,
	       nr_devices, cap_devices;
	uint64_t nr_events, nr_kernels, nr_copies, nr_api, nr_arrows;
	int64_t last_ns;
	bool rank_found, rank_in_head, del_in_header, no_memory;
	int64_t rank;
};

/* One finding; the event is CHECK_NO_EVENT for the file as a whole. */
void check_note(struct check *c, enum check_rule rule, uint64_t event,
		const char *format, ...) __attribute__((format(printf, 4, 5)));

void check_event(struct check *c, const struct trace_event *ev);
/* Of check_gpu.c: an X event of GPU work, and of an API call. */
void check_gpu_work(struct check *c, const struct trace_event *ev,
		    struct entry *entry);
void check_api_call(struct check *c, const struct trace_event *ev,
		    const struct entry *entry);
/* Is the name one that Kineto writes for the cat? */
bool check_name(enum trace_cat cat, const struct json_value *name);

void check_lanes(struct check *c);
void check_header(struct check *c, const struct trace *t);
void check_links(struct check *c);
void check_names(struct check *c);
void check_fini(struct check *c);

/* A member of the document, for the search that HTA does for the rank. */
void check_member(void *c, const char *text, size_t len, bool before_events);

/* A value that ought to be an integer, as a number that is equal for equal
 * values; what is none gets a number far from all. */
int64_t check_value(const struct json_value *v);

#endif
