/* SPDX-License-Identifier: MIT */
#include "collector/nvtx.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "collector/cupti_api.h"
#include "collector/nvtx_record.h"
#include "collector/nvtx_text.h"
#include "collector/open_ranges.h"
#include "collector/started_ranges.h"
#include "collector/window.h"

/* What NVTX calls a resource, and what we call it. */
static const struct {
	int32_t type;
	enum named_kind what;
} resources[] = {
	{ NVTX_RESOURCE_TYPE_CUDA_DEVICE, NAMED_DEVICE },
	{ NVTX_RESOURCE_TYPE_CUDA_CONTEXT, NAMED_CONTEXT },
	{ NVTX_RESOURCE_TYPE_CUDA_STREAM, NAMED_STREAM },
	{ NVTX_RESOURCE_TYPE_CUDA_EVENT, NAMED_EVENT },
	{ NVTX_RESOURCE_TYPE_CUDART_DEVICE, NAMED_DEVICE },
	{ NVTX_RESOURCE_TYPE_CUDART_STREAM, NAMED_STREAM },
	{ NVTX_RESOURCE_TYPE_CUDART_EVENT, NAMED_EVENT },
	{ NVTX_RESOURCE_TYPE_GENERIC_THREAD_NATIVE, NAMED_THREAD },
};

/* Streams and contexts appear in activities by CUPTI's numbers. */
static void name_resource(int32_t type, uint64_t handle, const char *text,
			  size_t len)
{
	uint32_t id;

	for (size_t i = 0; i < sizeof resources / sizeof *resources; i++) {
		if (resources[i].type != type)
			continue;
		if (resources[i].what == NAMED_STREAM) {
			if (!cupti_stream_id((void *)(uintptr_t)handle, &id))
				return;
			handle = id;
		} else if (resources[i].what == NAMED_CONTEXT) {
			if (!cupti_context_id((void *)(uintptr_t)handle, &id))
				return;
			handle = id;
		}
		nvtx_name(resources[i].what, handle, text, len);
		return;
	}
}

/* ---- The calls, as NVTX makes them ---- */

#define ASCII_MESSAGE(m, text) \
	struct nvtx_message m = { 0 }; \
	nvtx_set_text(&m, text)
#define WIDE_MESSAGE(m, text) \
	struct nvtx_message m = { 0 }; \
	nvtx_set_wide(&m, text)
#define FULL_MESSAGE(m, in, attributes) \
	struct nvtx_message m = { .domain = (const void *)(in) }; \
	nvtx_set_attributes(&m, attributes)

static void mark_ex(const nvtxEventAttributes_t *a)
{
	FULL_MESSAGE(m, NULL, a);
	nvtx_mark(&m);
}

static void mark_a(const char *text)
{
	ASCII_MESSAGE(m, text);
	nvtx_mark(&m);
}

static void mark_w(const wchar_t *text)
{
	WIDE_MESSAGE(m, text);
	nvtx_mark(&m);
}

static nvtxRangeId_t start_ex(const nvtxEventAttributes_t *a)
{
	FULL_MESSAGE(m, NULL, a);
	return nvtx_start(&m);
}

static nvtxRangeId_t start_a(const char *text)
{
	ASCII_MESSAGE(m, text);
	return nvtx_start(&m);
}

static nvtxRangeId_t start_w(const wchar_t *text)
{
	WIDE_MESSAGE(m, text);
	return nvtx_start(&m);
}

static void end(nvtxRangeId_t id)
{
	nvtx_end(id);
}

static int push_ex(const nvtxEventAttributes_t *a)
{
	FULL_MESSAGE(m, NULL, a);
	return nvtx_push(&m);
}

static int push_a(const char *text)
{
	ASCII_MESSAGE(m, text);
	return nvtx_push(&m);
}

static int push_w(const wchar_t *text)
{
	WIDE_MESSAGE(m, text);
	return nvtx_push(&m);
}

static int pop(void)
{
	return nvtx_pop(NULL);
}

static void domain_mark_ex(nvtxDomainHandle_t d,
			   const nvtxEventAttributes_t *a)
{
	FULL_MESSAGE(m, d, a);
	nvtx_mark(&m);
}

static nvtxRangeId_t domain_start_ex(nvtxDomainHandle_t d,
				     const nvtxEventAttributes_t *a)
{
	FULL_MESSAGE(m, d, a);
	return nvtx_start(&m);
}

static void domain_end(nvtxDomainHandle_t d, nvtxRangeId_t id)
{
	(void)d;
	nvtx_end(id);
}

static int domain_push_ex(nvtxDomainHandle_t d,
			  const nvtxEventAttributes_t *a)
{
	FULL_MESSAGE(m, d, a);
	return nvtx_push(&m);
}

static int domain_pop(nvtxDomainHandle_t d)
{
	return nvtx_pop((const void *)d);
}

/* Calls that give a text a place of its own: registered strings, domains,
 * categories, names.  It is cut there; one byte, or character, more than fits
 * says so. */
struct nvtx_wide {
	char text[RECORD_TEXT_MAX + 4];
};

#define TEXT_A(text) (text) ? (text) : "", \
	(text) ? strnlen(text, RECORD_TEXT_MAX + 1) : 0
#define TEXT_W(w, words) (w).text, \
	nvtx_utf8((w).text, sizeof (w).text, words)

static nvtxStringHandle_t register_a(nvtxDomainHandle_t d, const char *text)
{
	return (void *)nvtx_string_create((const void *)d, TEXT_A(text));
}

static nvtxStringHandle_t register_w(nvtxDomainHandle_t d,
				     const wchar_t *text)
{
	struct nvtx_wide w;

	return (void *)nvtx_string_create((const void *)d, TEXT_W(w, text));
}

static nvtxDomainHandle_t domain_create_a(const char *text)
{
	return (void *)nvtx_domain_create(TEXT_A(text));
}

static nvtxDomainHandle_t domain_create_w(const wchar_t *text)
{
	struct nvtx_wide w;

	return (void *)nvtx_domain_create(TEXT_W(w, text));
}

static void domain_destroy(nvtxDomainHandle_t d)
{
	(void)d;        /* records may still point at it */
}

static void initialize(const void *reserved)
{
	(void)reserved;
}

static void domain_category_a(nvtxDomainHandle_t d, uint32_t id,
			      const char *text)
{
	nvtx_category_name((void *)d, id, TEXT_A(text));
}

static void domain_category_w(nvtxDomainHandle_t d, uint32_t id,
			      const wchar_t *text)
{
	struct nvtx_wide w;

	nvtx_category_name((void *)d, id, TEXT_W(w, text));
}

static void category_a(uint32_t id, const char *text)
{
	nvtx_category_name(NULL, id, TEXT_A(text));
}

static void category_w(uint32_t id, const wchar_t *text)
{
	domain_category_w(NULL, id, text);
}

static void os_thread_a(uint32_t tid, const char *text)
{
	nvtx_name(NAMED_THREAD, tid, TEXT_A(text));
}

static void os_thread_w(uint32_t tid, const wchar_t *text)
{
	struct nvtx_wide w;

	nvtx_name(NAMED_THREAD, tid, TEXT_W(w, text));
}

/* Resources of the domain API are named by type and handle. */
static nvtxResourceHandle_t resource_create(nvtxDomainHandle_t d,
					    nvtxResourceAttributes_t *a)
{
	const struct nvtx_text *string;
	struct nvtx_wide w;
	uint64_t handle;

	(void)d;
	if (!a || a->size < sizeof *a)
		return NULL;
	memcpy(&handle, &a->identifier, sizeof handle);
	if (a->messageType == NVTX_MESSAGE_TYPE_ASCII)
		name_resource(a->identifierType, handle,
			      TEXT_A(a->message.ascii));
	else if (a->messageType == NVTX_MESSAGE_TYPE_UNICODE)
		name_resource(a->identifierType, handle,
			      TEXT_W(w, a->message.unicode));
	string = (const void *)a->message.registered;
	if (a->messageType == NVTX_MESSAGE_TYPE_REGISTERED && string)
		name_resource(a->identifierType, handle, string->text,
			      string->len);
	return NULL;
}

static void resource_destroy(nvtxResourceHandle_t resource)
{
	(void)resource;
}

static void cu_device_a(int device, const char *text)
{
	nvtx_name(NAMED_DEVICE, (uint32_t)device, TEXT_A(text));
}

static void cu_device_w(int device, const wchar_t *text)
{
	struct nvtx_wide w;

	nvtx_name(NAMED_DEVICE, (uint32_t)device, TEXT_W(w, text));
}

#define NAME_HANDLE(fn, resource) \
static void fn##_a(void *handle, const char *text) \
{ \
	name_resource(resource, (uintptr_t)handle, TEXT_A(text)); \
} \
static void fn##_w(void *handle, const wchar_t *text) \
{ \
	struct nvtx_wide w; \
\
	name_resource(resource, (uintptr_t)handle, \
			   TEXT_W(w, text)); \
}

NAME_HANDLE(cu_context, NVTX_RESOURCE_TYPE_CUDA_CONTEXT)
NAME_HANDLE(cu_stream, NVTX_RESOURCE_TYPE_CUDA_STREAM)
NAME_HANDLE(cu_event, NVTX_RESOURCE_TYPE_CUDA_EVENT)

/* Call numbers: NVTX_CBID_* of nvtx3/nvtxDetail/nvtxTypes.h; of each module,
 * what begins a range has a lower one than what ends it. */
static const struct nvtx_call {
	uint32_t module, id;
	void *function;
} calls[] = {
	{ 1, 1, mark_ex }, { 1, 2, mark_a }, { 1, 3, mark_w },
	{ 1, 4, start_ex }, { 1, 5, start_a }, { 1, 6, start_w },
	{ 1, 7, end }, { 1, 8, push_ex }, { 1, 9, push_a }, { 1, 10, push_w },
	{ 1, 11, pop }, { 1, 12, category_a }, { 1, 13, category_w },
	{ 1, 14, os_thread_a }, { 1, 15, os_thread_w },
	{ 2, 1, cu_device_a }, { 2, 2, cu_device_w },
	{ 2, 3, cu_context_a }, { 2, 4, cu_context_w },
	{ 2, 5, cu_stream_a }, { 2, 6, cu_stream_w },
	{ 2, 7, cu_event_a }, { 2, 8, cu_event_w },
	{ 4, 1, cu_device_a }, { 4, 2, cu_device_w },
	{ 4, 3, cu_stream_a }, { 4, 4, cu_stream_w },
	{ 4, 5, cu_event_a }, { 4, 6, cu_event_w },
	{ 5, 1, domain_mark_ex }, { 5, 2, domain_start_ex },
	{ 5, 3, domain_end }, { 5, 4, domain_push_ex }, { 5, 5, domain_pop },
	{ 5, 6, resource_create }, { 5, 7, resource_destroy },
	{ 5, 8, domain_category_a }, { 5, 9, domain_category_w },
	{ 5, 10, register_a }, { 5, 11, register_w },
	{ 5, 12, domain_create_a }, { 5, 13, domain_create_w },
	{ 5, 14, domain_destroy }, { 5, 15, initialize },
};

/* ---- Handing the table over ---- */

static _Atomic bool is_attached;

bool nvtx_is_attached(void)
{
	return atomic_load(&is_attached);
}

/* From the last one to the first: what ends a range comes before what begins
 * it, so that no thread in the middle of its calls has a range for ever. */
void nvtx_fill(const struct nvtx_callbacks_table *callbacks,
	       const struct nvtx_version_table *version)
{
	const struct nvtx_call *call = calls + sizeof calls / sizeof *calls;
	void ***table;
	uint32_t nr;

	atomic_store(&is_attached, true);
	if (version && version->size >= sizeof *version)
		version->set_injection_version(NVTX_VERSION);
	while (call-- > calls)
		if (callbacks->module_functions(call->module, &table, &nr) &&
		    call->id < nr && table[call->id])
			__atomic_store_n(table[call->id], call->function,
					 __ATOMIC_RELEASE);
}

int nvtx_attach(void *get_export_table)
{
	nvtx_export_table_fn get = (nvtx_export_table_fn)get_export_table;
	const struct nvtx_callbacks_table *callbacks = get ? get(1) : NULL;

	if (!callbacks || callbacks->size < sizeof *callbacks)
		return 0;
	nvtx_fill(callbacks, get(3));
	return 1;
}

void nvtx_select_domains(const char *globs)
{
	nvtx_domain_select(globs);
	nvtx_record_default(nvtx_default_domain()->recorded);
}

size_t nvtx_carry(struct thread *thread, uint32_t epoch, void *buffer,
		  size_t size)
{
	size_t used;

	if (nvtx_is_muted())
		return 0;
	used = open_ranges_copy(thread_ranges(thread), epoch, buffer, size);
	for (size_t at = 0; at < used; ) {
		struct range_record *record =
			(void *)((uint8_t *)buffer + at);

		record->head.t_ns = window_opened_ns(epoch);
		record->flags |= RECORD_CARRIED;
		at += record->head.size;
	}
	return used;
}

size_t nvtx_carry_started(uint32_t epoch, void *buffer, size_t size)
{
	return nvtx_is_muted() ? 0 : started_ranges_copy(epoch, buffer, size);
}
