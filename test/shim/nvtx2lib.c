/* SPDX-License-Identifier: MIT */
/*
 * What libnvToolsExt.so.1 is (NVTX 2, part of CUDA up to 12.8), as seen in
 * that of 12.4: a library with one table for all that use it, which looks for
 * a tool at its first call and then never again.  What it exports as
 * nvtxGetExportTable is something else than what it gives to a tool.  Loaded
 * by host/late under that name.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

enum { PUSH = 8, POP = 10, NR = 63 };   /* slots of nvtxRangePushA and Pop */

typedef void (*function)(void);

const void *nvtxGetExportTable(uint32_t id);
int nvtxRangePushA(const char *message);
int nvtxRangePop(void);
int user_call(const char *name);

static void first(void);
static int push_first(const char *message);
static int pop_first(void);

static function slots[NR] = {
	[0 ... PUSH - 1] = first, [PUSH] = (function)push_first,
	[PUSH + 1 ... POP - 1] = first, [POP] = (function)pop_first,
	[POP + 1 ... NR - 1] = first,
};

#define S2(i) &slots[i], &slots[(i) + 1]
#define S6(i) S2(i), S2((i) + 2), S2((i) + 4)
#define S14(i) S6(i), S6((i) + 6), S2((i) + 12)
static function *core[] = { NULL, S14(0), &slots[14], NULL };
static function *cuda[] = { NULL, S6(15), S2(21), NULL };
static function *opencl[] = { NULL, S14(23), NULL };
static function *cudart[] = { NULL, S6(37), NULL };
static function *core2[] = { NULL, S14(43), NULL };
static function *sync[] = { NULL, S6(57), NULL };
static function **const modules[] = {
	NULL, core, cuda, opencl, cudart, core2, sync,
};
static const unsigned int sizes[] = { 0, 16, 9, 15, 7, 15, 7 };

static int module_table(uint32_t module, function ***out, unsigned int *size)
{
	if (module > 6)
		return 0;
	*out = modules[module];
	*size = sizes[module];
	return 1;
}

static const struct {
	size_t size;
	int (*module_table)(uint32_t, function ***, unsigned int *);
} callbacks = { sizeof(callbacks), module_table };

static const void *for_tools(uint32_t id)
{
	return id == 1 ? &callbacks : NULL;
}

/* Not for us. */
static int attach(void)
{
	abort();
}

static const struct {
	size_t size;
	int (*attach)(void), (*detach)(void);
} exported = { sizeof(exported), attach, attach };

const void *nvtxGetExportTable(uint32_t id)
{
	return id == 1 ? &exported : NULL;
}

static void first(void)
{
	const char *path = getenv("NVTX_INJECTION64_PATH");
	void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
	int (*init)(const void *(*)(uint32_t)) = NULL;
	int i;

	if (library)
		init = (int (*)(const void *(*)(uint32_t)))
			dlsym(library, "InitializeInjectionNvtx2");
	if (init && init(for_tools))
		return;
	for (i = 0; i < NR; i++)
		slots[i] = NULL;
}

static int push_first(const char *message)
{
	first();
	return nvtxRangePushA(message);
}

static int pop_first(void)
{
	first();
	return nvtxRangePop();
}

int nvtxRangePushA(const char *message)
{
	function push = __atomic_load_n(&slots[PUSH], __ATOMIC_ACQUIRE);

	return push ? ((int (*)(const char *))push)(message) : -2;
}

int nvtxRangePop(void)
{
	function pop = __atomic_load_n(&slots[POP], __ATOMIC_ACQUIRE);

	return pop ? ((int (*)(void))pop)() : -2;
}

int user_call(const char *name)
{
	int level = nvtxRangePushA(name);

	nvtxRangePop();
	return level;
}
