/* SPDX-License-Identifier: MIT */
#include "collector/torch.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "collector/cancel.h"
#include "collector/guard.h"
#include "collector/log.h"
#include "collector/own_thread.h"
#include "collector/thread.h"
#include "collector/torch_api.h"
#include "collector/torch_memory.h"
#include "collector/torch_modules.h"
#include "collector/wait.h"
#include "collector/window.h"

/* How often, inside a window, a process that has no torch is asked again. */
#define LOOK_NS UINT64_C(50000000)
#define FOR_EVER UINT64_C(3600000000000)

enum { NAME_MAX_LEN = 1024, ARGS_MAX = 1024 };

static struct nvtx_domain operators = {
	.recorded = 1, .cat = "cpu_op", .is_operator = 1,
};
static struct nvtx_domain annotations = {
	.recorded = 1, .cat = "user_annotation", .is_projected = 1,
};

static struct torch_api api;

/* A window is open, and the callbacks are in torch's list: under `lock`. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_known, is_in;
static uint64_t callbacks[2];
/* What the callbacks look at. */
static _Atomic bool is_on;
/* Asked for: what the allocator does, modules; and there are some. */
static bool wants_memory, wants_modules;
static _Atomic bool has_modules;
/* Torch's list is gone, or about to go. */
static _Atomic bool is_ending;
/* Changed for our thread to look. */
static _Atomic uint32_t turn;

/* ---- Pairs ---- */

/*
 * What the start of an operator returns comes back at its end: here it says on
 * which thread, and how deep, so that an end on another thread, or one that
 * comes too late, closes nothing else.  It must be an at::ObserverContext: an
 * object with a table of functions, of which the second deletes it.  Torch
 * owns it then, so there is one for all that have the same to say.
 */
enum { THREADS = 256, LEVELS = 32 };

static void keep(void *context)
{
	(void)context;
}

static void (*const context_table[])(void *) = { NULL, NULL, keep, keep };
static struct context {
	const void *table;
} contexts[THREADS][LEVELS];

static void prepare_contexts(void)
{
	for (int i = 0; i < THREADS; i++)
		for (int k = 0; k < LEVELS; k++)
			contexts[i][k].table = &context_table[2];
}

static int own_row(void)
{
	return thread_current ?
		(int)(thread_tid(thread_current) % THREADS) : -1;
}

static struct context *context_of(int level)
{
	if (level < 0)
		return NULL;
	return &contexts[own_row()][level < LEVELS ? level : LEVELS - 1];
}

/* The level of the innermost range; -1: none is open. */
static int64_t innermost(struct nvtx_domain *domain)
{
	struct range_stack *stack = thread_ranges(thread_current);
	int64_t i = open_ranges_find(stack, domain);

	return i < 0 ? -1 : (int64_t)open_ranges_at(stack, (uint32_t)i)->id;
}

/* Also those inside it whose end was elsewhere. */
static void leave(struct nvtx_domain *domain, const struct context *context)
{
	int row = (int)((context - contexts[0]) / LEVELS);
	int level = (int)((context - contexts[0]) % LEVELS);

	if (row != own_row())
		return;
	if (level == LEVELS - 1 || thread_ranges(thread_current)->not_kept)
		(void)source_range_pop(domain);
	else if (innermost(domain) >= level)
		while (source_range_pop(domain) > level)
			;
}

/* ---- What torch calls ---- */

static struct context *enter(struct nvtx_domain *domain, const void *function)
{
	int saved = errno, level;
	char args[ARGS_MAX];
	const char *name;

	/* An asynchronous one (a collective) ends on any thread, after others
	 * that began later: it is no slice of this one. */
	if (!atomic_load_explicit(&is_on, memory_order_relaxed) ||
	    !window_is_open(window_epoch()) || api.is_async(function))
		return NULL;
	name = api.name(function);
	if (!name)
		return NULL;
	if (atomic_load_explicit(&has_modules, memory_order_acquire))
		torch_modules_look(thread_current ?
				   innermost(&operators) + 1 : 0);
	level = source_range_push(domain, name,
		(uint32_t)strnlen(name, NAME_MAX_LEN), args,
		(uint32_t)torch_args(&api, function, args, sizeof args));
	errno = saved;
	return context_of(level);
}

static void end_range(struct nvtx_domain *domain, const void *context)
{
	int saved = errno;

	if (context)
		leave(domain, context);
	errno = saved;
}

/*
 * std::unique_ptr<ObserverContext> (*)(const RecordFunction &): such a pointer
 * has a destructor, so it is returned in memory of the caller's, whose address
 * is the first argument, and the result.  On aarch64 it is in x8.
 */
#ifdef __aarch64__
#define START(name) \
	__attribute__((used)) \
	static void *name##_in(void *out, const void *function); \
	void name(void); \
	__asm__(".text\n.globl " #name "\n.hidden " #name "\n" \
		".type " #name ",%function\n" \
		#name ":\n\tmov x1, x0\n\tmov x0, x8\n\tb " #name "_in\n"); \
	static void *name##_in(void *out, const void *function)
#define START_FUNCTION(name) name
#else
#define START(name) static void *name(void *out, const void *function)
#define START_FUNCTION(name) ((void (*)(void))name)
#endif

START(torch_start_operator)
{
	*(struct context **)out = enter(&operators, function);
	return out;
}

START(torch_start_user)
{
	*(struct context **)out = enter(&annotations, function);
	return out;
}

static void end_operator(const void *function, void *context)
{
	(void)function;
	end_range(&operators, context);
}

static void end_user(const void *function, void *context)
{
	(void)function;
	end_range(&annotations, context);
}

/* ---- In and out of torch's list ---- */

static struct torch_callback operator_callback = {
	.start = START_FUNCTION(torch_start_operator), .end = end_operator,
	.probability = 1,
	.scopes = { [TORCH_FUNCTION] = true, [TORCH_BACKWARD] = true,
		    [TORCH_SCRIPT] = true, [TORCH_LITE] = true,
		    [TORCH_STATIC_OP] = true, [TORCH_STATIC_MODEL] = true },
};
static const struct torch_callback user_callback = {
	.start = START_FUNCTION(torch_start_user), .end = end_user,
	.probability = 1, .scopes = { [TORCH_USER] = true },
};

static void end_torch(void)
{
	atomic_store(&is_ending, true);
}

/* Its list is an object with a destructor, which exists by now: a handler that
 * is added after it runs before it. */
static void see_the_end(void)
{
	static bool is_seen;

	if (!is_seen && !atexit(end_torch))
		is_seen = true;
}

/* Both with `lock` held; torch's own lock is inside them for a moment. */
static void put_in(void)
{
	if (is_in || !is_known || atomic_load(&is_ending))
		return;
	callbacks[0] = api.add(operator_callback);
	callbacks[1] = api.add(user_callback);
	is_in = true;
	see_the_end();
}

static void take_out(void)
{
	if (!is_in || atomic_load(&is_ending))
		return;
	api.remove(callbacks[1]);
	api.remove(callbacks[0]);
	is_in = false;
}

/* A fork waits: the child would find torch's lock taken, for ever. */
static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

/* True while there is something to look for. */
static bool look(void)
{
	struct torch_api found;
	sigset_t before;
	int error;

	if (!atomic_load(&is_on))
		return true;
	error = torch_api_find(&found);
	if (error)
		return error == -EAGAIN;
	if (wants_modules)
		atomic_store(&has_modules, torch_modules_prepare());
	guard_take(&lock, &before);
	api = found;
	is_known = true;
	if (atomic_load(&is_on))
		put_in();
	guard_give(&lock, &before);
	return false;
}

static void *run(void *argument)
{
	uint32_t seen;

	(void)argument;
	do
		seen = atomic_load(&turn);
	while (look() && (wait_change(&turn, seen, atomic_load(&is_on) ?
				      LOOK_NS : FOR_EVER), true));
	return NULL;
}

/* ---- As a source ---- */

static int arm_torch(const struct source_options *options)
{
	int error;

	operator_callback.needs_inputs = options->torch_shapes;
	wants_modules = options->torch_modules;
	wants_memory = options->torch_memory;
	prepare_contexts();
	if (wants_memory)
		torch_memory_arm();
	error = pthread_atfork(before_fork, after_fork, after_fork);
	if (!error)
		error = own_thread_start("gputrace-torch", run, NULL);
	if (error)
		log_line(LOG_WARN, "no operators of PyTorch: no thread could "
			 "be started");
	return error ? -EAGAIN : 0;
}

static void turn_to(bool on)
{
	int cancel = cancel_hold();
	sigset_t before;

	atomic_store(&is_on, on);
	guard_take(&lock, &before);
	if (on)
		put_in();
	else
		take_out();
	guard_give(&lock, &before);
	cancel_release(cancel);
}

static void open_torch(void)
{
	torch_memory_open(wants_memory);
	turn_to(true);
	wait_wake(&turn);
}

static void close_torch(void)
{
	torch_memory_open(false);
	turn_to(false);
}

/* The callbacks stay in the child's list, and find nothing to do. */
static void forget_torch(void)
{
	torch_memory_open(false);
	atomic_store(&is_on, false);
}

const struct source torch_source = {
	.name = "torch", .arm = arm_torch, .open = open_torch,
	.close = close_torch, .forget = forget_torch,
};
