/* SPDX-License-Identifier: MIT */
#include "collector/nvtx_payload.h"

#include <string.h>

#include "collector/nvtx.h"
#include "collector/nvtx_record.h"
#include "collector/nvtx_schema.h"

/* ---- From what the program passes to a record ---- */

/* Bytes of one whose size the program leaves to us: what its schema or type
 * says, a string up to its zero, else none. */
static size_t find_size(const struct nvtx_domain *domain,
			const nvtxPayloadData_t *payload)
{
	struct schema_field type = { .size = 0 };

	if (!schema_of_type(domain, payload->schemaId, &type))
		return 0;
	if (type.is_text)
		return type.size > 1 ? 0 : strnlen(payload->payload,
						   PAYLOAD_BYTES_MAX + 1);
	return type.size;
}

static size_t size_of(const struct nvtx_domain *domain,
		      const nvtxPayloadData_t *payload)
{
	if (!payload->payload || payload->schemaId == SCHEMA_REFERENCED)
		return 0;
	return payload->size != SIZE_MAX ? payload->size :
		find_size(domain, payload);
}

void nvtx_payload_set(struct nvtx_message *message, const void *payloads,
		      size_t nr)
{
	const nvtxPayloadData_t *payload = payloads;
	size_t len = 0, used = 0, i, size;

	if (!payload || !nr)
		return;
	for (i = 0; i < nr && i < PAYLOADS_MAX; i++) {
		size = size_of(message->domain, &payload[i]);
		if (size > PAYLOAD_BYTES_MAX - used) {
			size = PAYLOAD_BYTES_MAX - used;
			message->flags |= RECORD_PAYLOAD_CUT;
		}
		used += size;
		len += sizeof(struct payload_head) + payload_padded(size);
	}
	if (i < nr)
		message->flags |= RECORD_PAYLOAD_CUT;
	message->flags |= RECORD_PAYLOAD;
	message->args = payloads;
	message->args_len = (uint32_t)len;
	message->payload = i;
}

/* Another thread may be changing them: what does not fit any more is cut. */
void nvtx_payload_copy(const struct nvtx_message *message, char *to)
{
	const nvtxPayloadData_t *payload = (const void *)message->args;
	const char *end = to + message->args_len;
	size_t used = 0, i, size, room;

	memset(to, 0, message->args_len);
	for (i = 0; i < message->payload; i++) {
		struct payload_head head = { .schema = payload[i].schemaId };

		if ((size_t)(end - to) < sizeof head)
			return;
		room = (size_t)(end - to) - sizeof head;
		size = size_of(message->domain, &payload[i]);
		if (size > PAYLOAD_BYTES_MAX - used)
			size = PAYLOAD_BYTES_MAX - used;
		if (size > room)
			size = room;
		head.len = (uint32_t)size;
		memcpy(to, &head, sizeof head);
		to += sizeof head;
		if (size)
			memcpy(to, payload[i].payload, size);
		to += payload_padded(size);
		used += size;
	}
}

/* ---- The calls, as NVTX makes them ---- */

/* An event whose name and attributes are in its payload. */
#define PAYLOAD_MESSAGE(m, in, payloads, nr) \
	struct nvtx_message m = { .domain = (const void *)(in) }; \
	nvtx_payload_set(&m, payloads, nr)

static uint64_t register_schema(nvtxDomainHandle_t d,
				const nvtxPayloadSchemaAttr_t *a)
{
	return schema_register((void *)d, a);
}

static uint64_t register_enum(nvtxDomainHandle_t d,
			      const nvtxPayloadEnumAttr_t *a)
{
	return schema_register_enum((void *)d, a);
}

static void mark(nvtxDomainHandle_t d, const nvtxPayloadData_t *payloads,
		 size_t nr)
{
	PAYLOAD_MESSAGE(m, d, payloads, nr);
	nvtx_mark(&m);
}

static int push(nvtxDomainHandle_t d, const nvtxPayloadData_t *payloads,
		size_t nr)
{
	PAYLOAD_MESSAGE(m, d, payloads, nr);
	return nvtx_push(&m);
}

static int pop(nvtxDomainHandle_t d, const nvtxPayloadData_t *payloads,
	       size_t nr)
{
	PAYLOAD_MESSAGE(m, d, payloads, nr);
	return nvtx_pop_with(&m);
}

static nvtxRangeId_t start(nvtxDomainHandle_t d,
			   const nvtxPayloadData_t *payloads, size_t nr)
{
	PAYLOAD_MESSAGE(m, d, payloads, nr);
	return nvtx_start(&m);
}

static void end(nvtxDomainHandle_t d, nvtxRangeId_t id,
		const nvtxPayloadData_t *payloads, size_t nr)
{
	PAYLOAD_MESSAGE(m, d, payloads, nr);
	nvtx_end_with(id, &m);
}

/* Whoever asks does so to spare itself work for nobody. */
static uint8_t is_enabled(nvtxDomainHandle_t d)
{
	const struct nvtx_domain *domain = (const void *)d;

	return (domain ? domain : nvtx_default_domain())->recorded;
}

static void *const functions[] = {
	[NVTX3EXT_CBID_nvtxPayloadSchemaRegister] = register_schema,
	[NVTX3EXT_CBID_nvtxPayloadEnumRegister] = register_enum,
	[NVTX3EXT_CBID_nvtxMarkPayload] = mark,
	[NVTX3EXT_CBID_nvtxRangePushPayload] = push,
	[NVTX3EXT_CBID_nvtxRangePopPayload] = pop,
	[NVTX3EXT_CBID_nvtxRangeStartPayload] = start,
	[NVTX3EXT_CBID_nvtxRangeEndPayload] = end,
	[NVTX3EXT_CBID_nvtxDomainIsEnabled] = is_enabled,
};
enum { NR_FUNCTIONS = sizeof functions / sizeof *functions };

/* The numbers of functions are the same since 0x0103, the first that NCCL had;
 * there are two of them then. */
enum { COMPATID_FIRST = 0x0103 };

int nvtx_payload_attach(void *module_info)
{
	const nvtxExtModuleInfo_t *info = module_info;
	const nvtxExtModuleSegment_t *segment;
	size_t i;

	if (!info || info->structSize < sizeof *info ||
	    info->moduleId != NVTX_EXT_PAYLOAD_MODULEID ||
	    info->compatId < COMPATID_FIRST || !info->segmentsCount ||
	    !info->segments)
		return 0;
	segment = info->segments;
	for (i = 0; i < NR_FUNCTIONS && i < segment->slotCount; i++)
		__atomic_store_n(&segment->functionSlots[i],
				 (intptr_t)functions[i], __ATOMIC_RELEASE);
	return 1;
}
