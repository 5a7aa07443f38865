/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_RANGE_H
#define GPUTRACE_WRITER_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/record.h"
#include "writer/cpu_thread.h"
#include "writer/payload.h"

/*
 * NVTX ranges: which were open on a thread at a time in the past (a call's
 * activity arrives seconds after the call), and what the work launched inside
 * them did on the GPU.
 *
 *      log of a thread: a node for each range that began there, by time
 *        A        B     C        D
 *        |--------------------------------|        A.parent = none
 *                 |--------|                       B.parent = A
 *                       |------|                   C.parent = B
 *                                |--------------   D.parent = A
 *
 * A node's parent is the innermost range open when it began, whatever its
 * domain.  So all ranges that hold a time t are on the chain of parents from
 * the last node that began by then: those that had ended by t are stepped
 * over.  Ends need no entry in the log, and ranges may cross.
 *
 * A node lives until it is closed, its children are gone, its launches have
 * shown up on the GPU and no more can come; then it is written as a slice on
 * each stream that it touched.
 * Context: writer thread.
 */
#define RANGE_OPEN UINT64_MAX

/* In percent (ranges_use()): CUPTI is asked sooner for the launches that they
 * wait for; they wait no longer. */
enum { RANGES_MANY = 25, RANGES_FULL = 75 };

struct log_entry {
	uint64_t start_ns;
	uint32_t node;
};

/* What began on one thread, by time; and what of it is open. */
struct range_log {
	struct log_entry *entries;
	uint32_t nr, size;
	uint32_t cursor;                /* where the last look-up ended */
	uint32_t *open;                 /* in the order of their starts */
	uint32_t nr_open, open_size;
	uint32_t nr_pushed;             /* of `open` */
	uint32_t nr_passing;            /* of `open`: ends_inside */
};

/* What a range did on one stream. */
struct projection {
	struct projection *next;
	uint32_t device, context, stream;
	uint32_t nr_ops;
	uint64_t start_ns, end_ns;
};

enum {
	NODE_STARTED = 1 << 0,          /* start/end, not push/pop */
	NODE_CROSSES = 1 << 1,          /* is not on its thread's own lane */
	NODE_CUT_OPEN = 1 << 2,         /* ended by the window, not by a pop */
	NODE_DEAD = 1 << 3,             /* written, to be freed */
	/* A start/end range whose end is known: it stays among the open ones
	 * until all rings have been read twice, since ranges that other
	 * threads began inside it may still be in theirs. */
	NODE_ENDING = 1 << 4,
	NODE_ENDED = 1 << 5,
	NODE_CLOSED = 1 << 6,
	NODE_PARTIAL = 1 << 7,          /* not all that was launched inside is
					 * in its projections */
};

struct node {
	uint64_t start_ns, end_ns;      /* RANGE_OPEN while open */
	struct cpu_thread *thread;
	const struct nvtx_domain *domain;
	const struct nvtx_text *string; /* its name, or */
	char *text;                     /* its own copy */
	uint32_t text_len;
	uint32_t args_len;              /* members, behind the name */
	uint32_t external_id;           /* of an operator; 0: none */
	uint32_t parent;                /* index; 0: none */
	uint32_t turn;                  /* grows when the place is used again */
	uint32_t nr_children, nr_pending;
	uint32_t depth;
	uint32_t last_cycle;            /* closed, or had a call, then */
	uint64_t id, payload;
	uint64_t inner_end_ns;          /* of a domain that ends_inside: the
					 * end of the last range inside */
	uint64_t inside_ns;             /* end of the slice that stood over
					 * its start when it opened; 0: none */
	uint32_t color, category;
	uint8_t payload_type, record_flags, flags;
	struct projection *projections;
};

struct ranges {
	struct node *nodes;             /* [0] is none */
	uint32_t nr, size, first_free;
	uint64_t bytes, max_bytes;      /* of nodes in use, and their texts */
	uint64_t closed_bytes;          /* of `bytes`: of those NODE_CLOSED */
	uint32_t cycle;                 /* write-outs in which buffers came */
	uint32_t *open_started;         /* start/end ranges that are open */
	uint32_t nr_started, started_size;
	struct early_end {              /* ENDs seen before their START */
		uint64_t id, t_ns;
	} *early;                       /* by the low bits of the id */
	uint32_t last_external_id;
	uint32_t *ready;                /* scratch of ranges_collect() */
	uint32_t ready_size;
};

int ranges_init(struct ranges *ranges, uint64_t bytes);
void ranges_fini(struct ranges *ranges);

static inline uint64_t range_bytes(const struct node *node)
{
	return sizeof(*node) + (node->text ? (uint64_t)node->text_len +
				node->args_len + 1 : 0);
}

/* What closed ranges take of the memory that open ones leave to them, in
 * percent: of those that are open (pushes that nobody pops) none is written
 * sooner, whatever is done. */
static inline uint32_t ranges_use(const struct ranges *ranges)
{
	uint64_t open_bytes = ranges->bytes - ranges->closed_bytes;

	if (!ranges->closed_bytes)
		return 0;
	if (open_bytes >= ranges->max_bytes)
		return 100;
	return (uint32_t)(ranges->closed_bytes * 100 /
			  (ranges->max_bytes - open_bytes));
}

/* Opens a range at start_ns.  0 without memory (counted). */
uint32_t range_open(struct ranges *ranges, struct cpu_thread *thread,
		    const struct range_record *record, uint64_t start_ns,
		    const struct record_text *text);

/* Further members of its args, while it is open; without memory they are
 * counted as lost. */
void range_add_args(struct ranges *ranges, uint32_t index, const char *args,
		    size_t len);

/* The operator (nvtx_domain.is_operator) around that range, or itself, that was
 * open at t_ns: its external id, 0: none. */
uint32_t range_external_id(const struct ranges *ranges, uint32_t index,
			   uint32_t turn, uint64_t t_ns);

/* The open range that a POP of its domain and level closes; 0: none. */
uint32_t range_find_pushed(const struct ranges *ranges,
			   const struct cpu_thread *thread,
			   const struct nvtx_domain *domain, uint64_t level);

/* The innermost of its domain if it is at `level` or deeper; 0: none. */
uint32_t range_find_deeper(const struct ranges *ranges,
			   const struct cpu_thread *thread,
			   const struct nvtx_domain *domain, uint64_t level);

/* The open start/end range of that id; 0: none. */
uint32_t range_find_started(const struct ranges *ranges, uint64_t id);

/* An END that came before its START: kept until range_take_early(), which
 * returns the time, or 0.  Ids count up, and there is room for all that four
 * rings hold. */
void range_keep_early(struct ranges *ranges, uint64_t id, uint64_t t_ns);
uint64_t range_take_early(struct ranges *ranges, uint64_t id);

/* When an open range ends if no more is told of it: now_ns, or with what was
 * inside (nvtx_domain.ends_inside).  *is_running: it is known to go on. */
uint64_t range_open_end(const struct ranges *ranges, const struct node *node,
			uint64_t now_ns, bool *is_running);

/* Closes it; sets NODE_CROSSES where another range of its thread's lane
 * began inside and is still open, or what stands there would be crossed: its
 * window's end became known late, or CUPTI's clock is ahead of ours. */
void range_close(struct ranges *ranges, uint32_t index, uint64_t end_ns);

/* The pushed range of the thread that began last and is open; 0: none. */
uint32_t range_innermost_pushed(const struct ranges *ranges,
				const struct cpu_thread *thread);

/* The innermost range that holds t_ns; 0: none. */
uint32_t range_at(struct ranges *ranges, struct cpu_thread *thread,
		  uint64_t t_ns);

/* True if a call [start, end] would cross a range on the thread's lane. */
bool range_crosses(struct ranges *ranges, struct cpu_thread *thread,
		   uint64_t start_ns, uint64_t end_ns);

/* Adds an operation to the range that launched it, and all around that. */
void range_project(struct ranges *ranges, uint32_t index, uint32_t turn,
		   uint64_t launch_ns, const struct projection *op);

/* Launches that will show up later (+1) and those that have (-1). */
void range_expect(struct ranges *ranges, uint32_t index, uint32_t turn,
		  int change);

/* The nodes whose projection can be written now (all that are closed if
 * `everything`), sorted by start, longer first, outer first.  They are freed
 * at the next ranges_sweep().  Returns how many; *list stays valid until
 * then. */
uint32_t ranges_collect(struct ranges *ranges, bool everything,
			uint64_t now_ns, const uint32_t **list);
void ranges_sweep(struct ranges *ranges, struct cpu_threads *threads);

/* Frees a node for the next range. */
void range_give_node(struct ranges *ranges, uint32_t index);

const char *range_name(const struct node *node, uint32_t *len);

/* Its end is that of what is inside: nvtx_domain.ends_inside. */
static inline bool range_ends_inside(const struct node *node)
{
	return node->domain && node->domain->ends_inside;
}

void range_log_destroy(struct range_log *log);

#endif
