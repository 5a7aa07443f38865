/* SPDX-License-Identifier: MIT */
#include "writer/range.h"

#include <errno.h>
#include <stdlib.h>

#include "collector/loss.h"

/* ENDs of 32 bytes in rings of 128 KiB: 4,096 each. */
enum { NR_EARLY = 4 * 4096 };

/* Deeper nesting is a push that is never popped: it must not grow into each
 * write-out, which has all that is open. */
enum { PUSHED_MAX = 4096 };

int ranges_init(struct ranges *ranges, uint64_t bytes)
{
	memset(ranges, 0, sizeof(*ranges));
	ranges->max_bytes = bytes + sizeof(struct node);
	ranges->size = 256;
	ranges->nodes = calloc(ranges->size, sizeof(*ranges->nodes));
	ranges->nr = 1;                 /* [0] is none */
	ranges->early = calloc(NR_EARLY, sizeof(*ranges->early));
	return ranges->nodes && ranges->early ? 0 : -ENOMEM;
}

static void free_content(struct node *node)
{
	struct projection *projection;

	while ((projection = node->projections)) {
		node->projections = projection->next;
		free(projection);
	}
	free(node->text);
	node->text = NULL;
}

void ranges_fini(struct ranges *ranges)
{
	uint32_t i;

	for (i = 1; ranges->nodes && i < ranges->nr; i++)
		free_content(&ranges->nodes[i]);
	free(ranges->nodes);
	free(ranges->open_started);
	free(ranges->early);
	free(ranges->ready);
	memset(ranges, 0, sizeof(*ranges));
}

void range_log_destroy(struct range_log *log)
{
	if (!log)
		return;
	free(log->entries);
	free(log->open);
	free(log);
}

/* Room for one more in an array of `nr` items; NULL without memory. */
static void *room(void *items, uint32_t nr, uint32_t *size, size_t item_size)
{
	uint32_t more = *size ? *size * 2 : 16;

	if (nr < *size)
		return items;
	items = realloc(items, more * item_size);
	if (items)
		*size = more;
	return items;
}

static uint32_t take_node(struct ranges *ranges)
{
	uint32_t index = ranges->first_free;
	struct node *nodes;

	if (ranges->bytes + sizeof(*nodes) > ranges->max_bytes)
		return 0;
	if (index) {
		ranges->first_free = ranges->nodes[index].parent;
		ranges->bytes += sizeof(*nodes);
		return index;
	}
	nodes = room(ranges->nodes, ranges->nr, &ranges->size, sizeof(*nodes));
	if (!nodes)
		return 0;
	ranges->nodes = nodes;
	memset(&nodes[ranges->nr], 0, sizeof(*nodes));
	ranges->bytes += sizeof(*nodes);
	return ranges->nr++;
}

void range_give_node(struct ranges *ranges, uint32_t index)
{
	struct node *node = &ranges->nodes[index];
	uint32_t turn = node->turn + 1;

	ranges->bytes -= range_bytes(node);
	if (node->flags & NODE_CLOSED)
		ranges->closed_bytes -= range_bytes(node);
	free_content(node);
	memset(node, 0, sizeof(*node));
	node->turn = turn;
	node->flags = NODE_DEAD;
	node->parent = ranges->first_free;
	ranges->first_free = index;
}

static struct range_log *log_of(struct cpu_thread *thread)
{
	if (!thread->log)
		thread->log = calloc(1, sizeof(*thread->log));
	return thread->log;
}

static bool log_has_room(struct range_log *log)
{
	void *items;

	items = room(log->entries, log->nr, &log->size, sizeof(*log->entries));
	if (!items)
		return false;
	log->entries = items;
	items = room(log->open, log->nr_open, &log->open_size,
		     sizeof(*log->open));
	if (!items)
		return false;
	log->open = items;
	return true;
}

static bool started_has_room(struct ranges *ranges)
{
	void *items = room(ranges->open_started, ranges->nr_started,
			   &ranges->started_size, sizeof(uint32_t));

	if (!items)
		return false;
	ranges->open_started = items;
	return true;
}

/* Starts come in order, but for a range carried into a window by the writer
 * itself: those begin at the window's start. */
static void log_insert(struct range_log *log, uint64_t start_ns, uint32_t node)
{
	uint32_t at = log->nr++;

	for (; at && log->entries[at - 1].start_ns > start_ns; at--)
		log->entries[at] = log->entries[at - 1];
	log->entries[at].start_ns = start_ns;
	log->entries[at].node = node;
}

static void fill(struct node *node, const struct range_record *record,
		 uint64_t start_ns)
{
	node->start_ns = start_ns;
	node->end_ns = RANGE_OPEN;
	node->domain = record->domain;
	node->string = record->string;
	node->id = record->id;
	node->payload = record->payload;
	node->payload_type = record->payload_type;
	node->color = record->color;
	node->category = record->category;
	node->record_flags = record->flags;
	node->flags = record->head.kind == RECORD_RANGE_START ?
		NODE_STARTED : 0;
}

/* Copies the record's own name, if that is what it is called by, and its
 * arguments. */
static bool keep_text(struct ranges *ranges, struct node *node,
		      const struct range_record *record,
		      const struct record_text *text)
{
	size_t len = record->string ? 0 : text->name_len;

	if (record->string && !text->args_len)
		return true;
	node->text = malloc(len + text->args_len + 1);
	if (!node->text)
		return false;
	if (len)
		memcpy(node->text, text->name, len);
	if (text->args_len)
		memcpy(node->text + len, text->args, text->args_len);
	node->text[len + text->args_len] = 0;
	node->text_len = (uint32_t)len;
	node->args_len = (uint32_t)text->args_len;
	ranges->bytes += range_bytes(node) - sizeof(*node);
	return true;
}

void range_add_args(struct ranges *ranges, uint32_t index, const char *args,
		    size_t len)
{
	struct node *node = &ranges->nodes[index];
	size_t used = (size_t)node->text_len + node->args_len;
	uint64_t before = range_bytes(node);
	char *text = realloc(node->text, used + len + 1);

	if (!text) {
		loss_add(LOSS_TABLE_FULL, 1);
		return;
	}
	node->text = text;
	if (node->args_len)
		text[used++] = ',';
	memcpy(text + used, args, len);
	node->args_len = (uint32_t)(used + len) - node->text_len;
	ranges->bytes += range_bytes(node) - before;
}

static void link_parent(struct ranges *ranges, uint32_t index,
			const struct range_log *log)
{
	struct node *node = &ranges->nodes[index];
	uint32_t i = log->nr_open, parent;

	/* One that is carried began before what is open by now. */
	while (i && ranges->nodes[log->open[i - 1]].start_ns > node->start_ns)
		i--;
	parent = i ? log->open[i - 1] : 0;
	node->parent = parent;
	if (parent) {
		node->depth = ranges->nodes[parent].depth + 1;
		ranges->nodes[parent].nr_children++;
	}
}

static uint64_t stands_over(const struct cpu_thread *thread, uint64_t t_ns)
{
	const struct gap *latest = &thread->latest;

	return latest->start_ns < t_ns && t_ns < latest->end_ns ?
		latest->end_ns : 0;
}

uint32_t range_open(struct ranges *ranges, struct cpu_thread *thread,
		    const struct range_record *record, uint64_t start_ns,
		    const struct record_text *text)
{
	struct range_log *log = log_of(thread);
	uint32_t index = 0;

	bool is_started = record->head.kind == RECORD_RANGE_START;

	if (log && (is_started || log->nr_pushed < PUSHED_MAX) &&
	    log_has_room(log) && started_has_room(ranges))
		index = take_node(ranges);
	if (!index || !keep_text(ranges, &ranges->nodes[index],
				 record, text)) {
		if (index)
			range_give_node(ranges, index);
		loss_add(LOSS_TABLE_FULL, 1);
		return 0;
	}
	fill(&ranges->nodes[index], record, start_ns);
	ranges->nodes[index].thread = thread;
	if (record->domain && record->domain->is_operator)
		ranges->nodes[index].external_id = ++ranges->last_external_id;
	ranges->nodes[index].inside_ns = stands_over(thread, start_ns);
	link_parent(ranges, index, log);
	log_insert(log, start_ns, index);
	log->open[log->nr_open++] = index;
	log->nr_passing += range_ends_inside(&ranges->nodes[index]);
	if (is_started)
		ranges->open_started[ranges->nr_started++] = index;
	else
		log->nr_pushed++;
	return index;
}

uint32_t range_find_pushed(const struct ranges *ranges,
			   const struct cpu_thread *thread,
			   const struct nvtx_domain *domain, uint64_t level)
{
	const struct range_log *log = thread->log;
	const struct node *node;
	uint32_t i;

	for (i = log ? log->nr_open : 0; i-- > 0;) {
		node = &ranges->nodes[log->open[i]];
		if (!(node->flags & NODE_STARTED) && node->domain == domain &&
		    node->id == level)
			return log->open[i];
	}
	return 0;
}

/* domain NULL: of any. */
static uint32_t innermost(const struct ranges *ranges,
			  const struct range_log *log,
			  const struct nvtx_domain *const *domain)
{
	const struct node *node;
	uint32_t i;

	for (i = log ? log->nr_open : 0; i-- > 0;) {
		node = &ranges->nodes[log->open[i]];
		if (!(node->flags & NODE_STARTED) &&
		    (!domain || node->domain == *domain))
			return log->open[i];
	}
	return 0;
}

uint32_t range_find_deeper(const struct ranges *ranges,
			   const struct cpu_thread *thread,
			   const struct nvtx_domain *domain, uint64_t level)
{
	uint32_t index = innermost(ranges, thread->log, &domain);

	return index && ranges->nodes[index].id >= level ? index : 0;
}

uint32_t range_innermost_pushed(const struct ranges *ranges,
				const struct cpu_thread *thread)
{
	return innermost(ranges, thread->log, NULL);
}

uint32_t range_find_started(const struct ranges *ranges, uint64_t id)
{
	uint32_t i;

	for (i = ranges->nr_started; i-- > 0;)
		if (ranges->nodes[ranges->open_started[i]].id == id)
			return ranges->open_started[i];
	return 0;
}

void range_keep_early(struct ranges *ranges, uint64_t id, uint64_t t_ns)
{
	struct early_end *early = &ranges->early[id % NR_EARLY];

	early->id = id;
	early->t_ns = t_ns;
}

uint64_t range_take_early(struct ranges *ranges, uint64_t id)
{
	struct early_end *early = &ranges->early[id % NR_EARLY];

	if (early->id != id)
		return 0;
	early->id = 0;
	return early->t_ns;
}

/* ---- Looking back ---- */

/* Index in the log of the last range that began by t_ns, or -1. */
static int64_t last_by(struct range_log *log, uint64_t t_ns)
{
	uint32_t low, high = log->nr;

	low = log->cursor < high ? log->cursor : 0;
	/* Calls come in order: the next few entries are the likely ones. */
	if (low && log->entries[low - 1].start_ns > t_ns) {
		high = low - 1;
		low = 0;
	} else if (low + 4 < high && log->entries[low + 4].start_ns > t_ns) {
		high = low + 4;
	}
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (log->entries[middle].start_ns <= t_ns)
			low = middle + 1;
		else
			high = middle;
	}
	log->cursor = low;
	return (int64_t)low - 1;
}

/* The first on the chain from `index` that holds t_ns. */
static uint32_t holding(const struct ranges *ranges, uint32_t index,
			uint64_t t_ns)
{
	while (index && ranges->nodes[index].end_ns <= t_ns)
		index = ranges->nodes[index].parent;
	return index;
}

uint32_t range_at(struct ranges *ranges, struct cpu_thread *thread,
		  uint64_t t_ns)
{
	int64_t at = thread->log ? last_by(thread->log, t_ns) : -1;

	if (at < 0)
		return 0;
	return holding(ranges, thread->log->entries[at].node, t_ns);
}

static bool is_on_lane(const struct node *node)
{
	return !(node->flags & (NODE_STARTED | NODE_CROSSES | NODE_DEAD));
}

bool range_crosses(struct ranges *ranges, struct cpu_thread *thread,
		   uint64_t start_ns, uint64_t end_ns)
{
	struct range_log *log = thread->log;
	const struct node *node;
	int64_t first = log ? last_by(log, start_ns) : -1, i;
	uint32_t index = 0;

	if (!log || start_ns == end_ns)
		return false;
	if (first >= 0)
		index = log->entries[first].node;
	/* Began by our start, end inside us? */
	for (; index; index = node->parent) {
		node = &ranges->nodes[index];
		if (node->end_ns > start_ns && node->end_ns < end_ns &&
		    node->start_ns < start_ns && is_on_lane(node))
			return true;
	}
	/* Began inside us, end behind us? */
	for (i = first + 1; i < log->nr; i++) {
		if (log->entries[i].start_ns >= end_ns)
			break;
		node = &ranges->nodes[log->entries[i].node];
		if (node->start_ns > start_ns && node->end_ns > end_ns &&
		    is_on_lane(node))
			return true;
	}
	return false;
}

const char *range_name(const struct node *node, uint32_t *len)
{
	*len = node->string ? node->string->len : node->text_len;
	return node->string ? node->string->text : node->text;
}
