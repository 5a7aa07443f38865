/* SPDX-License-Identifier: MIT */
#include "collector/torch_modules.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "collector/decimal.h"
#include "collector/log.h"
#include "collector/loss.h"
#include "collector/python_interpreter.h"
#include "collector/source.h"
#include "collector/thread.h"
#include "collector/torch_chain.h"
#include "collector/window.h"

static struct nvtx_domain modules = {
	.recorded = 1, .cat = "python_function", .ends_inside = 1,
};

static const struct python_function call_impl = {
	.name = "_call_impl", .qualified = "Module._call_impl",
	.file = "torch/nn/modules/module.py",
};

/* ---- Classes and their instances, by address ---- */

/*
 * Places are given out once and stay: a module keeps its name from window to
 * window.  Behind the bounds, and where two threads meet a class in the same
 * moment, a module has no number.
 */
enum { NR_CLASSES = 2048, NR_INSTANCES = 1 << 16, PROBES = 16 };
enum { CLASS_NAME_MAX = 96 };

/* Of a thread's open ranges (open_ranges.h), which modules leave free. */
enum { SPARE_RANGES = 16, SPARE_BYTES = 2048 };

struct class {
	_Atomic uintptr_t type;         /* 0: free */
	_Atomic uintptr_t name_at;      /* of its name; 0: not read yet */
	_Atomic uint32_t nr_instances;
	uint32_t len;
	char name[CLASS_NAME_MAX];
};

struct instance {
	_Atomic uintptr_t self;         /* 0: free */
	_Atomic uint64_t is;            /* class << 32 | number + 1 */
};

static struct tables {
	struct class classes[NR_CLASSES];
	struct instance instances[NR_INSTANCES];
} *tables;

static inline uint32_t place_of(uintptr_t address)
{
	return (uint32_t)((address >> 4) * 0x9e3779b1u >> 8);
}

static uint32_t read_name(struct peek *peek, uintptr_t at, char *name)
{
	uint32_t len = 0;

	while (len < CLASS_NAME_MAX && peek_copy(peek, name + len, at + len, 1)
	       && name[len])
		len++;
	return len;
}

/* A type of that name; NULL: no room, or just being entered by another. */
static struct class *class_of(struct peek *peek, uintptr_t type)
{
	uintptr_t name_at, known;
	uint32_t at = place_of(type);

	if (!peek_word(peek, type + PYTHON_TYPE_NAME, &name_at) || !name_at)
		return NULL;
	for (int i = 0; i < PROBES; i++) {
		struct class *class = &tables->classes[(at + (uint32_t)i) %
						       NR_CLASSES];

		known = 0;
		if (atomic_compare_exchange_strong(&class->type, &known,
						   type)) {
			class->len = read_name(peek, name_at, class->name);
			/* Pairs with the acquire load below. */
			atomic_store_explicit(&class->name_at, name_at,
					      memory_order_release);
			return class;
		}
		if (known != type)
			continue;
		known = atomic_load_explicit(&class->name_at,
					     memory_order_acquire);
		if (known == name_at || !known)
			return known ? class : NULL;
	}
	return NULL;
}

/* Another object may have been where this one is. */
static uint32_t number_in(struct instance *instance, struct class *class)
{
	uint64_t is = atomic_load(&instance->is), now;
	uint64_t of = (uint64_t)(class - tables->classes) + 1;

	if (is >> 32 == of)
		return (uint32_t)is;
	now = of << 32 | (atomic_fetch_add(&class->nr_instances, 1) + 1);
	return atomic_compare_exchange_strong(&instance->is, &is, now) ?
		(uint32_t)now : is >> 32 == of ? (uint32_t)is : 0;
}

/* From 1; 0: none. */
static uint32_t number_of(uintptr_t self, struct class *class)
{
	uint32_t at = place_of(self);
	uintptr_t known;

	for (int i = 0; i < PROBES; i++) {
		struct instance *instance =
			&tables->instances[(at + (uint32_t)i) % NR_INSTANCES];

		known = atomic_load_explicit(&instance->self,
					     memory_order_relaxed);
		if (known == self || (!known &&
				      (atomic_compare_exchange_strong(
					       &instance->self, &known, self) ||
				       known == self)))
			return number_in(instance, class);
	}
	return 0;
}

/* ---- Names ---- */

struct text {
	char text[CLASS_NAME_MAX + 32];
	uint32_t len;
};

static void add(struct text *text, const char *what, size_t len)
{
	memcpy(text->text + text->len, what, len);
	text->len += (uint32_t)len;
}

static void add_number(struct text *text, uint32_t number)
{
	text->len += decimal_put(text->text + text->len, number);
}

#define ADD(text, literal) add(text, literal, sizeof literal - 1)

static void push(struct peek *peek, uintptr_t self)
{
	struct text name = { .len = 0 }, args = { .len = 0 };
	struct class *class = NULL;
	uintptr_t type;
	uint32_t number = 0;

	if (self && peek_word(peek, self + PYTHON_OBJECT_TYPE, &type))
		class = class_of(peek, type);
	ADD(&name, "nn.Module: ");
	if (class) {
		add(&name, class->name, class->len);
		number = number_of(self, class);
	} else {
		ADD(&name, "(unknown)");
	}
	if (number) {
		ADD(&name, "_");
		add_number(&name, number - 1);
		ADD(&args, "\"Python module id\":");
		add_number(&args, number - 1);
	}
	(void)source_range_push(&modules, name.text, name.len, args.text,
				args.len);
}

/* ---- What has changed since the last look ---- */

static uint32_t nr_open(struct range_stack *stack)
{
	int64_t i = open_ranges_find(stack, &modules);

	return i < 0 ? 0 : (uint32_t)open_ranges_at(stack, (uint32_t)i)->id + 1;
}

static void leave(struct torch_chain *chain, uint32_t keep)
{
	for (; chain->nr > keep; chain->nr--)
		(void)source_range_pop(&modules);
}

/* Of another window, or of a thread that had this state before. */
static void begin(struct torch_chain *chain, struct range_stack *stack,
		  uint32_t epoch)
{
	chain->nr = nr_open(stack);
	leave(chain, 0);
	memset(&chain->peek, 0, sizeof chain->peek);
	if (chain->pages)
		memset(chain->pages, 0, PEEK_MORE * sizeof *chain->pages);
	memset(chain->began, 0, sizeof chain->began);
	chain->epoch = epoch;
}

static inline bool is_same(const struct python_call *a,
			   const struct python_call *b)
{
	return a->frame == b->frame && a->serial == b->serial;
}

struct look {
	struct torch_chain *chain;
	bool is_exact;
	uint32_t keep;
};

/* The very same call has the same ones around it. */
static bool is_known(const struct python_call *call, void *of)
{
	struct look *look = of;
	struct torch_chain *chain = look->chain;

	for (uint32_t i = chain->nr; look->is_exact && i-- > 0;)
		if (is_same(&chain->call[i], call)) {
			look->keep = call->serial ? i + 1 : 0;
			return call->serial;
		}
	look->keep = 0;
	return false;
}

/* Where that cannot be said of a call, all are compared, from the outermost. */
static void compare_all(struct look *look, const struct python_call *found,
			int *nr)
{
	struct torch_chain *chain = look->chain;
	uint32_t keep = 0;

	while (*nr && keep < chain->nr &&
	       is_same(&chain->call[keep], &found[*nr - 1]) &&
	       chain->call[keep].self == found[*nr - 1].self) {
		keep++;
		--*nr;
	}
	look->keep = keep;
}

/* What is not kept would not be ended by what is around it: modules leave some
 * room to the program's ranges, and are none where that is taken. */
static bool has_room(const struct range_stack *stack)
{
	return !stack->not_kept && stack->nr + SPARE_RANGES < OPEN_RANGES_MAX &&
		stack->used + SPARE_BYTES < OPEN_RANGES_BYTES;
}

static void follow(struct torch_chain *chain, struct range_stack *stack,
		   uintptr_t top)
{
	struct python_call found[TORCH_CHAIN_MAX];
	struct look look = { chain, python_calls_are_exact(), 0 };
	int nr = python_calls_walk(&chain->peek, top, found,
				   TORCH_CHAIN_MAX, is_known, &look);

	if (!look.is_exact)
		compare_all(&look, found, &nr);
	leave(chain, look.keep);
	while (nr-- && chain->nr < TORCH_CHAIN_MAX) {
		if (!has_room(stack)) {
			loss_add(LOSS_TABLE_FULL, 1);
			return;
		}
		push(&chain->peek, found[nr].self);
		chain->call[chain->nr++] = found[nr];
	}
}

/* Since the operator around began nothing has called Python, or all is as it
 * was then. */
static bool is_as_before(const struct torch_chain *chain, int64_t level,
			 uintptr_t top)
{
	return level > 0 && level <= TORCH_CHAIN_LEVELS &&
	       chain->began[level - 1].top == top &&
	       chain->began[level - 1].nr == chain->nr;
}

static void follow_from(struct torch_chain *chain, struct range_stack *stack,
			int64_t level)
{
	uintptr_t top = python_calls_top(&chain->peek);
	uint32_t nr = nr_open(stack);

	/* The end of a range around them has ended the others. */
	if (nr < chain->nr)
		chain->nr = nr;
	if (!is_as_before(chain, level, top))
		follow(chain, stack, top);
	if (level < TORCH_CHAIN_LEVELS) {
		chain->began[level].top = top;
		chain->began[level].nr = chain->nr;
	}
}

void torch_modules_look(int64_t level)
{
	struct thread *thread = thread_self();
	struct torch_chain *chain;
	struct range_stack *stack;
	uint32_t epoch = window_epoch();

	if (!thread || !thread_ring(thread))
		return;
	chain = &thread->modules;
	stack = thread_ranges(thread);
	if (chain->epoch != epoch)
		begin(chain, stack, epoch);
	/* They come with the first record in a window, behind this look. */
	chain->peek.more = chain->pages;
	if (stack->not_kept) {
		chain->nr = nr_open(stack);
		leave(chain, 0);
		loss_add(LOSS_TABLE_FULL, 1);
		return;
	}
	follow_from(chain, stack, level);
}

bool torch_modules_prepare(void)
{
	int error = python_calls_prepare(&call_impl);
	void *room = MAP_FAILED;

	if (!error)
		room = mmap(NULL, sizeof *tables, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room == MAP_FAILED) {
		log_line(LOG_INFO, "no module names of PyTorch: %s", error ?
			 "the interpreter's frames cannot be read" :
			 "no memory");
		return false;
	}
	tables = room;
	return true;
}
