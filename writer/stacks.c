/* SPDX-License-Identifier: MIT */
#include "writer/stacks.h"

#include <stdlib.h>
#include <string.h>

#include "collector/loss.h"
#include "writer/frames.h"
#include "writer/trace.h"

enum {
	NR_BUCKETS = 4096,
	/* Calls that wait: at 80 us each, 1.3 s of one thread. */
	NR_CALLS = 16384,
	/* Threads whose next slice has a stack. */
	NR_NEXT = 1024,
	PYTHON_MAX = 64,                /* frames: bits of `ends` */
};

struct stacks {
	struct frames *frames;
	struct flames *flames;
	struct stack *buckets[NR_BUCKETS];
	uint32_t nr;
	size_t bytes;
	struct waiting {
		uint32_t key;           /* correlation, or tid */
		struct stack *stack;
	} calls[NR_CALLS], next[NR_NEXT];
	struct bytes text;
};

struct stacks *stacks_create(uint32_t pid)
{
	struct stacks *stacks = calloc(1, sizeof(*stacks));

	if (!stacks)
		return NULL;
	stacks->frames = frames_create(pid);
	stacks->flames = flames_create();
	if (stacks->frames && stacks->flames)
		return stacks;
	stacks_destroy(stacks);
	return NULL;
}

static void forget(struct stacks *stacks)
{
	struct stack *stack;
	uint32_t i;

	for (i = 0; i < NR_BUCKETS; i++)
		while ((stack = stacks->buckets[i])) {
			stacks->buckets[i] = stack->next_in_bucket;
			free(stack);
		}
	for (i = 0; i < NR_CALLS; i++)
		loss_add(LOSS_STACKS, !!stacks->calls[i].stack);
	memset(stacks->calls, 0, sizeof(stacks->calls));
	memset(stacks->next, 0, sizeof(stacks->next));
	stacks->nr = 0;
	stacks->bytes = 0;
}

void stacks_destroy(struct stacks *stacks)
{
	if (!stacks)
		return;
	memset(stacks->calls, 0, sizeof(stacks->calls));        /* no loss */
	forget(stacks);
	frames_destroy(stacks->frames);
	flames_destroy(stacks->flames);
	bytes_fini(&stacks->text);
	free(stacks);
}

struct flames *stacks_flames(struct trace *trace)
{
	return trace->stacks ? trace->stacks->flames : NULL;
}

/* ---- The text of a stack ---- */

struct python {
	const char *at, *end;           /* lines not yet told */
	uint64_t ends;
	uint32_t nr;                    /* told */
};

struct telling {
	struct bytes *out;
	struct python python;
	uint32_t line_at, line_len;
	enum { NO_LINE, NATIVE_LINE, INSTALLED_LINE, PYTHON_LINE } line;
};

static void add_frame(struct telling *telling, const char *text, size_t len,
		      int line)
{
	if ((int)telling->line < line) {
		telling->line = line;
		telling->line_at = (uint32_t)telling->out->len;
		telling->line_len = (uint32_t)len;
	}
	bytes_add(telling->out, text, len);
	bytes_add(telling->out, "\n", 1);
}

/* Of what is installed the file has a folder (collector/python.h): the line to
 * look at is the program's. */
static int line_of(const char *text, size_t len)
{
	const char *file_end = memchr(text, ':', len);

	return file_end && memchr(text, '/', (size_t)(file_end - text)) ?
		INSTALLED_LINE : PYTHON_LINE;
}

static bool add_python_line(struct telling *telling)
{
	struct python *python = &telling->python;
	const char *end = python->at < python->end ?
		memchr(python->at, '\n', (size_t)(python->end - python->at)) :
		NULL;
	bool is_last = python->nr < PYTHON_MAX &&
		python->ends >> python->nr & 1;

	if (!end) {
		python->at = python->end;
		return false;
	}
	add_frame(telling, python->at, (size_t)(end - python->at),
		  line_of(python->at, (size_t)(end - python->at)));
	python->at = end + 1;
	python->nr++;
	return !is_last;
}

/* The frames that one call of the interpreter's loop runs. */
static void add_python_call(struct telling *telling)
{
	while (add_python_line(telling))
		;
}

/* Our own frames, and CUPTI's between us and the call. */
static uint32_t first_of(struct frames *frames,
			 const struct stack_record *record)
{
	uint32_t first = 0, i;

	if (record->of == STACK_SAMPLE)
		return 0;
	for (i = 0; i < record->nr_pcs && i < 16; i++)
		if (frames_get(frames, record->pcs[i] & ~STACK_EVAL)->kind ==
		    FRAME_OURS)
			first = i + 1;
	return first;
}

/* The interpreter's file, in stacks that have its loop; 0: none. */
static uint32_t interpreter_of(struct frames *frames,
			       const struct stack_record *record)
{
	uint32_t i;

	for (i = 0; i < record->nr_pcs; i++)
		if (record->pcs[i] & STACK_EVAL)
			return frames_get(frames, record->pcs[i] &
					  ~STACK_EVAL)->file;
	return 0;
}

/* Python's frames stand for its loop's, and for what of the interpreter lies
 * around them; what it was doing inside the innermost one is told. */
static void tell(struct stacks *stacks, const struct stack_record *record,
		 struct telling *telling)
{
	struct frames *frames = stacks->frames;
	uint32_t i, interpreter = interpreter_of(frames, record);
	bool is_inside = false;
	const struct frame *frame;

	for (i = first_of(frames, record); i < record->nr_pcs; i++) {
		frame = frames_get(frames, record->pcs[i] & ~STACK_EVAL);
		if (record->pcs[i] & STACK_EVAL) {
			is_inside = true;
			add_python_call(telling);
		} else if (!is_inside || frame->file != interpreter) {
			add_frame(telling, frame->text, strlen(frame->text),
				  frame->kind == FRAME_PROGRAM ?
				  NATIVE_LINE : NO_LINE);
		}
	}
	/* Those whose native frames were out of reach. */
	while (telling->python.at < telling->python.end)
		add_python_call(telling);
}

/* ---- Distinct stacks ---- */

static uint64_t hash_of(const struct stack_record *record, uint64_t seed)
{
	const uint64_t *word = record->pcs, *end = word + record->nr_pcs +
		(record->head.len + 7) / 8;
	uint64_t hash = seed ^ (record->ends + record->nr_pcs);

	for (; word < end; word++) {
		hash ^= *word;
		hash *= UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	return hash ^ (record->of == STACK_SAMPLE);
}

static struct stack *make(struct stacks *stacks,
			  const struct stack_record *record)
{
	const char *text = (const char *)(record->pcs + record->nr_pcs);
	struct telling telling = {
		.out = &stacks->text,
		.python = { .at = text, .end = text + record->head.len,
			    .ends = record->ends },
	};
	struct stack *stack;

	bytes_clear(&stacks->text);
	tell(stacks, record, &telling);
	if (stacks->text.is_cut)
		return NULL;
	stack = malloc(sizeof(*stack) + stacks->text.len);
	if (!stack)
		return NULL;
	stack->line_at = telling.line_at;
	stack->line_len = telling.line == NO_LINE ? 0 : telling.line_len;
	stack->len = (uint32_t)stacks->text.len;
	if (stack->len)         /* there may be no frame at all */
		memcpy(stack->text, stacks->text.data, stack->len);
	return stack;
}

/* The same addresses are another stack when other modules name them. */
static struct stack *get(struct stacks *stacks,
			 const struct stack_record *record)
{
	uint64_t version = frames_begin(stacks->frames, record->nr_pcs);
	uint64_t hash = hash_of(record, version + 1);
	uint64_t other = hash_of(record, version + 77);
	struct stack *stack;

	for (stack = stacks->buckets[hash % NR_BUCKETS]; stack;
	     stack = stack->next_in_bucket)
		if (stack->hash == hash && stack->other_hash == other)
			return stack;
	if (stacks->nr == STACKS_MAX || stacks->bytes > STACKS_BYTES)
		forget(stacks);
	stack = make(stacks, record);
	if (!stack)
		return NULL;
	stack->hash = hash;
	stack->other_hash = other;
	stack->next_in_bucket = stacks->buckets[hash % NR_BUCKETS];
	stacks->buckets[hash % NR_BUCKETS] = stack;
	stacks->nr++;
	stacks->bytes += sizeof(*stack) + stack->len;
	return stack;
}

void stacks_take(struct trace *trace, const struct stack_record *record)
{
	struct stacks *stacks = trace->stacks;
	struct waiting *waiting;
	struct stack *stack;

	if (!windows_hold(trace, record->head.t_ns))
		return;
	if (!stacks)
		stacks = trace->stacks = stacks_create(trace->pid);
	stack = stacks ? get(stacks, record) : NULL;
	if (!stack) {
		loss_add(LOSS_STACKS, 1);
		return;
	}
	if (record->of == STACK_SAMPLE) {
		flames_add(trace, stacks->flames, stack, record->tid,
			   record->head.t_ns, record->correlation);
		return;
	}
	waiting = record->of == STACK_OF_NEXT ?
		&stacks->next[record->tid % NR_NEXT] :
		&stacks->calls[record->correlation % NR_CALLS];
	waiting->key = record->of == STACK_OF_NEXT ? record->tid :
		record->correlation;
	waiting->stack = stack;
}

/* Whole lines, as far as the bound reaches. */
static size_t fitting(const struct stack *stack)
{
	size_t len = stack->len;

	if (len <= STACK_TEXT_MAX)
		return len;
	for (len = STACK_TEXT_MAX; len && stack->text[len - 1] != '\n'; len--)
		;
	return len;
}

static void tell_it(struct trace *trace, struct waiting *waiting, uint32_t key)
{
	const struct stack *stack = waiting->stack;

	if (!stack || waiting->key != key)
		return;
	if (stack->line_len) {
		json_key(&trace->out, "line");
		json_string(&trace->out, stack->text + stack->line_at,
			    stack->line_len);
	}
	json_key(&trace->out, "stack");
	json_string(&trace->out, stack->text, fitting(stack));
	waiting->stack = NULL;
}

void stacks_tell_call(struct trace *trace, uint32_t correlation)
{
	if (trace->stacks)
		tell_it(trace, &trace->stacks->calls[correlation % NR_CALLS],
			correlation);
}

void stacks_tell_next(struct trace *trace, uint32_t tid)
{
	if (trace->stacks)
		tell_it(trace, &trace->stacks->next[tid % NR_NEXT], tid);
}

void stacks_tell_files(const struct trace *trace, struct bytes *out)
{
	if (trace->stacks)
		frames_tell_ids(trace->stacks->frames, out);
}
