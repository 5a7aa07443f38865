/* SPDX-License-Identifier: MIT */
/*
 * NVTX's payload extension: schemas and enums of any fields, and payloads of
 * any bytes of them, from the program's call to the members of an event's
 * args.  These are strict JSON, bounded, and of the bytes that were passed.
 *
 * Schemas stay as long as a process lives; here each input has its own, so the
 * file that keeps them is part of this one, with memory of its own.
 */
#include <stdlib.h>

#include "collector/nvtx_record.h"
#include "collector/nvtx_text.h"
#include "test/fuzz/fuzz.h"

enum { ALLOCATIONS_MAX = 64 };
static void *allocations[ALLOCATIONS_MAX];
static unsigned int nr_allocations;

static void *allocate(size_t size)
{
	return nr_allocations == ALLOCATIONS_MAX ? NULL :
		(allocations[nr_allocations++] = calloc(1, size));
}

#define nvtx_allocate allocate
#include "collector/nvtx_schema.c"
#undef nvtx_allocate

#include "collector/nvtx_payload.h"
#include "writer/json.h"
#include "writer/payload.h"

enum { IDS = 8 };
static uint64_t ids[IDS];       /* of what is registered, 0 if nothing is */

static uint64_t next_type(struct input *in)
{
	unsigned int what = (unsigned int)take(in, 1);

	return what < 112 ? what : what < 240 ? ids[what % IDS] :
		what < 248 ? 1020 + what % 8 : take(in, 8);
}

static char *next_name(struct input *in)
{
	size_t len = take(in, 1);

	return len ? take_text(in, len == 255 ? 300 : len % 8) : NULL;
}

static void add_schema(struct input *in)
{
	nvtxPayloadSchemaEntry_t entries[16] = { 0 };
	nvtxPayloadSchemaAttr_t a = {
		.fieldMask = take(in, 2) ^ 0x1fe, .entries = entries,
		.type = take(in, 1) % 6 ^ 1,
	};
	unsigned int i, has;

	a.numEntries = take(in, 1) % 17;
	a.payloadStaticSize = take(in, 1);
	a.packAlign = take(in, 1) % 20;
	a.schemaId = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + take(in, 1) % 32;
	for (i = 0; i < a.numEntries; i++) {
		has = (unsigned int)take(in, 1);
		entries[i].type = next_type(in);
		entries[i].name = has & 1 ? next_name(in) : NULL;
		entries[i].flags = has & 2 ? take(in, 2) : 0;
		entries[i].arrayOrUnionDetail = take(in, has & 4 ? 8 :
						     has & 8 ? 1 : 0);
		entries[i].offset = take(in, has & 16 ? 8 : has & 32 ? 1 : 0);
	}
	ids[take(in, 1) % IDS] = schema_register(NULL, &a);
	for (i = 0; i < a.numEntries; i++)
		free((char *)entries[i].name);
}

static void add_enum(struct input *in)
{
	nvtxPayloadEnum_t entries[8] = { 0 };
	nvtxPayloadEnumAttr_t a = {
		.fieldMask = take(in, 1) ^ 0x3c, .entries = entries,
		.numEntries = take(in, 1) % 9, .sizeOfEnum = take(in, 1) % 10,
		.schemaId = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START +
			take(in, 1) % 32,
	};
	unsigned int i;

	for (i = 0; i < a.numEntries; i++) {
		entries[i].name = next_name(in);
		entries[i].value = take(in, 1);
		entries[i].isFlag = (int8_t)(take(in, 1) & 1);
	}
	ids[take(in, 1) % IDS] = schema_register_enum(NULL, &a);
	for (i = 0; i < a.numEntries; i++)
		free((char *)entries[i].name);
}

static void check(const struct record_text *text)
{
	struct bytes object = { 0 };

	MUST(text->args_len <= PAYLOAD_JSON_MAX + 4096);
	bytes_add(&object, "{", 1);
	if (text->args_len)
		bytes_add(&object, text->args, text->args_len);
	bytes_add(&object, "}", 1);
	MUST(is_strict_json(object.data, object.len));
	if (text->name_len)     /* is there to be read */
		json_string(&object, text->name, text->name_len);
	bytes_fini(&object);
}

/* As the collector makes it; then with a byte of it changed. */
static void read_record(struct input *in, const struct nvtx_message *message)
{
	size_t size = sizeof(struct range_record) + message->args_len;
	struct range_record *record = calloc(1, size);
	struct bytes scratch = { 0 };
	struct record_text text;
	uint8_t change;

	MUST(record);
	record->head.kind = RECORD_MARK;
	record->head.size = (uint16_t)size;
	record->head.len = record->args_len = (uint16_t)message->args_len;
	record->flags = message->flags;
	if (message->args_len)
		nvtx_payload_copy(message, record->text);
	text = payload_of_record(record, &scratch);
	check(&text);
	change = (uint8_t)take(in, 1);
	if (message->args_len)
		record->text[take(in, 1) % message->args_len] ^= (char)change;
	text = payload_of_record(record, &scratch);
	check(&text);
	text = payload_of_end(record, NULL, change & 1, &scratch);
	check(&text);
	bytes_fini(&scratch);
	free(record);
}

/* In memory of exactly its size; a string may leave that to its zero. */
static nvtxPayloadData_t next_payload(struct input *in)
{
	nvtxPayloadData_t payload = { .schemaId = next_type(in) };
	size_t len = take(in, 1);
	const uint8_t *from = take_bytes(in, &len);
	char *copy = calloc(1, len + 1);

	MUST(copy);
	memcpy(copy, from, len);
	if (payload.schemaId == NVTX_PAYLOAD_ENTRY_TYPE_CSTRING) {
		payload.payload = copy;
		payload.size = SIZE_MAX;
		return payload;
	}
	payload.payload = len ? realloc(copy, len) : copy;
	payload.size = len;
	return payload;
}

static void add_event(struct input *in)
{
	nvtxPayloadData_t payloads[6] = { 0 };
	struct nvtx_message message = { 0 };
	size_t nr = take(in, 1) % 7, i;

	for (i = 0; i < nr; i++)
		payloads[i] = next_payload(in);
	nvtx_payload_set(&message, payloads, nr);
	read_record(in, &message);
	for (i = 0; i < nr; i++)
		free((char *)payloads[i].payload);
}

static void forget(void)
{
	memset(chains, 0, sizeof(chains));
	memset(ids, 0, sizeof(ids));
	nr_registered = 0;
	nvtx_default_domain()->nr_schemas = 0;
	while (nr_allocations)
		free(allocations[--nr_allocations]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct input in = { bytes, bytes + size };

	while (in.at < in.end) {
		switch (take(&in, 1) % 4) {
		case 0:
			add_enum(&in);
			break;
		case 1:
			add_schema(&in);
			break;
		default:
			add_event(&in);
		}
	}
	forget();
	return 0;
}
