// SPDX-License-Identifier: MIT
/* Modules, libraries and kernels, read from PTX text. */
#include "test/sim/cuda_sim.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t type_size(const char *type)
{
	size_t bits = 0;

	while (*type && !isdigit((unsigned char)*type))
		type++;
	bits = strtoul(type, NULL, 10);
	return bits ? bits / 8 : 8;
}

/* `.param .align 8 .b8 name[24]` or `.param .u64 name` */
static void add_parameter(CUfunction f, const char *text)
{
	char type[16] = "", name[256] = "";
	unsigned int n = f->parameter_count, count = 1;
	const char *dot = strstr(text, ".param");
	size_t size, at = 0;

	if (!dot || n >= SIM_MAX_PARAMETERS)
		return;
	dot += 6;
	if (strstr(dot, ".align"))
		dot = strstr(dot, ".align") + 6;
	dot = strchr(dot, '.');
	if (!dot || sscanf(dot, ".%15[a-z0-9] %255[^] \t\n,)[]", type, name) < 2)
		return;
	if (strchr(dot, '['))
		count = (unsigned int)strtoul(strchr(dot, '[') + 1, NULL, 10);
	size = type_size(type) * (count ? count : 1);
	if (n)
		at = f->parameter_offset[n - 1] + f->parameter_size[n - 1];
	at = (at + 7) & ~(size_t)(size >= 8 ? 7 : size - 1);
	f->parameter_offset[n] = at;
	f->parameter_size[n] = size;
	f->parameter_count++;
	if (n == 0 && size == 8 && strlen(name) > 3)
		f->timed = !strcmp(name + strlen(name) - 3, "_ns");
}

static void read_parameters(CUfunction f, const char *open)
{
	const char *end = strchr(open, ')');
	char *list, *save, *part;

	if (!end)
		return;
	list = strndup(open + 1, (size_t)(end - open) - 1);
	for (part = strtok_r(list, ",", &save); part;
	     part = strtok_r(NULL, ",", &save))
		add_parameter(f, part);
	free(list);
}

/* SIM_NAME_HEX: hex_6122 is a" */
static const char *decoded(const char *hex)
{
	char *out = calloc(1, strlen(hex) / 2 + 1);
	char digits[3] = "";

	for (size_t i = 0; hex[2 * i] && hex[2 * i + 1]; i++) {
		memcpy(digits, hex + 2 * i, 2);
		out[i] = (char)strtoul(digits, NULL, 16);
	}
	return out;
}

/* SIM_NAME_BYTES, SIM_NAME_RAW: names that no compiler would make. */
static const char *shown_name(const char *name)
{
	if (sim_env_number("SIM_NAME_HEX", 0) && !strncmp(name, "hex_", 4))
		return decoded(name + 4);

	size_t wanted = sim_env_number("SIM_NAME_BYTES", 0);
	bool raw = sim_env_number("SIM_NAME_RAW", 0);
	size_t n = strlen(name);
	char *out;

	if (!raw && wanted <= n)
		return name;
	if (wanted < n + (raw ? 256 : 0))
		wanted = n + (raw ? 256 : 0);
	out = malloc(wanted + 1);
	memcpy(out, name, n);
	for (size_t i = n; i < wanted; i++)
		out[i] = raw ? (char)(1 + (i - n) % 255) :
			(char)('a' + i % 26);
	out[wanted] = 0;
	return out;
}

/* The `.shared .align 16 .b8 name[BYTES];` lines of one entry. */
static unsigned int static_smem(const char *entry)
{
	const char *end = strstr(entry, ".entry");
	const char *at = entry, *bracket;
	unsigned int bytes = 0;

	while ((at = strstr(at, ".shared ")) && (!end || at < end)) {
		bracket = at + strcspn(at, "[;\n");
		if (*bracket == '[')
			bytes += (unsigned int)strtoul(bracket + 1, NULL, 10);
		at = bracket;
	}
	return bytes;
}

static void add_function(CUmodule m, const char *entry)
{
	CUfunction f = calloc(1, sizeof(*f));
	size_t n;

	while (isspace((unsigned char)*entry))
		entry++;
	n = strcspn(entry, " \t\n({");
	f->module = m;
	f->name = strndup(entry, n);
	f->shown = shown_name(f->name);
	f->loaded = !m->lazy;
	entry += n;
	entry += strspn(entry, " \t\n");
	if (*entry == '(')
		read_parameters(f, entry);
	f->static_smem = static_smem(entry);
	f->next = m->functions;
	m->functions = f;
	m->function_count++;
}

static void tell_load(struct sim_load *load)
{
	CUcontext c = sim_context();

	load->device = c ? c->device : 0;
	load->end = sim_now();
	if (sim_hooks())
		sim_hooks()->load(load);
}

/*
 * The compute cache, of this process alone: what was compiled before comes from
 * there (H200). It is a set of hashes (FNV-1a); a full one forgets.
 */
static bool is_cached(const char *text)
{
	static uint64_t seen[256];
	uint64_t hash = 0xcbf29ce484222325u;

	while (*text)
		hash = (hash ^ (unsigned char)*text++) * 0x100000001b3u;
	return __atomic_exchange_n(&seen[hash % 256], hash,
				   __ATOMIC_RELAXED) == hash;
}

static CUresult load(CUmodule *out, const void *image)
{
	const char *eager = getenv("CUDA_MODULE_LOADING");
	const char *text = image;
	struct sim_load load = { .compiled = true, .start = sim_now() };
	CUmodule m;

	if (!out || !image)
		return CUDA_ERROR_INVALID_VALUE;
	if (!strstr(text, ".version") || !strstr(text, ".entry"))
		return CUDA_ERROR_INVALID_IMAGE;
	m = calloc(1, sizeof(*m));
	m->lazy = !eager || strcmp(eager, "EAGER");
	while ((text = strstr(text, ".entry"))) {
		text += 6;
		add_function(m, text);
	}
	load.cached = is_cached(image);
	tell_load(&load);
	*out = m;
	return CUDA_SUCCESS;
}

static CUresult load_in_context(CUmodule *out, const void *image)
{
	return sim_context() ? load(out, image) : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult load_file(CUmodule *out, const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = NULL;
	size_t size = 0;
	CUresult r = CUDA_ERROR_FILE_NOT_FOUND;

	if (!file)
		return r;
	if (getdelim(&text, &size, 0, file) > 0)
		r = load_in_context(out, text);
	fclose(file);
	free(text);
	return r;
}

static CUresult find(CUfunction *out, CUmodule m, const char *name)
{
	if (!out || !m || !name)
		return CUDA_ERROR_INVALID_VALUE;
	for (CUfunction f = m->functions; f; f = f->next)
		if (!strcmp(f->name, name))
			return *out = f, CUDA_SUCCESS;
	return CUDA_ERROR_NOT_FOUND;
}

/*
 * Lazy loading, which waits for running work (H200): at the first launch of a
 * library's kernel, but of a module's when the program asks for it.
 */
void sim_load_function(CUfunction f)
{
	struct sim_load load = { .start = sim_now() };
	bool loaded;

	if (__atomic_load_n(&f->loaded, __ATOMIC_ACQUIRE))
		return;
	sim_load_lock();
	loaded = f->loaded;
	if (!loaded)
		sim_wait_context(sim_context());
	__atomic_store_n(&f->loaded, true, __ATOMIC_RELEASE);
	sim_load_unlock();
	if (!loaded)
		tell_load(&load);
}

static CUresult find_loaded(CUfunction *out, CUmodule m, const char *name)
{
	CUresult r = sim_context() ? find(out, m, name) :
		CUDA_ERROR_INVALID_CONTEXT;

	if (!r)
		sim_load_function(*out);
	return r;
}

static CUresult attribute(int *out, CUfunction_attribute a, CUfunction f)
{
	if (!out || !f)
		return CUDA_ERROR_INVALID_VALUE;
	switch (a) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*out = 1024;
		break;
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
		*out = (int)f->static_smem;
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*out = 32;
		break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
		*out = 70;
		break;
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*out = 90;
		break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*out = f->max_dynamic_smem ? f->max_dynamic_smem : 49152;
		break;
	default:
		*out = 0;
	}
	return CUDA_SUCCESS;
}

static CUresult set_attribute(CUfunction f, CUfunction_attribute a, int value)
{
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	if (a == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
		f->max_dynamic_smem = value;
	return CUDA_SUCCESS;
}

static CUresult parameter(CUfunction f, size_t i, size_t *offset, size_t *size)
{
	if (!f || i >= f->parameter_count)
		return CUDA_ERROR_INVALID_VALUE;
	if (offset)
		*offset = f->parameter_offset[i];
	if (size)
		*size = f->parameter_size[i];
	return CUDA_SUCCESS;
}

/* 64 warps, 65,536 registers (32 a thread), 32 blocks an SM. */
static CUresult occupancy(int *out, int block, size_t smem)
{
	int warps = (block + 31) / 32, blocks = 32;

	if (!out || block < 1 || block > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	if (64 / warps < blocks)
		blocks = 64 / warps;
	if (smem && (int)(233472 / (smem + 1024)) < blocks)
		blocks = (int)(233472 / (smem + 1024));
	*out = blocks;
	return CUDA_SUCCESS;
}

static CUresult best_block(int *grid, int *block, int limit)
{
	*block = limit > 0 && limit < 1024 ? limit : 1024;
	*grid = 132 * (2048 / *block);
	return CUDA_SUCCESS;
}

SIM_API(cuModuleLoadData, (CUmodule *m, const void *p), load_in_context(m, p))
SIM_API(cuModuleLoadDataEx, (CUmodule *m, const void *p, unsigned int n,
	CUjit_option *o, void **v),
	((void)n, (void)o, (void)v, load_in_context(m, p)))
SIM_API(cuModuleLoad, (CUmodule *m, const char *path), load_file(m, path))
SIM_API(cuModuleUnload, (CUmodule m),
	(m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE))
SIM_API(cuModuleGetFunction, (CUfunction *f, CUmodule m, const char *name),
	find_loaded(f, m, name))
SIM_API(cuModuleGetFunctionCount, (unsigned int *n, CUmodule m),
	(*n = m->function_count, CUDA_SUCCESS))
SIM_API(cuModuleGetLoadingMode, (CUmoduleLoadingMode *m),
	(*m = CU_MODULE_LAZY_LOADING, CUDA_SUCCESS))
SIM_API(cuLibraryLoadData, (CUlibrary *l, const void *p, CUjit_option *o,
	void **v, unsigned int n, CUlibraryOption *q, void **w,
	unsigned int k),
	((void)o, (void)v, (void)n, (void)q, (void)w, (void)k,
	 load((CUmodule *)l, p)))
SIM_API(cuLibraryUnload, (CUlibrary l), ((void)l, CUDA_SUCCESS))
SIM_API(cuLibraryGetKernel, (CUkernel *k, CUlibrary l, const char *name),
	find((CUfunction *)k, (CUmodule)l, name))
SIM_API(cuLibraryGetModule, (CUmodule *m, CUlibrary l),
	(*m = (CUmodule)l, CUDA_SUCCESS))
SIM_API(cuKernelGetFunction, (CUfunction *f, CUkernel k),
	(*f = (CUfunction)k, CUDA_SUCCESS))
SIM_API(cuKernelGetName, (const char **s, CUkernel k),
	(*s = ((CUfunction)k)->name, CUDA_SUCCESS))
SIM_API(cuFuncGetName, (const char **s, CUfunction f),
	(*s = f->name, CUDA_SUCCESS))
SIM_API(cuFuncGetModule, (CUmodule *m, CUfunction f),
	(*m = f->module, CUDA_SUCCESS))
SIM_API(cuFuncGetAttribute, (int *v, CUfunction_attribute a, CUfunction f),
	attribute(v, a, f))
SIM_API(cuKernelGetAttribute, (int *v, CUfunction_attribute a, CUkernel k,
	CUdevice d), ((void)d, attribute(v, a, (CUfunction)k)))
SIM_API(cuFuncSetAttribute, (CUfunction f, CUfunction_attribute a, int v),
	set_attribute(f, a, v))
SIM_API(cuKernelSetAttribute, (CUfunction_attribute a, int v, CUkernel k,
	CUdevice d), ((void)d, set_attribute((CUfunction)k, a, v)))
SIM_API(cuFuncSetCacheConfig, (CUfunction f, CUfunc_cache c),
	((void)f, (void)c, CUDA_SUCCESS))
SIM_API(cuFuncLoad, (CUfunction f), (sim_load_function(f), CUDA_SUCCESS))
SIM_API(cuFuncGetParamInfo, (CUfunction f, size_t i, size_t *o, size_t *s),
	parameter(f, i, o, s))
SIM_API(cuKernelGetParamInfo, (CUkernel k, size_t i, size_t *o, size_t *s),
	parameter((CUfunction)k, i, o, s))
SIM_API(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *n, CUfunction f,
	int block, size_t smem), ((void)f, occupancy(n, block, smem)))
SIM_API(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, (int *n,
	CUfunction f, int block, size_t smem, unsigned int flags),
	((void)f, (void)flags, occupancy(n, block, smem)))
SIM_API(cuOccupancyMaxPotentialBlockSize, (int *grid, int *block, CUfunction f,
	CUoccupancyB2DSize b, size_t smem, int limit),
	((void)f, (void)b, (void)smem, best_block(grid, block, limit)))
