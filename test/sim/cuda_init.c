// SPDX-License-Identifier: MIT
/* cuInit, the injected library, the end of the process, API calls as such. */
#include "test/sim/cuda_sim.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static const struct sim_hooks *_Atomic hooks;
static atomic_int state;		/* 0 new, 1 ready, 2 past exit */
static atomic_bool finished;		/* cuInit came to its end */
static pid_t owner;			/* the process that called cuInit */
static __thread struct sim_call *current;

void sim_lock(void)
{
	pthread_mutex_lock(&lock);
}

void sim_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void sim_load_lock(void)
{
	pthread_mutex_lock(&load_lock);
}

void sim_load_unlock(void)
{
	pthread_mutex_unlock(&load_lock);
}

const struct sim_hooks *sim_hooks(void)
{
	return atomic_load_explicit(&hooks, memory_order_acquire);
}

void sim_set_hooks(const struct sim_hooks *table)
{
	atomic_store_explicit(&hooks, table, memory_order_release);
}

bool sim_claim(const struct sim_hooks *table)
{
	static _Atomic(const struct sim_hooks *) owner;
	const struct sim_hooks *found = NULL;

	return atomic_compare_exchange_strong(&owner, &found, table) ||
		found == table;
}

bool sim_is_initialized(void)
{
	return atomic_load(&state) == 1 && atomic_load(&finished);
}

bool sim_is_dead(void)
{
	return atomic_load(&state) == 2;
}

struct sim_call *sim_current_call(void)
{
	return current;
}

/* Calls that work, or only fail, without cuInit. */
static bool needs_init(unsigned int cbid)
{
	return cbid != CUPTI_DRIVER_TRACE_CBID_cuInit &&
	       cbid != CUPTI_DRIVER_TRACE_CBID_cuDriverGetVersion;
}

static CUresult usable(unsigned int cbid)
{
	if (sim_is_dead())
		return CUDA_ERROR_DEINITIALIZED;
	if (needs_init(cbid) && !atomic_load(&state))
		return CUDA_ERROR_NOT_INITIALIZED;
	/* a child that was forked after cuInit has no device */
	if (atomic_load(&state) && owner != getpid())
		return CUDA_ERROR_NOT_INITIALIZED;
	return CUDA_SUCCESS;
}

CUresult sim_enter(struct sim_call *call, unsigned int domain,
		   unsigned int cbid)
{
	const struct sim_hooks *h = sim_hooks();
	CUresult r = domain == SIM_DRIVER ? usable(cbid) : CUDA_SUCCESS;

	memset(call, 0, sizeof(*call));
	call->domain = domain;
	call->cbid = cbid;
	call->outer = current;
	current = call;
	if (h && !r) {
		call->observed = true;
		call->context = sim_context();
		h->enter(call);
	}
	return r;
}

CUresult sim_leave(struct sim_call *call, CUresult result)
{
	const struct sim_hooks *h = sim_hooks();

	if (h && call->observed)
		h->leave(call, result);
	current = call->outer;
	return result;
}

static void at_exit(void)
{
	if (owner == getpid())
		atomic_store(&state, 2);
}

static void inject(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	int (*entry)(void);
	void *library;

	if (!path || !*path)
		return;
	library = dlopen(path, RTLD_NOW);
	if (!library)
		return;
	entry = (int (*)(void))dlsym(library, "InitializeInjection");
	if (entry)
		entry();
}

static CUresult initialize(unsigned int flags)
{
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_count())
		return CUDA_ERROR_NO_DEVICE;
	pthread_mutex_lock(&init_lock);
	if (!atomic_load(&state)) {
		owner = getpid();
		atexit(at_exit);
		atomic_store(&state, 1);
		inject();
		atomic_store(&finished, true);
		if (sim_hooks())
			sim_hooks()->resource(&(struct sim_resource){
				.cbid = 5 /* CU_INIT_FINISHED */ });
	}
	pthread_mutex_unlock(&init_lock);
	return CUDA_SUCCESS;
}

SIM_API(cuInit, (unsigned int flags), initialize(flags))

static CUresult get_version(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = (int)sim_env_number("SIM_DRIVER_VERSION", 13000);
	return CUDA_SUCCESS;
}

SIM_API(cuDriverGetVersion, (int *version), get_version(version))
SIM_API(cuProfilerStart, (void), CUDA_SUCCESS)
SIM_API(cuProfilerStop, (void), CUDA_SUCCESS)

SIM_EXPORT CUresult CUDAAPI cuGetExportTable(const void **table,
					     const CUuuid *id)
{
	(void)id;
	*table = NULL;
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* This library, also when it was opened without RTLD_GLOBAL. */
static void *own_handle(void)
{
	Dl_info place;

	if (!dladdr((void *)cuInit, &place))
		return RTLD_DEFAULT;
	return dlopen(place.dli_fname, RTLD_NOW | RTLD_NOLOAD);
}

/* NAME_v4 ... NAME_v2, then NAME: the newest that `version` knew. */
static void *find_newest(const char *symbol, int version)
{
	char newest = version >= 13000 ? '4' : version >= 11040 ? '3' : '2';
	void *own = own_handle(), *f = NULL;
	char name[256];

	for (char v = newest; v >= '2' && !f; v--) {
		size_t n = strlen(symbol);

		if (n + 4 > sizeof(name))
			return NULL;
		memcpy(name, symbol, n);
		memcpy(name + n, (char[]){ '_', 'v', v, 0 }, 4);
		f = dlsym(own, name);
	}
	return f ? f : dlsym(own, symbol);
}

static CUresult find_function(const char *symbol, void **f, int version,
			      CUdriverProcAddressQueryResult *status)
{
	if (!symbol || !f)
		return CUDA_ERROR_INVALID_VALUE;
	*f = find_newest(symbol, version);
	if (status)
		*status = *f ? CU_GET_PROC_ADDRESS_SUCCESS :
			CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return *f || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

SIM_API(cuGetProcAddress_v2, (const char *symbol, void **f, int version,
	cuuint64_t flags, CUdriverProcAddressQueryResult *status),
	((void)flags, find_function(symbol, f, version, status)))

#undef cuGetProcAddress
CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **f, int version,
				  cuuint64_t flags);
SIM_API(cuGetProcAddress, (const char *symbol, void **f, int version,
	cuuint64_t flags),
	((void)flags, find_function(symbol, f, version, NULL)))

static const struct {
	CUresult code;
	const char *name, *text;
} errors[] = {
	{ CUDA_SUCCESS, "CUDA_SUCCESS", "no error" },
	{ CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE",
	  "invalid argument" },
	{ CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY",
	  "out of memory" },
	{ CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED",
	  "initialization error" },
	{ CUDA_ERROR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED",
	  "driver shutting down" },
	{ CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE",
	  "no CUDA-capable device is detected" },
	{ CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE",
	  "invalid device ordinal" },
	{ CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE",
	  "device kernel image is invalid" },
	{ CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT",
	  "invalid device context" },
	{ CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE",
	  "invalid resource handle" },
	{ CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND",
	  "named symbol not found" },
	{ CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready" },
	{ CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED",
	  "operation not supported" },
	{ CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
	  "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
	  "operation not permitted when stream is capturing" },
	{ CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
	  "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
	  "operation failed due to a previous error during capture" },
	{ CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
	  "an illegal memory access was encountered" },
	{ CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error" },
};

static const char *error_text(CUresult code, bool name)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].code == code)
			return name ? errors[i].name : errors[i].text;
	return NULL;
}

SIM_EXPORT CUresult CUDAAPI cuGetErrorName(CUresult code, const char **text)
{
	*text = error_text(code, true);
	return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult CUDAAPI cuGetErrorString(CUresult code, const char **text)
{
	*text = error_text(code, false);
	return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
