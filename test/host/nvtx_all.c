/* SPDX-License-Identifier: MIT */
/*
 * nvtx_all: every call of NVTX 3, and the ways in which programs get it wrong.
 *
 * Shows: ranges of all forms (A, W, Ex, domains, registered strings), starts
 * ended by another thread, marks, each kind of payload, categories, colours,
 * names of threads and CUDA objects, hostile text, deep nesting, ranges of two
 * domains that cross, pops and ends without a beginning, a range that is open
 * before CUDA starts.  A kernel runs inside some of them.
 */
#include <math.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCuda.h>
#include <nvtx3/nvToolsExtSync.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test/host/gpu.h"

#define DEEP 60
#define LONG_NAME 5000

static nvtxDomainHandle_t domain_a, domain_w;

static nvtxEventAttributes_t text(const char *name)
{
	nvtxEventAttributes_t a = {
		.version = NVTX_VERSION,
		.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
		.messageType = NVTX_MESSAGE_TYPE_ASCII,
		.message.ascii = name,
	};
	return a;
}

static nvtxEventAttributes_t wide(const wchar_t *name)
{
	nvtxEventAttributes_t a = text(NULL);

	a.messageType = NVTX_MESSAGE_TYPE_UNICODE;
	a.message.unicode = name;
	return a;
}

static nvtxEventAttributes_t registered(nvtxStringHandle_t name)
{
	nvtxEventAttributes_t a = text(NULL);

	a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	a.message.registered = name;
	return a;
}

static void ranges_of_all_forms(void)
{
	nvtxEventAttributes_t a = text("push ex ascii");
	nvtxEventAttributes_t w = wide(L"push ex wide \u6f22\u5b57 \U0001f600");
	nvtxEventAttributes_t r = registered(
		nvtxDomainRegisterStringA(domain_a, "registered A"));
	nvtxEventAttributes_t rw = registered(
		nvtxDomainRegisterStringW(domain_w, L"registered W \u00e9"));

	nvtxRangePushA("push ascii");
	nvtxRangePushW(L"push wide \u00e9");
	nvtxRangePushEx(&a);
	nvtxRangePushEx(&w);
	nvtxDomainRangePushEx(domain_a, &r);
	nvtxDomainRangePushEx(domain_w, &rw);
	nvtxDomainRangePop(domain_w);
	nvtxDomainRangePop(domain_a);
	nvtxRangePop();
	nvtxRangePop();
	nvtxRangePop();
	nvtxRangePop();
	TALLY("ranges", "all forms", 6);
}

static void *end_ranges(void *arg)
{
	nvtxRangeId_t *ids = arg;

	nvtxRangeEnd(ids[0]);
	nvtxRangeEnd(ids[1]);
	nvtxRangeEnd(ids[2]);
	nvtxDomainRangeEnd(domain_a, ids[3]);
	return NULL;
}

/* Started here, with a kernel inside, ended by another thread. */
static void ranges_across_threads(const struct gpu *gpu)
{
	nvtxEventAttributes_t ex = text("start ex"), d = text("start domain");
	nvtxRangeId_t ids[4];
	pthread_t thread;

	ids[0] = nvtxRangeStartA("start ascii");
	ids[1] = nvtxRangeStartW(L"start wide");
	ids[2] = nvtxRangeStartEx(&ex);
	ids[3] = nvtxDomainRangeStartEx(domain_a, &d);
	gpu_launch(gpu, KERNEL_ADD, NULL, 20000);
	TALLY("gpu", "kernels", 1);
	TALLY("started", "start", 4);
	if (pthread_create(&thread, NULL, end_ranges, ids))
		exit(EXIT_FAILURE);
	pthread_join(thread, NULL);
}

static void marks(void)
{
	nvtxEventAttributes_t ex = text("mark ex"), d = text("mark domain");

	nvtxMarkA("mark ascii");
	nvtxMarkW(L"mark wide");
	nvtxMarkEx(&ex);
	nvtxDomainMarkEx(domain_a, &d);
	TALLY("marks", "mark", 4);
}

static void push_payload(const char *name, nvtxPayloadType_t type,
			 const void *bits, size_t size)
{
	nvtxEventAttributes_t a = text(name);

	a.payloadType = type;
	memcpy(&a.payload, bits, size);
	nvtxRangePushEx(&a);
	nvtxRangePop();
	TALLY("ranges", "payload", 1);
}

static void payloads(void)
{
	uint64_t u64 = UINT64_MAX;
	int64_t i64 = INT64_MIN;
	uint32_t u32 = UINT32_MAX;
	int32_t i32 = INT32_MIN;
	double d = 0.1, not_a_number = NAN, huge = INFINITY;
	float f = 0.5f;

	push_payload("payload u64", NVTX_PAYLOAD_TYPE_UNSIGNED_INT64, &u64, 8);
	push_payload("payload i64", NVTX_PAYLOAD_TYPE_INT64, &i64, 8);
	push_payload("payload u32", NVTX_PAYLOAD_TYPE_UNSIGNED_INT32, &u32, 4);
	push_payload("payload i32", NVTX_PAYLOAD_TYPE_INT32, &i32, 4);
	push_payload("payload double", NVTX_PAYLOAD_TYPE_DOUBLE, &d, 8);
	push_payload("payload float", NVTX_PAYLOAD_TYPE_FLOAT, &f, 4);
	push_payload("payload nan", NVTX_PAYLOAD_TYPE_DOUBLE,
		     &not_a_number, 8);
	push_payload("payload inf", NVTX_PAYLOAD_TYPE_DOUBLE, &huge, 8);
	push_payload("payload unknown", 77, &u64, 8);
}

static void categories_and_colours(void)
{
	nvtxEventAttributes_t a = text("category 1"), d = text("category 2");

	nvtxNameCategoryA(1, "first category");
	nvtxNameCategoryW(3, L"wide category");
	nvtxDomainNameCategoryA(domain_a, 2, "domain's category");
	nvtxDomainNameCategoryW(domain_w, 2, L"wide domain's category");
	a.category = 1;
	a.colorType = NVTX_COLOR_ARGB;
	a.color = 0xff112233;
	d.category = 2;
	nvtxRangePushEx(&a);
	nvtxDomainRangePushEx(domain_a, &d);
	nvtxDomainRangePop(domain_a);
	nvtxRangePop();
	TALLY("ranges", "category", 2);
}

static void push_pop(const char *name)
{
	nvtxRangePushA(name);
	nvtxRangePop();
	TALLY("ranges", "hostile", 1);
}

/* Text that breaks careless writers of JSON. */
static void hostile_text(void)
{
	static const wchar_t surrogate[] = { 'w', 0xd83d, 'x', 0x110000, 0 };
	nvtxEventAttributes_t cut = text("never read");
	char *name = malloc(LONG_NAME + 1);

	if (!name)
		exit(EXIT_FAILURE);
	push_pop("quote \" backslash \\ slash / brace }");
	push_pop("control \x01\x02\x1f\x7f tab\t newline\n return\r end");
	push_pop("invalid \xff\xfe \xc3( \xe2\x82 \xf0\x9f\x98 "
		 "\xed\xa0\xbd end");
	push_pop("overlong \xc0\xaf \xf8\x88\x80\x80\x80 end");
	push_pop("");
	push_pop(NULL);
	memset(name, 'n', LONG_NAME);
	name[LONG_NAME] = '\0';
	push_pop(name);
	memset(name, '\x01', LONG_NAME);
	push_pop(name);
	free(name);
	nvtxRangePushW(surrogate);
	nvtxRangePop();
	cut.size = 24;                /* ends before the message */
	nvtxRangePushEx(&cut);
	nvtxRangePop();
	nvtxRangePushEx(NULL);
	nvtxRangePop();
	TALLY("ranges", "hostile", 3);
}

static void deep_nesting(const struct gpu *gpu)
{
	char name[32];
	int i, level = 0;

	for (i = 0; i < DEEP; i++) {
		snprintf(name, sizeof(name), "deep %d", i);
		level = nvtxRangePushA(name);
	}
	gpu_launch(gpu, KERNEL_COPY, NULL, 20000);
	TALLY("gpu", "kernels", 1);
	for (i = 0; i < DEEP; i++)
		nvtxRangePop();
	TALLY("ranges", "deep", DEEP);
	TALLY("levels", "deepest", level);
}

/* Each domain nests by itself: these two cross on the thread's time line. */
static void crossing_domains(void)
{
	nvtxEventAttributes_t a = text("cross first"), w = text("cross second");

	nvtxDomainRangePushEx(domain_a, &a);
	nvtxDomainRangePushEx(domain_w, &w);
	usleep(100);
	nvtxDomainRangePop(domain_a);
	usleep(100);
	nvtxDomainRangePop(domain_w);
	TALLY("ranges", "cross", 2);
}

static void mistakes(void)
{
	nvtxRangeId_t id = nvtxRangeStartA("ended twice");

	nvtxRangeEnd(id);
	nvtxRangeEnd(id);
	nvtxRangeEnd(0x123456789);
	nvtxRangeEnd(0);
	nvtxDomainRangeEnd(domain_a, 42);
	nvtxRangePop();               /* closes "before cuda" */
	nvtxRangePop();
	nvtxDomainRangePop(domain_a);
	nvtxRangeStartA("never ended");
	nvtxRangePushA("never popped");
	TALLY("started", "mistake", 2);
	TALLY("ranges", "never popped", 1);
}

static void *named_thread(void *arg)
{
	(void)arg;
	nvtxNameOsThreadW(syscall(SYS_gettid), L"worker \u00e9");
	nvtxRangePushA("on the worker");
	nvtxRangePop();
	return NULL;
}

static void names_of_things(const struct gpu *gpu)
{
	pthread_t thread;
	CUstream stream, wstream;
	CUevent event;

	CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	CU(cuStreamCreate, &wstream, CU_STREAM_NON_BLOCKING);
	CU(cuEventCreate, &event, CU_EVENT_DEFAULT);
	nvtxNameOsThreadA(syscall(SYS_gettid), "main \"thread\"");
	nvtxNameCuDeviceA(gpu->device, "the device");
	nvtxNameCuContextA(gpu->context, "the context");
	nvtxNameCuStreamA(stream, "the stream");
	nvtxNameCuStreamW(wstream, L"the wide stream \u00e9");
	nvtxNameCuEventA(event, "the event");
	gpu_launch(gpu, KERNEL_SILU, stream, 5000);
	gpu_launch(gpu, KERNEL_SILU, wstream, 5000);
	TALLY("gpu", "kernels", 2);
	CU(cuEventRecord, event, stream);
	CU(cuEventSynchronize, event);
	if (pthread_create(&thread, NULL, named_thread, NULL))
		exit(EXIT_FAILURE);
	pthread_join(thread, NULL);
	TALLY("ranges", "on the worker", 1);
}

/* Accepted, and of no consequence for a trace. */
static void resources(void)
{
	nvtxResourceAttributes_t r = {
		.version = NVTX_VERSION,
		.size = NVTX_RESOURCE_ATTRIB_STRUCT_SIZE,
		.identifierType = NVTX_RESOURCE_TYPE_GENERIC_POINTER,
		.identifier.pValue = &r,
		.messageType = NVTX_MESSAGE_TYPE_ASCII,
		.message.ascii = "resource",
	};
	nvtxSyncUserAttributes_t s = {
		.version = NVTX_VERSION,
		.size = NVTX_SYNCUSER_ATTRIB_STRUCT_SIZE,
		.messageType = NVTX_MESSAGE_TYPE_ASCII,
		.message.ascii = "lock",
	};
	nvtxResourceHandle_t resource;
	nvtxSyncUser_t lock;

	nvtxInitialize(NULL);
	resource = nvtxDomainResourceCreate(domain_a, &r);
	nvtxDomainResourceDestroy(resource);
	lock = nvtxDomainSyncUserCreate(domain_a, &s);
	nvtxDomainSyncUserAcquireStart(lock);
	nvtxDomainSyncUserAcquireFailed(lock);
	nvtxDomainSyncUserAcquireSuccess(lock);
	nvtxDomainSyncUserReleasing(lock);
	nvtxDomainSyncUserDestroy(lock);
}

int main(void)
{
	struct gpu gpu;

	nvtxRangePushA("before cuda");
	domain_a = nvtxDomainCreateA("domain A");
	domain_w = nvtxDomainCreateW(L"domain W \u00e9");
	gpu_open(&gpu, 0);
	ranges_of_all_forms();
	ranges_across_threads(&gpu);
	marks();
	payloads();
	categories_and_colours();
	hostile_text();
	deep_nesting(&gpu);
	crossing_domains();
	names_of_things(&gpu);
	resources();
	mistakes();
	nvtxDomainDestroy(domain_w);
	gpu_close(&gpu);
	tally_print();
	return EXIT_SUCCESS;
}
