/* SPDX-License-Identifier: MIT */
/*
 * payloads: NVTX's payload extension, as its header has it.
 *
 * Shows: a schema like NCCL's (offsets given, an enum of the program's own
 * id), with a range by push and pop, by start and end, and a mark; one field of
 * each kind by natural alignment; packed and nested ones, arrays; payloads of
 * a predefined type, raw, and several of one event; NCCL's way of passing one
 * with the pop; events whose name is in their payload; and what goes wrong: an
 * unknown schema, fewer bytes than fields, too many bytes, schemas that are
 * none.  It prints the ids that it got.  --open: ranges that are open when the
 * profiler starts instead.
 */
#include <cudaProfiler.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uchar.h>
#include <wchar.h>

#include "test/host/gpu.h"

#define LENGTH(list) (sizeof(list) / sizeof(*(list)))
#define STATIC_ID(n) (NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + (n))

static nvtxDomainHandle_t domain;

static uint64_t add_schema(const nvtxPayloadSchemaEntry_t *entries, size_t nr,
			   uint64_t id, size_t size, size_t pack)
{
	nvtxPayloadSchemaAttr_t a = {
		.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
			NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
			NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
			NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE |
			NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ALIGNMENT |
			(id ? NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID : 0),
		.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, .entries = entries,
		.numEntries = nr, .payloadStaticSize = size, .packAlign = pack,
		.schemaId = id,
	};
	return nvtxPayloadSchemaRegister(domain, &a);
}

static uint64_t add_enum(const nvtxPayloadEnum_t *entries, size_t nr,
			 uint64_t id, size_t size)
{
	nvtxPayloadEnumAttr_t a = {
		.fieldMask = NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES |
			NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES |
			NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE |
			(id ? NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID : 0),
		.entries = entries, .numEntries = nr, .sizeOfEnum = size,
		.schemaId = id,
	};
	return nvtxPayloadEnumRegister(domain, &a);
}

static nvtxEventAttributes_t event(const char *name,
				   const nvtxPayloadData_t *payloads,
				   int32_t nr)
{
	nvtxEventAttributes_t a = {
		.version = NVTX_VERSION,
		.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
		.messageType = NVTX_MESSAGE_TYPE_ASCII,
		.message.ascii = name,
		.payloadType = NVTX_PAYLOAD_TYPE_EXT,
		.reserved0 = nr,
		.payload.ullValue = (uint64_t)(uintptr_t)payloads,
	};
	return a;
}

static void range(const char *name, uint64_t schema, const void *data,
		  size_t size)
{
	nvtxPayloadData_t payload = { schema, size, data };
	nvtxEventAttributes_t a = event(name, &payload, 1);

	nvtxDomainRangePushEx(domain, &a);
	nvtxDomainRangePop(domain);
}

/* ---- Like NCCL ---- */

struct collective {
	uint64_t comm;
	size_t bytes;
	int32_t op;
};

static const nvtxPayloadSchemaEntry_t collective[] = {
	{ 0, NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "NCCL communicator ID", NULL, 0,
	  0, NULL, NULL },
	{ 0, NVTX_PAYLOAD_ENTRY_TYPE_SIZE, "Message size [bytes]", NULL, 0,
	  offsetof(struct collective, bytes), NULL, NULL },
	{ 0, STATIC_ID(24), "Reduction operation", NULL, 0,
	  offsetof(struct collective, op), NULL, NULL },
};

static void like_nccl(void)
{
	static const nvtxPayloadEnum_t ops[] = {
		{ "Sum", 0, 0 }, { "Product", 1, 0 }, { "Max", 2, 0 },
	};
	struct collective p = { 0xfedcba9876543210, 4096, 2 };
	nvtxPayloadData_t payload = { STATIC_ID(5), sizeof p, &p };
	nvtxEventAttributes_t a = event("started", &payload, 1), plain;
	nvtxRangeId_t id;

	add_enum(ops, LENGTH(ops), STATIC_ID(24), sizeof(int32_t));
	add_schema(collective, LENGTH(collective), STATIC_ID(5), sizeof p, 0);
	range("pushed", STATIC_ID(5), &p, sizeof p);
	id = nvtxDomainRangeStartEx(domain, &a);
	nvtxDomainRangeEnd(domain, id);
	a = event("marked", &payload, 1);
	nvtxDomainMarkEx(domain, &a);

	/* What is known only when the call is over. */
	plain = event("popped", NULL, 0);
	plain.payloadType = NVTX_PAYLOAD_UNKNOWN;
	nvtxDomainRangePushEx(domain, &plain);
	p = (struct collective){ 7, 8, -1 };
	nvtxRangePopPayload(domain, &payload, 1);
	a = event("both", &payload, 1);
	nvtxDomainRangePushEx(domain, &a);
	p.op = 1;
	nvtxRangePopPayload(domain, &payload, 1);
	plain.message.ascii = "ended";
	id = nvtxDomainRangeStartEx(domain, &plain);
	nvtxRangeEndPayload(domain, id, &payload, 1);
}

/* ---- Kinds of fields ---- */

struct kinds {
	char c;                         /* offset 0 */
	int16_t i16;                    /* 2 */
	uint8_t u8;                     /* 4 */
	int32_t i32;                    /* 8 */
	int64_t i64;                    /* 16 */
	uint64_t u64;                   /* 24 */
	float f;                        /* 32 */
	double d;                       /* 40 */
	void *address;                  /* 48 */
	const int *pointer;             /* 56 */
	char text[8];                   /* 64 */
	uint16_t half;                  /* 72 */
	uint16_t bfloat;                /* 74 */
	uint8_t bytes[3];               /* 76 */
	uint32_t color;                 /* 80 */
	nvtxStringHandle_t string;      /* 88 */
	char16_t utf16[6];              /* 96 */
	wchar_t wide[4];                /* 108 */
	int32_t hidden;                 /* 124 */
	uint8_t flags;                  /* 128 */
};

#define FIELD(type, name) { 0, NVTX_PAYLOAD_ENTRY_TYPE_##type, name, NULL, \
	0, 0, NULL, NULL }
#define ARRAY(flag, type, name, nr) { flag, NVTX_PAYLOAD_ENTRY_TYPE_##type, \
	name, NULL, nr, 0, NULL, NULL }
#define FIXED NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE

static void all_kinds(void)
{
	static const nvtxPayloadEnum_t flags[] = {
		{ "read", 1, 1 }, { "write", 2, 1 }, { "exec", 4, 1 },
	};
	uint64_t id = add_enum(flags, LENGTH(flags), 0, 1);
	const nvtxPayloadSchemaEntry_t entries[] = {
		FIELD(CHAR, "char"), FIELD(INT16, "int16"),
		FIELD(UINT8, "uint8"), FIELD(INT, "int"),
		FIELD(INT64, "int64"), FIELD(UINT64, "uint64"),
		FIELD(FLOAT, "float"), FIELD(DOUBLE, "double"),
		FIELD(ADDRESS, "address"),
		ARRAY(NVTX_PAYLOAD_ENTRY_FLAG_POINTER, INT, "pointer", 0),
		ARRAY(0, CSTRING, "text", 8), FIELD(FLOAT16, "half"),
		FIELD(BF16, "bfloat"), ARRAY(FIXED, BYTE, "bytes", 3),
		FIELD(COLOR_ARGB, "argb"),
		FIELD(NVTX_REGISTERED_STRING_HANDLE, "string"),
		ARRAY(FIXED, CHAR16, "utf16", 6),
		ARRAY(FIXED, WCHAR, "wide", 4),
		ARRAY(NVTX_PAYLOAD_ENTRY_FLAG_HIDE, INT, "hidden", 0),
		{ 0, id, "flags", NULL, 0, 0, NULL, NULL },
	};
	struct kinds k = {
		.c = 'A', .i16 = -2, .u8 = 255, .i32 = INT32_MIN,
		.i64 = -3, .u64 = 5, .f = 0.5f, .d = -0.25,
		.address = (void *)0x7f1234, .pointer = (int *)0x10,
		.text = "caf\xc3\xa9", .half = 0x3e00, .bfloat = 0xc040,
		.bytes = { 1, 2, 0xab }, .color = 0xff112233,
		.string = nvtxDomainRegisterStringA(domain, "registered"),
		.utf16 = { 'a', 0xd83d, 0xde00, 'b' }, .wide = L"w\u00e9",
		.hidden = 1, .flags = 5,
	};

	range("kinds", add_schema(entries, LENGTH(entries), 0, 0, 0), &k,
	      sizeof k);
}

/* ---- Layouts ---- */

struct inner {
	int8_t a;
	int32_t b;
};

struct outer {
	uint8_t first;
	struct inner one, two[2];
	int16_t list[3];
} outer = { 1, { 2, 3 }, { { 4, 5 }, { 6, 7 } }, { 8, 9, -10 } };

#pragma pack(push, 2)
struct packed {
	uint8_t a;
	uint64_t b;
	uint32_t c;
} packed = { 1, 2, 3 };
#pragma pack(pop)

static void layouts(void)
{
	const nvtxPayloadSchemaEntry_t of_inner[] = {
		FIELD(INT8, "a"), FIELD(INT32, "b") };
	uint64_t id = add_schema(of_inner, 2, 0, 0, 0);
	const nvtxPayloadSchemaEntry_t of_outer[] = {
		FIELD(UINT8, "first"), { 0, id, "one", NULL, 0, 0, NULL, NULL },
		{ FIXED, id, "two", NULL, 2, 0, NULL, NULL },
		ARRAY(FIXED, INT16, "list", 3) };
	const nvtxPayloadSchemaEntry_t of_packed[] = {
		FIELD(UINT8, "a"), FIELD(UINT64, "b"), FIELD(UINT32, "c") };
	const nvtxPayloadSchemaEntry_t names[] = {
		FIELD(UINT8, "same"), FIELD(UINT8, "same"),
		FIELD(UINT8, NULL), FIELD(UINT8, "stream"),
		FIELD(UINT8, "quote \" and \\") };

	range("nested", add_schema(of_outer, 4, 0, 0, 0), &outer,
	      sizeof outer);
	range("packed", add_schema(of_packed, 3, 0, 0, 2), &packed,
	      sizeof packed);
	range("names", add_schema(names, 5, 0, 0, 0), "\1\2\3\4\5", 5);
}

/* ---- Without a schema, several, the name inside ---- */

static void others(void)
{
	int32_t numbers[] = { -1, 2 };
	nvtxPayloadData_t two[] = {
		{ NVTX_PAYLOAD_ENTRY_TYPE_INT32, sizeof numbers, numbers },
		{ NVTX_TYPE_PAYLOAD_SCHEMA_RAW, 3, "\x01\x02\xff" },
		{ NVTX_TYPE_PAYLOAD_SCHEMA_REFERENCED, 4, numbers },
	};
	nvtxEventAttributes_t a = event("two", two, 3);
	const nvtxPayloadSchemaEntry_t named[] = {
		ARRAY(NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE, CSTRING, "name",
		      16), FIELD(UINT32, "n") };
	struct { char name[16]; uint32_t n; } p = { "inside", 1 };
	nvtxPayloadData_t payload;
	nvtxRangeId_t id;

	nvtxDomainMarkEx(domain, &a);
	range("string", NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "to its zero",
	      SIZE_MAX);
	payload = (nvtxPayloadData_t){ add_schema(named, 2, 0, 0, 0),
		SIZE_MAX, &p };
	nvtxRangePushPayload(domain, &payload, 1);
	nvtxRangePopPayload(domain, NULL, 0);
	strcpy(p.name, "inside started");
	id = nvtxRangeStartPayload(domain, &payload, 1);
	nvtxDomainRangeEnd(domain, id);
	strcpy(p.name, "inside mark");
	nvtxMarkPayload(domain, &payload, 1);
}

static void mistakes(void)
{
	static char long_text[1000];
	const nvtxPayloadSchemaEntry_t entries[] = {
		FIELD(UINT32, "there"), FIELD(UINT32, "not there") };
	const nvtxPayloadSchemaEntry_t text[] = {
		FIELD(UINT32, "n"), ARRAY(0, CSTRING, "text", 1000) };
	uint32_t n = 1;

	range("unknown schema", STATIC_ID(999), &n, sizeof n);
	range("too short", add_schema(entries, 2, 0, 0, 0), &n, sizeof n);
	memset(long_text, 'x', sizeof long_text);
	range("too long", add_schema(text, 2, 0, 0, 0), long_text,
	      sizeof long_text);
	range("no bytes", STATIC_ID(5), NULL, 24);
}

static void print_ids(void)
{
	const nvtxPayloadSchemaEntry_t entry = FIELD(UINT32, "n");
	uint64_t first = add_schema(&entry, 1, 0, 0, 0);

	printf("{\"ids\": {\"dynamic\": %d, \"next\": %d, \"again\": %d, "
	       "\"no id\": %llu, \"no entries\": %llu, \"no enum\": %llu, "
	       "\"enabled\": %d}}\n",
	       first >= NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START,
	       add_schema(&entry, 1, 0, 0, 0) > first,
	       add_schema(collective, LENGTH(collective), STATIC_ID(5), 0,
			  0) == STATIC_ID(5),
	       (unsigned long long)add_schema(&entry, 1, 5, 0, 0),
	       (unsigned long long)add_schema(NULL, 1, 0, 0, 0),
	       (unsigned long long)add_enum(NULL, 0, 0, 4),
	       nvtxDomainIsEnabled(domain));
}

/* A window opens inside both. */
static void open_ranges(void)
{
	struct collective p = { 1, 2, 0 };
	nvtxPayloadData_t payload = { STATIC_ID(5), sizeof p, &p };
	nvtxEventAttributes_t a = event("open", &payload, 1);
	nvtxRangeId_t id;

	nvtxDomainRangePushEx(domain, &a);
	a.message.ascii = "open started";
	id = nvtxDomainRangeStartEx(domain, &a);
	CU(cuProfilerStart);
	nvtxDomainRangeEnd(domain, id);
	nvtxDomainRangePop(domain);
	CU(cuProfilerStop);
}

int main(int argc, char **argv)
{
	struct gpu gpu;

	gpu_open(&gpu, 0);
	domain = nvtxDomainCreateA("payloads");
	like_nccl();
	if (argc > 1 && !strcmp(argv[1], "--open")) {
		open_ranges();
		gpu_close(&gpu);
		return EXIT_SUCCESS;
	}
	all_kinds();
	layouts();
	others();
	mistakes();
	print_ids();
	gpu_close(&gpu);
	return EXIT_SUCCESS;
}
