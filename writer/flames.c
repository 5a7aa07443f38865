/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "collector/loss.h"
#include "writer/stacks.h"
#include "writer/trace.h"

/*
 * Samples of a thread as a flame chart: each frame is a slice, as long as one
 * sample after another has it in the same place.
 *
 *   sample      1     2     3             4
 *   main      |<----------------->|     |<--->|
 *   forward   |<----------->|           |<--->|
 *   launch          |<----->|<-- no: another function there
 *
 * A sample stands for the time since the one before, but for no more than a
 * period beyond those it was told with: then the thread was off the CPU.
 */
enum {
	NR_THREADS = 1024,              /* by tid; two may share a place */
	DEPTH_MAX = 64,                 /* from the outermost on */
	NAME_MAX_LEN = 128,
};

struct level {
	uint64_t start_ns;
	uint32_t nr_samples;
	uint32_t len;
	char name[NAME_MAX_LEN];
};

struct flame {
	uint32_t tid, depth;
	uint64_t last_ns;               /* the last sample's time */
	struct level *levels;           /* DEPTH_MAX, outermost first */
};

struct flames {
	struct flame list[NR_THREADS];
};

struct flames *flames_create(void)
{
	return calloc(1, sizeof(struct flames));
}

void flames_destroy(struct flames *flames)
{
	uint32_t i;

	for (i = 0; flames && i < NR_THREADS; i++)
		free(flames->list[i].levels);
	free(flames);
}

static void write_level(struct trace *trace, const struct flame *flame,
			const struct level *level)
{
	struct bytes *out = &trace->out;
	struct cpu_thread *thread;
	struct lane *lane = NULL;

	if (!event_times(trace, level->start_ns, flame->last_ns))
		return;
	thread = cpu_thread_get(&trace->threads, &trace->tracks, flame->tid);
	if (thread)
		lane = track_row(&trace->tracks, thread->lane, ROLE_STACK);
	/* What is inside comes first: batches of their own (gaps.h). */
	lane = lane ? track_place(&trace->tracks, lane, ++trace->batch,
				  level->start_ns, flame->last_ns) : NULL;
	if (!lane)
		return;
	event_begin(trace, "sample", level->name, level->len, lane,
		    level->start_ns, flame->last_ns);
	json_member_u64(out, "thread", flame->tid);
	json_member_text(out, "measured", "sampled");
	json_member_u64(out, "samples", level->nr_samples);
	event_end(trace);
}

/* Innermost first, down to that depth. */
static void close_to(struct trace *trace, struct flame *flame, uint32_t depth)
{
	while (flame->depth > depth)
		write_level(trace, flame, &flame->levels[--flame->depth]);
}

void flames_close(struct trace *trace, uint64_t began_by_ns)
{
	struct flames *flames = stacks_flames(trace);
	struct flame *flame = flames ? flames->list : NULL;

	for (; flame && flame < flames->list + NR_THREADS; flame++)
		if (flame->depth && flame->levels[0].start_ns <= began_by_ns)
			close_to(trace, flame, 0);
}

/* "serve.py:123 sample" goes by "sample (serve.py)": lines change inside one
 * call.  Others as they are. */
static uint32_t name_of(const char *text, size_t len, char *name)
{
	const char *colon = memchr(text, ':', len);
	const char *space = colon ? memchr(colon, ' ',
					   len - (size_t)(colon - text)) : NULL;
	const char *digit = colon;
	size_t function, file, at = 0;

	while (digit && space && ++digit < space)
		if (*digit < '0' || *digit > '9')
			space = NULL;
	if (!space || space == colon + 1) {
		len = len < NAME_MAX_LEN ? len : NAME_MAX_LEN;
		memcpy(name, text, len);
		return (uint32_t)len;
	}
	function = len - (size_t)(space + 1 - text);
	file = (size_t)(colon - text);
	function = function < 64 ? function : 64;
	file = file < 60 ? file : 60;
	memcpy(name, space + 1, function);
	at = function;
	memcpy(name + at, " (", 2);
	memcpy(name + at + 2, text, file);
	name[at + 2 + file] = ')';
	return (uint32_t)(at + file + 3);
}

struct line {
	const char *text;
	size_t len;
};

/* The stack's lines, outermost first; returns their number. */
static uint32_t split(const struct stack *stack, struct line *lines)
{
	const char *end = stack->text + stack->len, *at;
	uint32_t nr = 0;

	while (end > stack->text && nr < DEPTH_MAX) {
		end--;                  /* its newline */
		for (at = end; at > stack->text && at[-1] != '\n'; at--)
			;
		lines[nr].text = at;
		lines[nr++].len = (size_t)(end - at);
		end = at;
	}
	return nr;
}

static bool is_same(const struct level *level, const char *name, uint32_t len)
{
	return level->len == len && !memcmp(level->name, name, len);
}

static void add_levels(struct trace *trace, struct flame *flame,
		       const struct stack *stack, uint64_t from_ns,
		       uint32_t nr_periods)
{
	struct line lines[DEPTH_MAX];
	char name[NAME_MAX_LEN];
	uint32_t nr = split(stack, lines), i, len;
	struct level *level;

	for (i = 0; i < nr; i++) {
		level = &flame->levels[i];
		len = name_of(lines[i].text, lines[i].len, name);
		if (i < flame->depth && is_same(level, name, len)) {
			level->nr_samples += nr_periods;
			continue;
		}
		close_to(trace, flame, i);
		*level = (struct level){ .start_ns = from_ns, .len = len,
					 .nr_samples = nr_periods };
		memcpy(level->name, name, len);
		flame->depth = i + 1;
	}
	close_to(trace, flame, nr);
}

static struct flame *flame_of(struct trace *trace, struct flames *flames,
			      uint32_t tid)
{
	struct flame *flame = &flames->list[tid % NR_THREADS];

	if (flame->tid != tid) {
		close_to(trace, flame, 0);
		flame->tid = tid;
		flame->last_ns = 0;
	}
	if (!flame->levels)
		flame->levels = malloc(DEPTH_MAX * sizeof(*flame->levels));
	return flame->levels ? flame : NULL;
}

void flames_add(struct trace *trace, struct flames *flames,
		const struct stack *stack, uint32_t tid, uint64_t t_ns,
		uint32_t nr_periods)
{
	uint64_t period_ns = trace->options.sample_ns, from_ns;
	struct flame *flame = flame_of(trace, flames, tid);
	const struct window *window = windows_find(trace, t_ns);

	if (!flame || t_ns <= flame->last_ns)
		return;
	from_ns = t_ns - period_ns * nr_periods;
	if (window && from_ns < window->open_ns)
		from_ns = window->open_ns;
	if (flame->depth && t_ns - flame->last_ns >
	    period_ns * (nr_periods + 1))
		close_to(trace, flame, 0);
	if (flame->last_ns > from_ns || flame->depth)
		from_ns = flame->last_ns;
	add_levels(trace, flame, stack, from_ns, nr_periods);
	flame->last_ns = t_ns;
}
