/* SPDX-License-Identifier: MIT */
/*
 * NVTX's payload extension: layouts against the compiler's own, by the rules in
 * nvtx3/nvToolsExtPayload.h; records with payloads that are not whole; what is
 * no schema; bounds; the table that NVTX hands over.
 */
#include "collector/nvtx_payload.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "collector/loss.h"
#include "collector/nvtx.h"
#include "collector/nvtx_record.h"
#include "collector/nvtx_schema.h"
#include "collector/nvtx_text.h"
#include "test/check.h"
#include "writer/payload.h"

#define LENGTH(list) (sizeof(list) / sizeof(*(list)))
#define FLAG(name) NVTX_PAYLOAD_ENTRY_FLAG_##name
#define TYPE(name) NVTX_PAYLOAD_ENTRY_TYPE_##name
#define STATIC_ID(n) (NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + (n))

typedef nvtxPayloadSchemaEntry_t entry;

static nvtxPayloadSchemaAttr_t attributes(const entry *entries, size_t nr)
{
	return (nvtxPayloadSchemaAttr_t){
		.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
			NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
			NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
			NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE |
			NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ALIGNMENT,
		.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC,
		.entries = entries, .numEntries = nr,
	};
}

static uint64_t add(const entry *entries, size_t nr)
{
	nvtxPayloadSchemaAttr_t a = attributes(entries, nr);

	return schema_register(NULL, &a);
}

/* ---- One event, from the call to the members of its args ---- */

static union {
	struct range_record record;
	char bytes[sizeof(struct range_record) + 512];
} room;
static struct bytes scratch;

static const char *members(struct record_text text)
{
	static char copy[PAYLOAD_JSON_MAX + 1024];

	snprintf(copy, sizeof copy, "%.*s", (int)text.args_len,
		 text.args ? text.args : "");
	return copy;
}

static struct range_record *record_of(const nvtxPayloadData_t *payloads,
				      size_t nr)
{
	struct nvtx_message m = { 0 };

	memset(&room, 0, sizeof room);
	nvtx_payload_set(&m, payloads, nr);
	room.record.head.kind = RECORD_MARK;
	room.record.head.size = (uint16_t)(sizeof room.record + m.args_len);
	room.record.head.len = room.record.args_len = (uint16_t)m.args_len;
	room.record.flags = m.flags;
	if (m.args_len)
		nvtx_payload_copy(&m, room.record.text);
	return &room.record;
}

static const char *shown(uint64_t id, const void *data, size_t size)
{
	nvtxPayloadData_t payload = { id, size, data };

	return members(payload_of_record(record_of(&payload, 1), &scratch));
}

#define SHOWN(expected, id, data, size) \
	do { \
		const char *shown_ = shown(id, data, size); \
		if (strcmp(shown_, expected)) \
			fprintf(stderr, "%s\nnot %s\n", \
				shown_ ? shown_ : "(none)", expected); \
		CHECK(!strcmp(shown_, expected)); \
	} while (0)

#define INCOMPLETE "\"payload incomplete\":true"

/* ---- Layouts ---- */

/* The compiler places them; so must we, with no offset given. */
static void test_natural_alignment(void)
{
	static const entry entries[] = {
		{ .type = TYPE(UINT8), .name = "a" },
		{ .type = TYPE(UINT64), .name = "b" },
		{ .type = TYPE(SHORT), .name = "c" },
		{ .type = TYPE(LONGDOUBLE), .name = "d" },
		{ .type = TYPE(INT128), .name = "e" },
		{ .type = TYPE(FLOAT), .name = "f" },
	};
	struct {
		uint8_t a;
		uint64_t b;
		short c;
		long double d;
		unsigned __int128 e;
		float f;
	} s = { 1, 2, -3, 0.5L, (unsigned __int128)0xab << 64, 4 };
	uint64_t id = add(entries, LENGTH(entries));

	SHOWN("\"a\":1,\"b\":2,\"c\":-3,\"d\":0.5,"
	      "\"e\":\"0xab0000000000000000\",\"f\":4", id, &s, sizeof s);
	CHECK_EQ(schema_find(NULL, id)->size, sizeof s);
	CHECK_EQ(schema_find(NULL, id)->align, _Alignof(long double));
}

/* "The byte alignment for packed structures", as in #pragma pack. */
static void test_packed(void)
{
	static const entry entries[] = {
		{ .type = TYPE(UINT8), .name = "a" },
		{ .type = TYPE(UINT64), .name = "b" },
		{ .type = TYPE(UINT16), .name = "c" },
		{ .type = TYPE(DOUBLE), .name = "d" },
	};
	nvtxPayloadSchemaAttr_t a = attributes(entries, LENGTH(entries));
	struct { uint8_t a; uint64_t b; uint16_t c; double d; }
		__attribute__((packed)) one = { 1, 2, 3, 4 };
#pragma pack(push, 4)
	struct { uint8_t a; uint64_t b; uint16_t c; double d; }
		four = { 1, 2, 3, 4 };
#pragma pack(pop)

	a.packAlign = 1;
	SHOWN("\"a\":1,\"b\":2,\"c\":3,\"d\":4", schema_register(NULL, &a),
	      &one, sizeof one);
	a.packAlign = 4;
	SHOWN("\"a\":1,\"b\":2,\"c\":3,\"d\":4", schema_register(NULL, &a),
	      &four, sizeof four);
}

/* A given offset is taken; the next field follows it. */
static void test_offsets(void)
{
	static const entry entries[] = {
		{ .type = TYPE(UINT8), .name = "first" },
		{ .type = TYPE(UINT8), .name = "at 9", .offset = 9 },
		{ .type = TYPE(UINT16), .name = "at 10" },
		{ .type = TYPE(UINT8), .name = "back at 2", .offset = 2 },
	};
	static const uint8_t data[12] = { 1, 0, 4, 0, 0, 0, 0, 0, 0, 2, 3, 0 };

	SHOWN("\"first\":1,\"at 9\":2,\"at 10\":3,\"back at 2\":4",
	      add(entries, 4), data, sizeof data);
}

static void test_enums(void)
{
	static const nvtxPayloadEnum_t values[] = {
		{ "minus one", (uint64_t)-1, 0 }, { "two", 2, 0 } };
	nvtxPayloadEnumAttr_t a = {
		.fieldMask = NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES |
			NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES |
			NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE,
		.entries = values, .numEntries = 2, .sizeOfEnum = 2,
	};
	uint64_t id = schema_register_enum(NULL, &a);
	entry array = { FLAG(ARRAY_FIXED_SIZE), id, "e", NULL, 3, 0, NULL,
		NULL };
	static const nvtxPayloadEnum_t flags[] = {
		{ "low", 1, 1 }, { "high", 0x80, 1 } };
	static const int16_t three[] = { -1, 2, 7 };

	SHOWN("\"e\":[\"minus one\",\"two\",7]", add(&array, 1), three,
	      sizeof three);
	a.entries = flags;
	a.sizeOfEnum = 1;
	id = schema_register_enum(NULL, &a);
	SHOWN("\"payload\":\"low|high\"", id, "\x81", 1);
	SHOWN("\"payload\":\"low|0x6\"", id, "\x07", 1);
	SHOWN("\"payload\":\"0x0\"", id, "\x00", 1);
	a.sizeOfEnum = 3;
	CHECK_EQ(schema_register_enum(NULL, &a), 0);
}

/* IEEE 754's own examples: 1, the greatest, the least normal and the least of
 * all, infinity; bfloat16's are the upper half of a float. */
static void test_small_floats(void)
{
	static const uint16_t halves[] = { 0x3c00, 0x7bff, 0x8400, 0x0001,
		0xfc00, 0x7e00, 0x8000 };
	static const uint16_t bfloats[] = { 0x3f80, 0x4049, 0xff80 };

	SHOWN("\"payload\":[1,65504,-6.103515625e-05,"
	      "5.9604644775390625e-08,\"-Infinity\",\"NaN\",-0]",
	      TYPE(FLOAT16), halves, sizeof halves);
	SHOWN("\"payload\":[1,3.140625,\"-Infinity\"]", TYPE(BF16), bfloats,
	      sizeof bfloats);
}

/* Strings: of a length, up to a zero behind the rest, a pointer. */
static void test_strings(void)
{
	static const entry entries[] = {
		{ .type = TYPE(CSTRING), .name = "fixed",
		  .arrayOrUnionDetail = 4 },
		{ .type = TYPE(CSTRING), .name = "pointer" },
		{ FLAG(ARRAY_ZERO_TERMINATED), TYPE(CSTRING_UTF8), "rest",
		  NULL, 0, 0, NULL, NULL },
	};
	entry more[4];
	struct { char fixed[4]; const char *pointer; char rest[8]; } s = {
		"abcd", (const char *)0x123, "to zero" };
	nvtxPayloadSchemaAttr_t a = attributes(entries, 3);

	a.type = NVTX_PAYLOAD_SCHEMA_TYPE_DYNAMIC;
	SHOWN("\"fixed\":\"abcd\",\"pointer\":\"0x123\","
	      "\"rest\":\"to zero\"", schema_register(NULL, &a), &s, sizeof s);
	SHOWN("\"fixed\":\"abcd\",\"pointer\":\"0x123\",\"rest\":\"to\","
	      INCOMPLETE, schema_register(NULL, &a), &s, 18);
	/* What follows one of no known length is not to be found. */
	memcpy(more, entries, sizeof entries);
	more[3] = (entry){ .type = TYPE(UINT8), .name = "behind" };
	a.entries = more;
	a.numEntries = 4;
	SHOWN("\"fixed\":\"abcd\",\"pointer\":\"0x123\","
	      "\"rest\":\"to zero\"," INCOMPLETE, schema_register(NULL, &a),
	      &s, sizeof s);
}

/* Unions are passed over, where the program tells their size. */
static void test_unions(void)
{
	static const entry in_union[] = {
		{ .type = TYPE(UINT8), .name = "a" },
		{ .type = TYPE(DOUBLE), .name = "b" } };
	nvtxPayloadSchemaAttr_t a = attributes(in_union, 2);
	uint64_t id;
	entry outer[] = { { .type = TYPE(UINT32), .name = "selector" },
		{ .name = "union" }, { .type = TYPE(UINT8), .name = "end" } };
	struct { uint32_t selector; union { uint8_t a; double b; } u;
		uint8_t end; } s = { 1, { .b = 1 }, 2 };

	a.type = NVTX_PAYLOAD_SCHEMA_TYPE_UNION;
	a.payloadStaticSize = 8;
	id = schema_register(NULL, &a);
	CHECK(id);
	outer[1].type = id;
	SHOWN("\"selector\":1,\"end\":2," INCOMPLETE, add(outer, 3), &s,
	      sizeof s);
	SHOWN(INCOMPLETE, id, &s.u, 8);
}

/* ---- What is wrong ---- */

static void test_malformed(void)
{
	static const entry unknown[] = {
		{ .type = TYPE(UINT8), .name = "a" },
		{ .type = 31, .name = "no such type" },
		{ .type = TYPE(UINT8), .name = "b", .offset = 4 } };
	static const entry far[] = {
		{ .type = TYPE(UINT8), .name = "a", .offset = UINT64_MAX } };
	static const entry big[] = { { FLAG(ARRAY_FIXED_SIZE), TYPE(DOUBLE),
		"a", NULL, UINT64_MAX / 8, 0, NULL, NULL } };
	static const entry by_index[] = {
		{ .type = TYPE(UINT8), .name = "n" },
		{ FLAG(ARRAY_LENGTH_INDEX), TYPE(UINT8), "a", NULL, 0, 0, NULL,
		  NULL } };
	static const entry four = { .type = TYPE(UINT32), .name = "four" };
	nvtxPayloadSchemaAttr_t a = attributes(&four, 1);

	SHOWN("\"a\":1," INCOMPLETE, add(unknown, 3), "\1\0\0\0\2", 5);
	SHOWN(INCOMPLETE, add(far, 1), "\1", 1);
	SHOWN(INCOMPLETE, add(big, 1), "\1", 1);
	SHOWN("\"n\":1," INCOMPLETE, add(by_index, 2), "\1\2", 2);
	a.payloadStaticSize = 2;        /* less than its field */
	SHOWN(INCOMPLETE, schema_register(NULL, &a), "\1\0\0", 4);
	a.fieldMask &= ~(uint64_t)NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES;
	CHECK_EQ(schema_register(NULL, &a), 0);
	CHECK_EQ(schema_register(NULL, NULL), 0);
	CHECK_EQ(add(&four, SIZE_MAX), 0);
	CHECK_EQ(add(&four, 0), 0);
	SHOWN(INCOMPLETE, NVTX_PAYLOAD_ENTRY_TYPE_INVALID + 31, "\1", 1);
	SHOWN("", NVTX_TYPE_PAYLOAD_SCHEMA_REFERENCED, "\1", 1);
}

/* A handle is a number that the program gives: no place to read from. */
static void test_handles(void)
{
	static const entry handle = {
		.type = TYPE(NVTX_REGISTERED_STRING_HANDLE), .name = "s" };
	uint64_t id = add(&handle, 1), number = 0x10;
	const void *string = nvtx_string_create(NULL, "text", 4);

	SHOWN("\"s\":\"text\"", id, &string, sizeof string);
	SHOWN("\"s\":\"\"", id, &number, sizeof number);
}

/* The record is what the writer trusts least. */
static void test_torn_records(void)
{
	static const entry entries[] = {
		{ .type = TYPE(UINT64), .name = "a" },
		{ .type = TYPE(UINT64), .name = "b" } };
	static const uint64_t data[] = { 1, 2 };
	nvtxPayloadData_t payload = { add(entries, 2), sizeof data, data };
	struct range_record *record = record_of(&payload, 1);
	struct payload_head head;

	CHECK_EQ(record->args_len, sizeof head + sizeof data);
	memcpy(&head, record->text, sizeof head);
	head.len = UINT32_MAX;
	memcpy(record->text, &head, sizeof head);
	CHECK(!strcmp(members(payload_of_record(record, &scratch)), ""));
	record = record_of(&payload, 1);
	record->args_len = UINT16_MAX;
	CHECK(!strcmp(members(payload_of_record(record, &scratch)), ""));
	record = record_of(&payload, 1);
	record->args_len = record->head.len = sizeof head - 1;
	CHECK(!strcmp(members(payload_of_record(record, &scratch)), ""));
}

/* Its schema was not registered: that one is left out, and said; not those
 * behind it. */
static void test_no_schema(void)
{
	static const entry byte = { .type = TYPE(UINT8), .name = "b" };
	nvtxPayloadData_t payloads[] = {
		{ 0, 3, "\1\2\3" }, { 0, SIZE_MAX, "" }, { 0, 0, NULL },
		{ add(&byte, 1), 1, "\7" },
	};
	uint64_t lost = loss_get(LOSS_PAYLOAD);
	const char *text;

	text = members(payload_of_record(record_of(payloads, 4), &scratch));
	CHECK(!strcmp(text, "\"payload 4\":{\"b\":7}," INCOMPLETE));
	CHECK_EQ(loss_get(LOSS_PAYLOAD), lost + 1);
	SHOWN(INCOMPLETE, 0, "\1", 1);
}

/* What comes with the end says itself that it is not whole: its beginning may
 * have said so of its own, and no name stands twice in an object. */
static void test_ends(void)
{
	static const uint8_t many[1000];
	nvtxPayloadData_t payload = { SCHEMA_RAW, sizeof many, many };
	struct range_record *record = record_of(&payload, 1);
	const char *text;
	size_t len;

	text = members(payload_of_end(record, NULL, true, &scratch));
	len = strlen(text);
	CHECK(!strcmp(text + len - strlen(INCOMPLETE), INCOMPLETE));
	text = members(payload_of_end(record, NULL, false, &scratch));
	CHECK_EQ(strlen(text), len + strlen("\"payload at end\":{}"));
	CHECK(!strcmp(text + strlen(text) - strlen(INCOMPLETE "}"),
		      INCOMPLETE "}"));
}

/* 4 payloads and 256 bytes of an event; what is beyond is said, once. */
static void test_bounds_of_events(void)
{
	static const entry byte = { .type = TYPE(UINT8), .name = "b" };
	static uint8_t many[1000];
	uint64_t id = add(&byte, 1), lost = loss_get(LOSS_PAYLOAD);
	nvtxPayloadData_t payloads[6];
	const char *text;

	for (size_t i = 0; i < 6; i++)
		payloads[i] = (nvtxPayloadData_t){ id, 1, "\1" };
	text = members(payload_of_record(record_of(payloads, 5), &scratch));
	CHECK(!strcmp(text, "\"b\":1,\"payload 2\":{\"b\":1},"
		      "\"payload 3\":{\"b\":1},\"payload 4\":{\"b\":1},"
		      INCOMPLETE));
	CHECK_EQ(loss_get(LOSS_PAYLOAD), lost + 1);
	payloads[0] = (nvtxPayloadData_t){ SCHEMA_RAW, sizeof many, many };
	text = members(payload_of_record(record_of(payloads, 1), &scratch));
	CHECK_EQ(strlen(text), strlen("\"payload\":\"0x\",") + 2 * 256 +
		 strlen(INCOMPLETE));
	/* NULL, or none: nothing is read. */
	CHECK_EQ(record_of(NULL, 3)->args_len, 0);
	CHECK_EQ(record_of(payloads, 0)->args_len, 0);
	SHOWN("", TYPE(CSTRING), "", SIZE_MAX);
}

/* Fields that lie on each other: 128 * 128 values, 8 KiB of them told. */
static void test_bound_of_members(void)
{
	entry all[SCHEMA_FIELDS_MAX], nested[SCHEMA_FIELDS_MAX];
	static const uint8_t data[256];
	size_t len;
	uint64_t id;

	for (size_t i = 0; i < LENGTH(all); i++)
		all[i] = (entry){ .type = TYPE(UINT8), .offset = 1 };
	id = add(all, LENGTH(all));
	CHECK(id);
	for (size_t i = 0; i < LENGTH(all); i++)
		nested[i] = (entry){ .type = id, .offset = 1 };
	len = strlen(shown(add(nested, LENGTH(nested)), data, sizeof data));
	CHECK(len > PAYLOAD_JSON_MAX && len < PAYLOAD_JSON_MAX + 512);
	CHECK_EQ(add(all, SCHEMA_FIELDS_MAX), id + 2);
}

static void test_bounds_of_schemas(void)
{
	static const entry byte = { .type = TYPE(UINT8), .name = "b" };
	struct nvtx_domain *domain = nvtx_domain_create("d", 1);
	nvtxPayloadSchemaAttr_t a = attributes(&byte, 1);
	uint64_t full = loss_get(LOSS_TABLE_FULL);
	char name[2 * SCHEMA_NAME_MAX];
	entry long_name = { .type = TYPE(UINT8), .name = name };
	const struct schema_field *field;

	for (int i = 0; i < SCHEMAS_OF_DOMAIN_MAX; i++)
		if (!schema_register(domain, &a))
			break;
	CHECK_EQ(loss_get(LOSS_TABLE_FULL), full);
	CHECK_EQ(schema_register(domain, &a), 0);
	CHECK_EQ(loss_get(LOSS_TABLE_FULL), full + 1);
	CHECK(add(&byte, 1));           /* another domain's */

	memset(name, 'n', sizeof name);
	strcpy(name + SCHEMA_NAME_MAX - 1, "\u00e9");
	field = schema_find(NULL, add(&long_name, 1))->fields;
	CHECK_EQ(field->name_len, SCHEMA_NAME_MAX - 1);
}

/* Static ids are of their domain, the first stays; others of the process. */
static void test_ids(void)
{
	static const entry a_byte = { .type = TYPE(UINT8), .name = "a" };
	static const entry b_byte = { .type = TYPE(UINT8), .name = "b" };
	struct nvtx_domain *other = nvtx_domain_create("other", 5);
	nvtxPayloadSchemaAttr_t a = attributes(&a_byte, 1);
	nvtxPayloadSchemaAttr_t b = attributes(&b_byte, 1);

	a.fieldMask |= NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID;
	a.schemaId = STATIC_ID(1);
	b.fieldMask = a.fieldMask;
	b.schemaId = a.schemaId;
	CHECK_EQ(schema_register(NULL, &a), STATIC_ID(1));
	CHECK_EQ(schema_register(other, &b), STATIC_ID(1));
	CHECK_EQ(schema_register(NULL, &b), STATIC_ID(1));
	SHOWN("\"a\":1", STATIC_ID(1), "\1", 1);
	CHECK_EQ(schema_find(other, STATIC_ID(1))->fields[0].name[0], 'b');
	CHECK(!schema_find(NULL, STATIC_ID(2)));
	CHECK(schema_find(other, add(&a_byte, 1)));
}

/* Several threads register the same and different ones while others look. */
static void *register_many(void *argument)
{
	static const entry byte = { .type = TYPE(UINT8), .name = "b" };
	struct nvtx_domain *domain = argument;
	nvtxPayloadSchemaAttr_t a = attributes(&byte, 1);
	long nr_wrong = 0;
	uint64_t id;

	for (unsigned int i = 0; i < 100; i++) {
		a.fieldMask ^= NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID;
		a.schemaId = STATIC_ID(i % 8);
		id = schema_register(domain, &a);
		nr_wrong += !id || !schema_find(domain, id) ||
			schema_find(domain, id)->fields[0].name[0] != 'b';
	}
	return (void *)nr_wrong;
}

static void test_threads(void)
{
	struct nvtx_domain *domain = nvtx_domain_create("threads", 7);
	pthread_t threads[4];
	void *nr_wrong;
	size_t i;

	for (i = 0; i < LENGTH(threads); i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, register_many,
					domain), 0);
	for (i = 0; i < LENGTH(threads); i++) {
		pthread_join(threads[i], &nr_wrong);
		CHECK(!nr_wrong);
	}
}

/* ---- The table ---- */

static void test_attach(void)
{
	intptr_t slots[64] = { 0 };
	nvtxExtModuleSegment_t segment = { 0, 63, slots };
	nvtxExtModuleInfo_t info = { NVTX_VERSION, sizeof info,
		NVTX_EXT_PAYLOAD_MODULEID, NVTX_EXT_PAYLOAD_COMPATID, 1,
		&segment, NULL, NULL };
	size_t i, nr = 0;

	CHECK_EQ(nvtx_payload_attach(&info), 1);
	for (i = 0; i < LENGTH(slots); i++)
		nr += slots[i] != 0;
	CHECK_EQ(nr, NVTX3EXT_CBID_nvtxDomainIsEnabled + 1);
	/* NCCL 2.18's: two functions, and no place for more. */
	memset(slots, 0, sizeof slots);
	segment.slotCount = 2;
	info.compatId = 0x0103;
	CHECK_EQ(nvtx_payload_attach(&info), 1);
	CHECK(slots[0] && slots[1] && !slots[2]);
	/* The memory extension, and an unknown one. */
	memset(slots, 0, sizeof slots);
	info.moduleId = 1;
	CHECK_EQ(nvtx_payload_attach(&info), 0);
	info.moduleId = 77;
	CHECK_EQ(nvtx_payload_attach(&info), 0);
	CHECK(!slots[0]);
	CHECK_EQ(nvtx_payload_attach(NULL), 0);
}

int main(void)
{
	test_natural_alignment();
	test_packed();
	test_offsets();
	test_enums();
	test_small_floats();
	test_strings();
	test_unions();
	test_malformed();
	test_handles();
	test_torn_records();
	test_no_schema();
	test_ends();
	test_bounds_of_events();
	test_bound_of_members();
	test_bounds_of_schemas();
	test_ids();
	test_threads();
	test_attach();
	bytes_fini(&scratch);
	return check_result();
}
