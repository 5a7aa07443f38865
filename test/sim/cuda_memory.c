// SPDX-License-Identifier: MIT
/* Memory: "device" memory is untouched host memory under another name. */
#include "test/sim/cuda_sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define TOTAL_MEMORY (141ull << 30)

struct range {
	uint64_t address, bytes;
	unsigned int kind;		/* CUPTI's memory kind */
	CUmemoryPool pool;
	bool mapped;
};

static struct range *ranges;		/* by address */
static size_t range_count, range_space;
static _Atomic uint64_t used;
static CUmemoryPool pools, standard[SIM_MAX_DEVICES];

/* The first range behind `address`; caller holds the lock. */
static size_t upper(uint64_t address)
{
	size_t low = 0, high = range_count;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (ranges[mid].address <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool add_range(const struct range *r)
{
	size_t at;

	if (range_count == range_space) {
		size_t space = range_space ? 2 * range_space : 64;
		void *more = realloc(ranges, space * sizeof(*ranges));

		if (!more)
			return false;
		ranges = more;
		range_space = space;
	}
	at = upper(r->address);
	memmove(&ranges[at + 1], &ranges[at],
		(range_count - at) * sizeof(*ranges));
	ranges[at] = *r;
	range_count++;
	return true;
}

static struct range *find_range(uint64_t address)
{
	size_t at = upper(address);

	if (!at || address - ranges[at - 1].address >= ranges[at - 1].bytes)
		return NULL;
	return &ranges[at - 1];
}

unsigned int sim_memory_kind(const void *address)
{
	struct range *r;
	unsigned int kind = 1;

	sim_lock();
	r = find_range((uint64_t)(uintptr_t)address);
	if (r)
		kind = r->kind;
	sim_unlock();
	return kind;
}

static void tell(const struct range *r, unsigned int operation, CUstream s)
{
	CUcontext c = sim_context();
	struct sim_memory m = {
		.operation = operation, .kind = r->kind, .address = r->address,
		.bytes = r->bytes, .context = c ? c->id : 0,
		.device = c ? c->device : 0, .stream = s ? s->id : ~0u,
		.async = s != NULL, .pool = (uint64_t)(uintptr_t)r->pool,
	};

	if (sim_hooks())
		sim_hooks()->memory(&m);
}

static void tell_pool(CUmemoryPool pool, unsigned int operation)
{
	struct sim_memory m = {
		.operation = operation, .device = pool->device,
		.bytes = pool->reserved, .pool = (uint64_t)(uintptr_t)pool,
		.pool_operation = true,
	};

	if (sim_hooks())
		sim_hooks()->memory(&m);
}

static CUresult allocate(uint64_t *out, size_t bytes, unsigned int kind,
			 CUmemoryPool pool, CUstream s)
{
	struct range r = { .bytes = bytes, .kind = kind, .pool = pool,
			   .mapped = true };
	void *p;
	bool ok;

	if (!sim_context())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!out || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (kind == 3 && used + bytes > TOTAL_MEMORY)
		return CUDA_ERROR_OUT_OF_MEMORY;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r.address = *out = (uint64_t)(uintptr_t)p;
	sim_lock();
	ok = add_range(&r);
	used += kind == 3 ? bytes : 0;
	if (pool) {
		pool->used += bytes;
		if (pool->reserved < pool->used)
			pool->reserved = pool->used;
	}
	sim_unlock();
	if (!ok)
		return CUDA_ERROR_OUT_OF_MEMORY;
	tell(&r, 1, s);
	return CUDA_SUCCESS;
}

static CUresult release(uint64_t address, CUstream s)
{
	struct range r = { 0 }, *found;

	if (!address)
		return CUDA_SUCCESS;
	sim_lock();
	found = find_range(address);
	if (found && found->address == address) {
		r = *found;
		used -= r.kind == 3 ? r.bytes : 0;
		if (r.pool)
			r.pool->used -= r.bytes;
		memmove(found, found + 1, (size_t)(&ranges[range_count] -
			(found + 1)) * sizeof(*found));
		range_count--;
	}
	sim_unlock();
	if (!r.address)
		return CUDA_ERROR_INVALID_VALUE;
	if (r.mapped)
		munmap((void *)(uintptr_t)r.address, r.bytes);
	tell(&r, 2, s);
	return CUDA_SUCCESS;
}

/* cuMemFree waits until the device is idle. */
static CUresult release_idle(uint64_t address)
{
	if (sim_context())
		sim_wait_context(sim_context());
	return release(address, NULL);
}

static CUresult register_host(void *p, size_t bytes)
{
	struct range r = { .address = (uint64_t)(uintptr_t)p, .bytes = bytes,
			   .kind = 2 };
	bool ok;

	if (!p || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	ok = add_range(&r);
	sim_unlock();
	return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult memory_left(size_t *available, size_t *total)
{
	*total = TOTAL_MEMORY;
	*available = TOTAL_MEMORY - used;
	return CUDA_SUCCESS;
}

static CUresult address_range(CUdeviceptr *base, size_t *size, CUdeviceptr p)
{
	struct range *r, copy = { 0 };

	sim_lock();
	r = find_range(p);
	if (r)
		copy = *r;
	sim_unlock();
	if (!copy.address)
		return CUDA_ERROR_NOT_FOUND;
	if (base)
		*base = copy.address;
	if (size)
		*size = copy.bytes;
	return CUDA_SUCCESS;
}

static CUresult pointer_attribute(void *out, CUpointer_attribute a,
				  CUdeviceptr p)
{
	unsigned int kind = sim_memory_kind((void *)(uintptr_t)p);

	if (kind == 1)
		return CUDA_ERROR_INVALID_VALUE;
	if (a == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
		*(unsigned int *)out = kind == 2 ? CU_MEMORYTYPE_HOST :
			CU_MEMORYTYPE_DEVICE;
	else if (a == CU_POINTER_ATTRIBUTE_DEVICE_POINTER ||
		 a == CU_POINTER_ATTRIBUTE_HOST_POINTER)
		*(CUdeviceptr *)out = p;
	else if (a == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
		*(int *)out = 0;
	else
		return CUDA_ERROR_NOT_SUPPORTED;
	return CUDA_SUCCESS;
}

SIM_API(cuMemGetInfo_v2, (size_t *a, size_t *b), memory_left(a, b))
SIM_API(cuMemAlloc_v2, (CUdeviceptr *p, size_t n),
	allocate((uint64_t *)p, n, 3, NULL, NULL))
SIM_API(cuMemAllocPitch_v2, (CUdeviceptr *p, size_t *pitch, size_t w, size_t h,
	unsigned int e), ((void)e, *pitch = (w + 511) & ~(size_t)511,
	allocate((uint64_t *)p, *pitch * h, 3, NULL, NULL)))
SIM_API(cuMemAllocManaged, (CUdeviceptr *p, size_t n, unsigned int f),
	((void)f, allocate((uint64_t *)p, n, 5, NULL, NULL)))
SIM_API(cuMemFree_v2, (CUdeviceptr p), release_idle(p))
SIM_API(cuMemAllocHost_v2, (void **p, size_t n),
	allocate((uint64_t *)p, n, 2, NULL, NULL))
SIM_API(cuMemHostAlloc, (void **p, size_t n, unsigned int f),
	((void)f, allocate((uint64_t *)p, n, 2, NULL, NULL)))
SIM_API(cuMemFreeHost, (void *p), release_idle((uint64_t)(uintptr_t)p))
SIM_API(cuMemHostRegister_v2, (void *p, size_t n, unsigned int f),
	((void)f, register_host(p, n)))
SIM_API(cuMemHostUnregister, (void *p), release((uint64_t)(uintptr_t)p, NULL))
SIM_API(cuMemHostGetDevicePointer_v2, (CUdeviceptr *d, void *p,
	unsigned int f), ((void)f, *d = (CUdeviceptr)(uintptr_t)p,
	CUDA_SUCCESS))
SIM_API(cuMemGetAddressRange_v2, (CUdeviceptr *b, size_t *n, CUdeviceptr p),
	address_range(b, n, p))
SIM_API(cuPointerGetAttribute, (void *v, CUpointer_attribute a,
	CUdeviceptr p), pointer_attribute(v, a, p))

static CUmemoryPool new_pool(unsigned int device)
{
	CUmemoryPool pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->device = device;
	sim_lock();
	pool->next = pools;
	pools = pool;
	sim_unlock();
	tell_pool(pool, 1);
	return pool;
}

static CUmemoryPool standard_pool(unsigned int device)
{
	if (!standard[device])
		standard[device] = new_pool(device);
	return standard[device];
}

static CUresult create_pool(CUmemoryPool *out, const CUmemPoolProps *props)
{
	if (!out || !props || props->location.id < 0 ||
	    (unsigned int)props->location.id >= sim_device_count())
		return CUDA_ERROR_INVALID_VALUE;
	*out = new_pool((unsigned int)props->location.id);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult trim(CUmemoryPool pool)
{
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	pool->reserved = pool->used;
	tell_pool(pool, 3);
	return CUDA_SUCCESS;
}

static CUresult destroy_pool(CUmemoryPool pool)
{
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	for (CUmemoryPool *at = &pools; *at; at = &(*at)->next)
		if (*at == pool) {
			*at = pool->next;
			break;
		}
	sim_unlock();
	tell_pool(pool, 2);
	return CUDA_SUCCESS;
}

void sim_pools_trim(void)
{
	for (CUmemoryPool p = pools; p; p = p->next)
		if (p->reserved > p->used && p->reserved > p->threshold)
			trim(p);
}

static CUresult allocate_async(uint64_t *out, size_t bytes, CUmemoryPool pool,
			       CUstream s)
{
	if (!s)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!pool)
		pool = standard_pool(s->context->device);
	return allocate(out, bytes, 3, pool, s);
}

static CUresult pool_attribute(CUmemoryPool pool, CUmemPool_attribute a,
			       uint64_t *value, bool set)
{
	if (!pool || !value)
		return CUDA_ERROR_INVALID_VALUE;
	if (a == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && set)
		pool->threshold = *value;
	else if (!set)
		*value = a == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ?
			pool->threshold : a == CU_MEMPOOL_ATTR_USED_MEM_CURRENT ?
			pool->used : pool->reserved;
	return CUDA_SUCCESS;
}

SIM_API(cuMemAllocAsync, (CUdeviceptr *p, size_t n, CUstream s),
	allocate_async((uint64_t *)p, n, NULL, sim_stream(s)))
SIM_API(cuMemAllocFromPoolAsync, (CUdeviceptr *p, size_t n, CUmemoryPool q,
	CUstream s), allocate_async((uint64_t *)p, n, q, sim_stream(s)))
SIM_API(cuMemFreeAsync, (CUdeviceptr p, CUstream s),
	release(p, sim_stream(s)))
SIM_API(cuMemPoolCreate, (CUmemoryPool *q, const CUmemPoolProps *p),
	create_pool(q, p))
SIM_API(cuMemPoolDestroy, (CUmemoryPool q), destroy_pool(q))
SIM_API(cuMemPoolTrimTo, (CUmemoryPool q, size_t keep), ((void)keep, trim(q)))
SIM_API(cuMemPoolSetAttribute, (CUmemoryPool q, CUmemPool_attribute a,
	void *v), pool_attribute(q, a, v, true))
SIM_API(cuMemPoolGetAttribute, (CUmemoryPool q, CUmemPool_attribute a,
	void *v), pool_attribute(q, a, v, false))
SIM_API(cuDeviceGetDefaultMemPool, (CUmemoryPool *q, CUdevice d),
	(*q = standard_pool((unsigned int)d), CUDA_SUCCESS))
SIM_API(cuDeviceGetMemPool, (CUmemoryPool *q, CUdevice d),
	(*q = standard_pool((unsigned int)d), CUDA_SUCCESS))
