/* SPDX-License-Identifier: MIT */
#include "test/sim/torch_sim.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* at::RecordFunctionCallback, 40 bytes. */
struct callback {
	/* Returns a std::unique_ptr: in memory of the caller's. */
	void *start;
	void (*end)(const void *function, void *context);
	double probability;
	bool scopes[10];
	bool needs_inputs, needs_outputs, needs_ids;
};

/* Offsets that differ; `since` is 100 * major + minor. */
static const struct layout {
	int since;
	size_t forward, sizes, type;
} layouts[] = {
	{ 213, 304, 56, 160 }, { 204, 304, 64, 168 }, { 203, 248, 64, 168 },
	{ 113, 248, 72, 176 },
};

#ifdef SIM_OLD_STRING
enum { SHIFT = 24 };
#define SHOW_CONFIG "_ZN2at11show_configEv"
#else
enum { SHIFT = 0 };
#define SHOW_CONFIG "_ZN2at11show_configB5cxx11Ev"
#endif
enum { THREAD_AT = 88, SCOPE_AT = 96, SEQUENCE_AT = 200 - SHIFT,
       INPUTS_AT = 208 - SHIFT };

static const struct layout *layout = &layouts[1];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	struct callback callback;
	uint64_t handle;
} list[SIM_CALLBACKS];
static int nr_listed;
static _Atomic uint64_t version = 1, last_handle, last_thread;
static _Atomic uint64_t starts, ends, deleted, added, removed;

static __thread struct {
	uint64_t version, thread;
	int nr;
	struct callback callback[SIM_CALLBACKS];
} own;

__attribute__((constructor)) static void choose(void)
{
	const char *text = getenv("SIM_TORCH_VERSION");
	int major, minor;

	if (!text || sscanf(text, "%d.%d", &major, &minor) != 2)
		return;
	for (layout = layouts; layout->since > 100 * major + minor &&
	     layout->since != 113; layout++)
		;
}

/* ---- What the real one exports ---- */

#define AS(symbol) __asm__(symbol)

uint64_t add_callback(struct callback callback)
	AS("_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE");
void remove_callback(uint64_t handle) AS("_ZN2at14removeCallbackEm");
const char *name_of(const struct sim_function *function)
	AS("_ZNK2at14RecordFunction4nameEv");
bool is_async(const struct sim_function *function)
	AS("_ZNK2at14RecordFunction7isAsyncEv");
void show_config(void) AS(SHOW_CONFIG);

uint64_t add_callback(struct callback callback)
{
	uint64_t handle = atomic_fetch_add(&last_handle, 1) + 1;

	pthread_mutex_lock(&lock);
	if (nr_listed == SIM_CALLBACKS)
		abort();
	list[nr_listed].callback = callback;
	list[nr_listed++].handle = handle;
	atomic_fetch_add(&version, 1);
	pthread_mutex_unlock(&lock);
	atomic_fetch_add(&added, 1);
	return handle;
}

void remove_callback(uint64_t handle)
{
	int i = 0;

	pthread_mutex_lock(&lock);
	while (i < nr_listed && list[i].handle != handle)
		i++;
	if (i == nr_listed)
		abort();
	memmove(&list[i], &list[i + 1],
		(size_t)(--nr_listed - i) * sizeof list[0]);
	atomic_fetch_add(&version, 1);
	pthread_mutex_unlock(&lock);
	atomic_fetch_add(&removed, 1);
}

const char *name_of(const struct sim_function *function)
{
	return function->name;
}

bool is_async(const struct sim_function *function)
{
	return function->is_async;
}

void show_config(void)
{
}

/* ---- What programs do with the real one ---- */

static void put(void *object, size_t at, const void *value, size_t size)
{
	memcpy((unsigned char *)object + at, value, size);
}

void simTorchTensor(struct sim_tensor *tensor, int type, int nr,
		    const int64_t *sizes)
{
	size_t dims = (size_t)nr, at = layout->sizes;
	const int64_t *outside = tensor->outside;
	uint16_t short_type = (uint16_t)type;

	memset(tensor, 0xa5, sizeof *tensor);
	memcpy(tensor->outside, sizes, dims * sizeof *sizes);
	put(tensor, at, &dims, sizeof dims);
	if (nr > 5)
		put(tensor, at + 8, &outside, sizeof outside);
	else
		put(tensor, at + 8, sizes, dims * sizeof *sizes);
	put(tensor, layout->type, &short_type, sizeof short_type);
}

static void refresh(void)
{
	if (!own.thread)
		own.thread = atomic_fetch_add(&last_thread, 1) + 1;
	if (own.version == atomic_load(&version))
		return;
	pthread_mutex_lock(&lock);
	own.version = atomic_load(&version);
	own.nr = nr_listed;
	for (int i = 0; i < nr_listed; i++)
		own.callback[i] = list[i].callback;
	pthread_mutex_unlock(&lock);
}

/* The address of the result goes first, or in x8. */
static void call_start(void *start, void **context, const void *function)
{
#ifdef __aarch64__
	register void *out __asm__("x8") = context;
	register const void *in __asm__("x0") = function;

	__asm__ volatile("blr %2" : "+r"(out), "+r"(in) : "r"(start) :
		"memory", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x9",
		"x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x30",
		"cc");
#else
	void *(*call)(void **, const void *) =
		(void *(*)(void **, const void *))start;

	if (call(context, function) != context)
		abort();
#endif
}

void simTorchStart(struct sim_function *function, enum sim_scope scope,
		   const char *name, int64_t sequence, uint64_t forward,
		   const struct sim_value *inputs, size_t nr_inputs)
{
	bool needs_inputs = false;
	struct {
		const struct sim_value *inputs;
		size_t nr;
	} given = { NULL, 0 };

	refresh();
	memset(function->bytes, 0xa5, sizeof function->bytes);
	function->name = name;
	function->nr = 0;
	for (int i = 0; i < own.nr; i++)
		needs_inputs |= own.callback[i].scopes[scope] &&
			own.callback[i].needs_inputs;
	if (needs_inputs) {
		given.inputs = inputs;
		given.nr = nr_inputs;
	}
	put(function, THREAD_AT, &own.thread, sizeof own.thread);
	put(function, SCOPE_AT, &(unsigned char){ (unsigned char)scope }, 1);
	put(function, SEQUENCE_AT, &sequence, sizeof sequence);
	put(function, INPUTS_AT, &given, sizeof given);
	put(function, layout->forward - SHIFT, &forward, sizeof forward);
	for (int i = 0; i < own.nr; i++) {
		if (!own.callback[i].scopes[scope])
			continue;
		function->called[function->nr].context = NULL;
		atomic_fetch_add(&starts, 1);
		call_start(own.callback[i].start,
			   (void **)&function->called[function->nr].context,
			   function);
		function->called[function->nr++].end = own.callback[i].end;
	}
	function->is_async = false;
}

void simTorchSetAsync(struct sim_function *function)
{
	function->is_async = true;
}

/* A context is deleted through the second of its virtual functions. */
void simTorchEnd(struct sim_function *function)
{
	for (int i = 0; i < function->nr; i++) {
		void **context = function->called[i].context;

		atomic_fetch_add(&ends, 1);
		function->called[i].end(function, context);
		if (!context)
			continue;
		atomic_fetch_add(&deleted, 1);
		((void (**)(void *))*context)[1](context);
	}
	function->nr = 0;
}

void simTorchCounts(struct sim_counts *counts)
{
	pthread_mutex_lock(&lock);
	counts->listed = (uint64_t)nr_listed;
	pthread_mutex_unlock(&lock);
	counts->added = atomic_load(&added);
	counts->removed = atomic_load(&removed);
	counts->starts = atomic_load(&starts);
	counts->ends = atomic_load(&ends);
	counts->deleted = atomic_load(&deleted);
}
