// SPDX-License-Identifier: MIT
/* Finding libcupti, activity buffers, and the list of records they held. */
#include "test/sim/conf.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct conf_cupti cupti;
struct conf_record conf_records[CONF_RECORDS];
struct conf_buffer conf_buffers[CONF_BUFFERS];
unsigned int conf_record_count, conf_buffer_count, conf_completed;
size_t conf_buffer_size = 256 << 10, conf_buffer_limit;
bool conf_refuse;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char path[4096];
static struct {
	int tid;
	const char *name;
} threads[64];
static unsigned int thread_count;

static void *open_glob(const char *pattern)
{
	void *handle = NULL;
	glob_t g;

	if (glob(pattern, 0, NULL, &g))
		return NULL;
	for (size_t i = g.gl_pathc; i-- && !handle;)
		handle = dlopen(g.gl_pathv[i], RTLD_NOW | RTLD_GLOBAL);
	globfree(&g);
	return handle;
}

static void *open_cupti(void)
{
	static const char *const places[] = {
		"/usr/local/cuda*/lib64/libcupti.so.13*",
		"/usr/local/cuda*/extras/CUPTI/lib64/libcupti.so.1*",
		"/usr/l*/**/dist-packages/nvidia/cu13/lib/libcupti.so.13",
		"/usr/local/lib/python3*/*-packages/nvidia/cu13/lib/libcupti.so.13",
		"/usr/local/lib/python3*/*-packages/nvidia/cuda_cupti/lib/libcupti.so.1*",
	};
	const char *asked = getenv("CONFORMANCE_CUPTI");
	void *handle;

	if (asked && *asked)
		return dlopen(asked, RTLD_NOW | RTLD_GLOBAL);
	handle = dlopen("libcupti.so.13", RTLD_NOW | RTLD_GLOBAL);
	for (size_t i = 0; !handle && i < sizeof(places) / sizeof(*places); i++)
		handle = open_glob(places[i]);
	return handle;
}

int conf_load_cupti(void)
{
	void *handle = open_cupti();
	Dl_info place;

	if (!handle)
		return -1;
#define F(n) cupti.n = (__typeof__(cupti.n))dlsym(handle, "cupti" #n);
	CONF_CUPTI_LIST(F)
#undef F
	if (cupti.GetVersion && dladdr((void *)cupti.GetVersion, &place))
		snprintf(path, sizeof(path), "%s", place.dli_fname);
	return cupti.GetVersion && cupti.ActivityEnable ? 0 : -1;
}

const char *conf_cupti_path(void)
{
	return path;
}

/* Far from every other clock, so that a record shows whose time it tells. */
uint64_t conf_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return 3000000000000000000ull + (uint64_t)t.tv_sec * 1000000000ull +
	       (uint64_t)t.tv_nsec;
}

double conf_seconds(void)
{
	return (double)(conf_clock() - 3000000000000000000ull) / 1e9;
}

int conf_tid(void)
{
	return gettid();
}

void conf_name_thread(const char *name)
{
	pthread_mutex_lock(&lock);
	if (thread_count < 64) {
		threads[thread_count].tid = conf_tid();
		threads[thread_count++].name = name;
	}
	pthread_mutex_unlock(&lock);
}

const char *conf_thread(int tid)
{
	if (!tid)
		return "never";
	for (unsigned int i = thread_count; i--;)
		if (threads[i].tid == tid)
			return threads[i].name;
	return tid == getpid() ? "main" : "worker";
}

static void CUPTIAPI requested(uint8_t **buffer, size_t *size, size_t *limit)
{
	struct conf_buffer *b;
	void *memory = NULL;

	*buffer = NULL;
	*size = 0;
	*limit = conf_buffer_limit;
	if (conf_refuse || posix_memalign(&memory, 8, conf_buffer_size))
		return;
	memset(memory, 0xa5, conf_buffer_size);
	pthread_mutex_lock(&lock);
	if (conf_buffer_count < CONF_BUFFERS) {
		b = &conf_buffers[conf_buffer_count++];
		b->memory = memory;
		b->size = conf_buffer_size;
		b->requested_on = conf_tid();
	}
	pthread_mutex_unlock(&lock);
	*buffer = memory;
	*size = conf_buffer_size;
}

static void read_kernel(struct conf_record *r, const CUpti_Activity *a)
{
	const CUpti_ActivityKernel10 *k = (const void *)a;

	*r = (struct conf_record){
		.corr = k->correlationId, .ctx = k->contextId,
		.stream = k->streamId, .device = k->deviceId,
		.graph = k->graphId, .node = k->graphNodeId,
		.channel = k->channelType, .start = k->start, .end = k->end,
		.completed = k->completed, .queued = k->queued,
		.submitted = k->submitted, .name = k->name,
		.grid = { k->gridX, k->gridY, k->gridZ },
		.block = { k->blockX, k->blockY, k->blockZ },
		.cluster = { k->clusterX, k->clusterY, k->clusterZ },
		.launch_type = k->launchType,
		.dynamic_smem = (unsigned int)k->dynamicSharedMemory,
	};
}

static void read_copy(struct conf_record *r, const CUpti_Activity *a)
{
	const CUpti_ActivityMemcpy6 *m = (const void *)a;

	*r = (struct conf_record){
		.corr = m->correlationId, .ctx = m->contextId,
		.stream = m->streamId, .device = m->deviceId,
		.graph = m->graphId, .node = m->graphNodeId,
		.channel = m->channelType, .start = m->start, .end = m->end,
		.copy = m->copyKind, .src = m->srcKind, .dst = m->dstKind,
		.flags = m->flags, .bytes = m->bytes,
		.type = (unsigned int)m->copyCount,
	};
}

static void read_peer_copy(struct conf_record *r, const CUpti_Activity *a)
{
	const CUpti_ActivityMemcpyPtoP4 *m = (const void *)a;

	*r = (struct conf_record){
		.corr = m->correlationId, .ctx = m->contextId,
		.stream = m->streamId, .device = m->deviceId,
		.graph = m->graphId, .node = m->graphNodeId,
		.channel = m->channelType, .start = m->start, .end = m->end,
		.copy = m->copyKind, .src = m->srcKind, .dst = m->dstKind,
		.flags = m->flags, .bytes = m->bytes,
	};
}

static void read_set(struct conf_record *r, const CUpti_Activity *a)
{
	const CUpti_ActivityMemset4 *m = (const void *)a;

	*r = (struct conf_record){
		.corr = m->correlationId, .ctx = m->contextId,
		.stream = m->streamId, .device = m->deviceId,
		.graph = m->graphId, .node = m->graphNodeId,
		.channel = m->channelType, .start = m->start, .end = m->end,
		.dst = m->memoryKind, .flags = m->flags, .bytes = m->bytes,
		.type = m->value,
	};
}

static void read_api(struct conf_record *r, const CUpti_Activity *a)
{
	const CUpti_ActivityAPI *p = (const void *)a;

	*r = (struct conf_record){
		.corr = p->correlationId, .cbid = p->cbid, .start = p->start,
		.end = p->end, .tid = p->threadId, .ret = p->returnValue,
	};
}

static void read_sync(struct conf_record *r, const CUpti_Activity *a)
{
	const CUpti_ActivitySynchronization2 *s = (const void *)a;

	*r = (struct conf_record){
		.corr = s->correlationId, .type = s->type, .start = s->start,
		.end = s->end, .ctx = s->contextId, .stream = s->streamId,
		.event = s->cudaEventId, .sync_id = s->cudaEventSyncId,
		.ret = s->returnValue,
	};
}

static void read_event(struct conf_record *r, const CUpti_Activity *a)
{
	const CUpti_ActivityCudaEvent2 *e = (const void *)a;

	*r = (struct conf_record){
		.corr = e->correlationId, .ctx = e->contextId,
		.stream = e->streamId, .event = e->eventId,
		.device = e->deviceId, .start = e->deviceTimestamp,
		.sync_id = e->cudaEventSyncId,
	};
}

static void read_object(struct conf_record *r, const CUpti_Activity *a)
{
	const CUpti_ActivityStream *s = (const void *)a;
	const CUpti_ActivityContext3 *c = (const void *)a;
	const CUpti_ActivityDevice5 *d = (const void *)a;

	*r = (struct conf_record){ 0 };
	if (a->kind == CUPTI_ACTIVITY_KIND_STREAM) {
		r->corr = s->correlationId;
		r->ctx = s->contextId;
		r->stream = s->streamId;
		r->priority = s->priority;
		r->flags = s->flag;
	} else if (a->kind == CUPTI_ACTIVITY_KIND_CONTEXT) {
		r->ctx = c->contextId;
		r->device = c->deviceId;
		r->type = c->computeApiKind;
		r->stream = c->nullStreamId;
		r->src = c->parentContextId;
		r->flags = c->isGreenContext;
	} else {
		r->device = d->id;
		r->flags = d->isCudaVisible;
		r->src = d->isMigEnabled;
		r->name = d->name;
	}
}

static void read_memory(struct conf_record *r, const CUpti_Activity *a)
{
	const CUpti_ActivityMemory4 *m = (const void *)a;
	const CUpti_ActivityMemoryPool3 *p = (const void *)a;

	if (a->kind == CUPTI_ACTIVITY_KIND_MEMORY2)
		*r = (struct conf_record){
			.corr = m->correlationId,
			.type = m->memoryOperationType, .dst = m->memoryKind,
			.bytes = m->bytes, .ctx = m->contextId,
			.stream = m->streamId, .flags = m->isAsync,
			.src = m->memoryPoolConfig.memoryPoolType,
			.name = m->name,
		};
	else
		*r = (struct conf_record){
			.corr = p->correlationId,
			.type = p->memoryPoolOperationType,
			.src = p->memoryPoolType, .device = p->deviceId,
		};
}

static void read_other(struct conf_record *r, const CUpti_Activity *a)
{
	const CUpti_ActivityGraphTrace2 *g = (const void *)a;
	const CUpti_ActivityExternalCorrelation *x = (const void *)a;
	const CUpti_ActivityOverhead3 *o = (const void *)a;
	const CUpti_ActivityJit2 *j = (const void *)a;

	*r = (struct conf_record){ 0 };
	if (a->kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE) {
		r->corr = g->correlationId;
		r->ctx = g->contextId;
		r->stream = g->streamId;
		r->graph = g->graphId;
		r->start = g->start;
		r->end = g->end;
	} else if (a->kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) {
		r->corr = x->correlationId;
		r->type = x->externalKind;
		r->bytes = x->externalId;
	} else if (a->kind == CUPTI_ACTIVITY_KIND_OVERHEAD) {
		r->corr = o->correlationId;
		r->type = o->overheadKind;
		r->src = o->objectKind;
		r->start = o->start;
		r->end = o->end;
	} else if (a->kind == CUPTI_ACTIVITY_KIND_JIT) {
		r->corr = j->correlationId;
		r->type = j->jitOperationType;
		r->src = j->jitEntryType;
		r->start = j->start;
		r->end = j->end;
	}
}

static void read_record(struct conf_record *r, const CUpti_Activity *a)
{
	switch ((int)a->kind) {
	case CUPTI_ACTIVITY_KIND_KERNEL:
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		return read_kernel(r, a);
	case CUPTI_ACTIVITY_KIND_MEMCPY:
		return read_copy(r, a);
	case CUPTI_ACTIVITY_KIND_MEMCPY2:
		return read_peer_copy(r, a);
	case CUPTI_ACTIVITY_KIND_MEMSET:
		return read_set(r, a);
	case CUPTI_ACTIVITY_KIND_DRIVER:
	case CUPTI_ACTIVITY_KIND_RUNTIME:
		return read_api(r, a);
	case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
		return read_sync(r, a);
	case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
		return read_event(r, a);
	case CUPTI_ACTIVITY_KIND_STREAM:
	case CUPTI_ACTIVITY_KIND_CONTEXT:
	case CUPTI_ACTIVITY_KIND_DEVICE:
		return read_object(r, a);
	case CUPTI_ACTIVITY_KIND_MEMORY2:
	case CUPTI_ACTIVITY_KIND_MEMORY_POOL:
		return read_memory(r, a);
	default:
		return read_other(r, a);
	}
}

static struct conf_buffer *find_buffer(const uint8_t *memory)
{
	for (unsigned int i = conf_buffer_count; i--;)
		if (conf_buffers[i].memory == memory &&
		    !conf_buffers[i].completed_on)
			return &conf_buffers[i];
	return NULL;
}

static void CUPTIAPI completed(CUcontext context, uint32_t stream,
			       uint8_t *memory, size_t size, size_t valid)
{
	CUpti_Activity *a = NULL;
	struct conf_buffer *b;

	(void)context;
	(void)stream;
	pthread_mutex_lock(&lock);
	b = find_buffer(memory);
	while (b && valid && conf_record_count < CONF_RECORDS &&
	       !cupti.ActivityGetNextRecord(memory, valid, &a)) {
		struct conf_record *r = &conf_records[conf_record_count];

		read_record(r, a);
		r->kind = a->kind;
		r->buffer = (unsigned int)(b - conf_buffers);
		conf_record_count++;
	}
	if (b) {
		b->valid = valid;
		b->zeroed = valid + 8 <= size && memory[size - 1] == 0;
		b->completed_on = conf_tid();
		conf_completed++;
	}
	pthread_mutex_unlock(&lock);
	/* never freed: a late writer must not corrupt the observer's heap */
}

int conf_set_attribute(int attribute, uint64_t value, size_t size)
{
	return cupti.ActivitySetAttribute((CUpti_ActivityAttribute)attribute,
					  &size, &value);
}

void conf_set_per_thread(int on)
{
	MUST(conf_set_attribute(CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER,
				(uint64_t)on, 1));
}

void conf_trace(const int *kinds)
{
	cupti.SetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
	MUST(cupti.ActivityRegisterTimestampCallback(conf_clock));
	MUST(cupti.ActivityRegisterCallbacks(requested, completed));
	for (; *kinds; kinds++)
		MUST(cupti.ActivityEnable((CUpti_ActivityKind)*kinds));
}

void conf_settle(void)
{
	unsigned int before;

	for (int i = 0; i < 10; i++) {
		before = conf_count_completed();
		cupti.ActivityFlushAll(0);
		usleep(20000);
		if (i > 1 && before == conf_count_completed())
			break;
	}
}

unsigned int conf_count_completed(void)
{
	unsigned int n;

	pthread_mutex_lock(&lock);
	n = conf_completed;
	pthread_mutex_unlock(&lock);
	return n;
}

unsigned int conf_count_outstanding(void)
{
	unsigned int n;

	pthread_mutex_lock(&lock);
	n = conf_buffer_count - conf_completed;
	pthread_mutex_unlock(&lock);
	return n;
}

void conf_forget(void)
{
	pthread_mutex_lock(&lock);
	conf_record_count = 0;
	pthread_mutex_unlock(&lock);
}

unsigned int conf_count(unsigned int kind)
{
	unsigned int n = 0;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < conf_record_count; i++)
		n += conf_records[i].kind == kind;
	pthread_mutex_unlock(&lock);
	return n;
}

unsigned int conf_count_ended(unsigned int kind)
{
	unsigned int n = 0;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < conf_record_count; i++)
		n += conf_records[i].kind == kind && conf_records[i].end;
	pthread_mutex_unlock(&lock);
	return n;
}

unsigned int conf_count_buffers(const char *requested_on)
{
	unsigned int n = 0;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < conf_buffer_count; i++)
		n += !strcmp(conf_thread(conf_buffers[i].requested_on),
			     requested_on);
	pthread_mutex_unlock(&lock);
	return n;
}
