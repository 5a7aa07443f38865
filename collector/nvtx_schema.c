/* SPDX-License-Identifier: MIT */
#include "collector/nvtx_schema.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "collector/loss.h"
#include "collector/nvtx.h"
#include "collector/nvtx_text.h"

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExtPayload.h>

/* A power of two; NCCL has 20 schemas, an application a few. */
enum { NR_CHAINS = 256 };

static struct schema *_Atomic chains[NR_CHAINS];
static _Atomic uint32_t nr_registered;
static _Atomic uint64_t last_id = NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START;

#define ARRAY_FLAGS (7u << 4)

/* ---- Predefined types ---- */

/* By their sizes where we run, where the program runs, too.  Each is aligned
 * to its size, as the header assumes for those that C does not have. */
#define TYPE(name, kind, size) [NVTX_PAYLOAD_ENTRY_TYPE_##name] = \
	{ FIELD_##kind, size }

static const struct {
	uint8_t kind, size;
} types[] = {
	TYPE(CHAR, CHAR, 1), TYPE(UCHAR, UNSIGNED, 1),
	TYPE(SHORT, SIGNED, sizeof(short)),
	TYPE(USHORT, UNSIGNED, sizeof(short)),
	TYPE(INT, SIGNED, sizeof(int)), TYPE(UINT, UNSIGNED, sizeof(int)),
	TYPE(LONG, SIGNED, sizeof(long)), TYPE(ULONG, UNSIGNED, sizeof(long)),
	TYPE(LONGLONG, SIGNED, sizeof(long long)),
	TYPE(ULONGLONG, UNSIGNED, sizeof(long long)),
	TYPE(INT8, SIGNED, 1), TYPE(UINT8, UNSIGNED, 1),
	TYPE(INT16, SIGNED, 2), TYPE(UINT16, UNSIGNED, 2),
	TYPE(INT32, SIGNED, 4), TYPE(UINT32, UNSIGNED, 4),
	TYPE(INT64, SIGNED, 8), TYPE(UINT64, UNSIGNED, 8),
	TYPE(FLOAT, REAL, sizeof(float)), TYPE(DOUBLE, REAL, sizeof(double)),
	TYPE(LONGDOUBLE, REAL, sizeof(long double)),
	TYPE(SIZE, UNSIGNED, sizeof(size_t)),
	TYPE(ADDRESS, ADDRESS, sizeof(void *)),
	TYPE(WCHAR, CHAR, sizeof(wchar_t)), TYPE(CHAR8, CHAR, 1),
	TYPE(CHAR16, CHAR, 2), TYPE(CHAR32, CHAR, 4),
	TYPE(BYTE, BYTES, 1),
	TYPE(INT128, ADDRESS, 16), TYPE(UINT128, ADDRESS, 16),
	TYPE(FLOAT16, HALF, 2), TYPE(FLOAT32, REAL, 4),
	TYPE(FLOAT64, REAL, 8), TYPE(FLOAT128, ADDRESS, 16),
	TYPE(BF16, BFLOAT, 2), TYPE(TF32, REAL, 4),
	TYPE(CATEGORY, UNSIGNED, 4), TYPE(COLOR_ARGB, COLOR, 4),
	TYPE(SCOPE_ID, UNSIGNED, 8),
	TYPE(PID_UINT32, UNSIGNED, 4), TYPE(PID_UINT64, UNSIGNED, 8),
	TYPE(TID_UINT32, UNSIGNED, 4), TYPE(TID_UINT64, UNSIGNED, 8),
	TYPE(CSTRING, CHAR, 1), TYPE(CSTRING_UTF8, CHAR, 1),
	TYPE(CSTRING_UTF16, CHAR, 2), TYPE(CSTRING_UTF32, CHAR, 4),
	TYPE(NVTX_REGISTERED_STRING_HANDLE, STRING, sizeof(void *)),
};

static bool is_string(uint64_t type)
{
	return type >= NVTX_PAYLOAD_ENTRY_TYPE_CSTRING &&
		type <= NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF32;
}

uint32_t schema_of_type(const struct nvtx_domain *domain, uint64_t type,
			struct schema_field *field)
{
	const struct schema *schema;

	if (type < sizeof types / sizeof *types) {
		field->kind = types[type].kind;
		field->size = types[type].size;
		field->is_signed = type == NVTX_PAYLOAD_ENTRY_TYPE_CHAR &&
			(char)-1 < 0;
		field->is_text = is_string(type);
		return types[type].size;
	}
	schema = schema_find(domain, type);
	if (!schema || !schema->size)
		return 0;
	field->of = schema;
	field->size = schema->size;
	field->kind = schema->is_enum ? FIELD_ENUM : schema->nr ?
		FIELD_NESTED : FIELD_UNKNOWN;
	return schema->align;
}

/* ---- All that there are ---- */

static struct schema *_Atomic *chain_of(uint64_t id)
{
	return &chains[(id ^ id >> 24) % NR_CHAINS];
}

/* The tool's own ids are of the process, static ones of their domain. */
const struct schema *schema_find(const struct nvtx_domain *domain, uint64_t id)
{
	const struct schema *schema = atomic_load_explicit(chain_of(id),
		memory_order_acquire);

	if (!domain)
		domain = nvtx_default_domain();
	while (schema && (schema->id != id || (schema->domain != domain &&
	       id < NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START)))
		schema = schema->next;
	return schema;
}

static bool take_place(struct nvtx_domain *domain)
{
	if (atomic_fetch_add(&nr_registered, 1) < SCHEMAS_MAX) {
		if (atomic_fetch_add(&domain->nr_schemas, 1) <
		    SCHEMAS_OF_DOMAIN_MAX)
			return true;
		atomic_fetch_sub(&domain->nr_schemas, 1);
	}
	atomic_fetch_sub(&nr_registered, 1);
	loss_add(LOSS_TABLE_FULL, 1);
	return false;
}

static uint64_t publish(struct schema *schema)
{
	struct schema *_Atomic *chain = chain_of(schema->id);

	schema->next = atomic_load(chain);
	while (!atomic_compare_exchange_weak(chain, &schema->next, schema))
		;
	return schema->id;
}

/* The program's static one, or a new one; 0: it is none. */
static uint64_t choose_id(bool is_given, uint64_t id)
{
	if (!is_given || !id)
		return atomic_fetch_add(&last_id, 1) + 1;
	return id >= NVTX_PAYLOAD_SCHEMA_ID_STATIC_START &&
		id < NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START ? id : 0;
}

/* The program may write to a name meanwhile, so each has room for the longest,
 * and for " #255" and a zero behind it. */
enum { NUMBER_MAX = 8, NAME_ROOM = SCHEMA_NAME_MAX + NUMBER_MAX };

/* Memory for a schema, `nr` items behind it and their names behind those. */
static struct schema *create(struct nvtx_domain *domain, uint64_t id,
			     size_t nr, size_t item_size)
{
	size_t size = sizeof(struct schema) + nr * (item_size + NAME_ROOM);
	struct schema *schema = take_place(domain) ? nvtx_allocate(size) :
		NULL;

	if (!schema)
		return NULL;
	schema->domain = domain;
	schema->id = id;
	return schema;
}

/* ---- Schemas ---- */

/* Copies it; a character is not cut in two. */
static uint32_t copy_name(char *to, const char *name)
{
	size_t len = name ? strnlen(name, SCHEMA_NAME_MAX + 1) : 0;

	len = nvtx_text_fit(name, len, SCHEMA_NAME_MAX);
	if (len)
		memcpy(to, name, len);
	return (uint32_t)len;
}

static bool is_taken(const struct schema *schema,
		     const struct schema_field *field)
{
	uint32_t i;

	for (i = 0; i < schema->nr; i++)
		if (schema->fields[i].name_len == field->name_len &&
		    !memcmp(schema->fields[i].name, field->name,
			    field->name_len))
			return true;
	return false;
}

/* Each has a name that no field before it has.  Returns where it ends. */
static char *name_field(const struct schema *schema,
			struct schema_field *field, const char *name,
			char *to)
{
	uint32_t len = copy_name(to, name), number = schema->nr + 1;

	field->name = to;
	field->name_len = len;
	/* At most as many rounds as there are names before it. */
	while (!field->name_len || is_taken(schema, field))
		field->name_len = len + (uint32_t)snprintf(to + len,
			NUMBER_MAX, len ? " #%u" : "#%u", number++);
	return to + field->name_len;
}

/* An array's length; 0: up to a zero.  False: it is not known. */
static bool read_array(struct schema_field *field,
		       const nvtxPayloadSchemaEntry_t *entry)
{
	uint64_t array = entry->flags & ARRAY_FLAGS;
	bool is_fixed = array == NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE ||
		(!array && is_string(entry->type));

	field->count = 1;
	field->is_array = array || is_fixed;
	field->is_text = field->is_array && field->kind == FIELD_CHAR;
	if (is_fixed)
		field->count = (uint32_t)(entry->arrayOrUnionDetail <
			SCHEMA_SIZE_MAX ? entry->arrayOrUnionDetail : 0);
	if (is_fixed || !array)
		return field->count;
	field->count = 0;
	/* A string; or several of a length, or numbers, which we do not read */
	return array == NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_ZERO_TERMINATED &&
		field->is_text &&
		!(is_string(entry->type) && entry->arrayOrUnionDetail);
}

/* Its kind and size.  Returns the alignment; 0: they are not known. */
static uint32_t read_entry(const struct nvtx_domain *domain,
			   const nvtxPayloadSchemaEntry_t *entry,
			   struct schema_field *field)
{
	uint32_t align;

	if (entry->flags & (NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_BASE |
			    NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_HERE))
		return 0;
	/* A string of no length is a `char *`. */
	if (entry->flags & NVTX_PAYLOAD_ENTRY_FLAG_POINTER ||
	    (is_string(entry->type) && !(entry->flags & ARRAY_FLAGS) &&
	     !entry->arrayOrUnionDetail)) {
		field->kind = FIELD_ADDRESS;
		field->size = sizeof(void *);
		field->count = 1;
		return _Alignof(void *);
	}
	align = schema_of_type(domain, entry->type, field);
	return align && read_array(field, entry) ? align : 0;
}

/* Of which the mask says that they are there. */
struct wanted {
	const nvtxPayloadSchemaEntry_t *entries;
	size_t nr, size, pack;
	bool is_struct;         /* and no union */
};

static struct wanted what_is_wanted(const nvtxPayloadSchemaAttr_t *a)
{
	struct wanted wanted = { 0 };

#define HAS(field) (a->fieldMask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_##field)
	if (HAS(ENTRIES) && HAS(NUM_ENTRIES) && a->entries) {
		wanted.entries = a->entries;
		wanted.nr = a->numEntries;
	}
	if (HAS(STATIC_SIZE) && a->payloadStaticSize <= SCHEMA_SIZE_MAX)
		wanted.size = a->payloadStaticSize;
	if (HAS(ALIGNMENT))
		wanted.pack = a->packAlign;
	wanted.is_struct = HAS(TYPE) &&
		(a->type == NVTX_PAYLOAD_SCHEMA_TYPE_STATIC ||
		 a->type == NVTX_PAYLOAD_SCHEMA_TYPE_DYNAMIC);
#undef HAS
	return wanted;
}

/* Behind *end, if it is not told where, which becomes its own. */
static bool place_field(struct schema *schema, struct schema_field *field,
			const nvtxPayloadSchemaEntry_t *entry, size_t pack,
			uint32_t *end)
{
	uint32_t align = read_entry(schema->domain, entry, field);
	uint64_t at = entry->offset;

	if (pack && pack < align)
		align = (uint32_t)pack;
	if (!align)
		return false;
	if (!at)
		at = (*end + align - 1) / align * align;
	if (at >= SCHEMA_SIZE_MAX)
		return false;
	field->offset = (uint32_t)at;
	at += (uint64_t)field->size * field->count;
	if (at > SCHEMA_SIZE_MAX)
		return false;
	if (align > schema->align)
		schema->align = align;
	if (at > schema->size)
		schema->size = (uint32_t)at;
	*end = (uint32_t)at;
	return true;
}

static void fill_fields(struct schema *schema, const struct wanted *wanted)
{
	struct schema_field *fields = (struct schema_field *)(schema + 1);
	char *names = (char *)(fields + wanted->nr);
	uint32_t end = 0;

	schema->fields = fields;
	while (schema->nr < wanted->nr && !schema->is_partial) {
		const nvtxPayloadSchemaEntry_t *entry =
			&wanted->entries[schema->nr];
		struct schema_field *field = &fields[schema->nr];

		if (!wanted->is_struct)
			end = 0;
		schema->is_partial = !place_field(schema, field, entry,
						  wanted->pack, &end);
		if (schema->is_partial)
			break;
		names = name_field(schema, field, entry->name, names);
		field->is_hidden = entry->flags &
			NVTX_PAYLOAD_ENTRY_FLAG_HIDE;
		field->is_message = entry->flags &
			NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE;
		schema->nr++;
		if (!field->count)
			schema->is_partial = schema->nr < wanted->nr;
	}
}

/* What the program says goes first, unless the fields need more. */
static void find_size(struct schema *schema, size_t said)
{
	const struct schema_field *last = schema->nr ?
		&schema->fields[schema->nr - 1] : NULL;

	if (said >= schema->size && said) {
		schema->size = (uint32_t)said;
		return;
	}
	if (said) {
		schema->nr = 0;
		schema->is_partial = true;
	}
	if (schema->is_partial || !last || !last->count)
		schema->size = 0;
	else
		schema->size = (schema->size + schema->align - 1) /
			schema->align * schema->align;
}

uint64_t schema_register(struct nvtx_domain *domain,
			 const nvtxPayloadSchemaAttr_t *a)
{
	struct schema *schema;
	struct wanted wanted;
	uint64_t id;

	if (!domain)
		domain = nvtx_default_domain();
	id = !a ? 0 : choose_id(a->fieldMask &
		NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID, a->schemaId);
	if (!id)
		return 0;
	wanted = what_is_wanted(a);
	if (!wanted.nr || wanted.nr > SCHEMA_FIELDS_MAX)
		return 0;
	if (schema_find(domain, id))
		return id;
	schema = create(domain, id, wanted.nr, sizeof(struct schema_field));
	if (!schema)
		return 0;
	fill_fields(schema, &wanted);
	find_size(schema, wanted.size);
	if (!wanted.is_struct) {
		schema->nr = 0;
		schema->is_partial = true;
	}
	return publish(schema);
}

/* ---- Enums ---- */

static void fill_values(struct schema *schema, size_t nr,
			const nvtxPayloadEnum_t *entry)
{
	struct schema_value *values = (struct schema_value *)(schema + 1);
	char *names = (char *)(values + nr);

	schema->values = values;
	for (; schema->nr < nr; schema->nr++, entry++) {
		struct schema_value *value = &values[schema->nr];

		value->name = names;
		value->name_len = copy_name(names, entry->name);
		value->value = entry->value;
		value->is_flag = entry->isFlag;
		names += value->name_len;
	}
}

uint64_t schema_register_enum(struct nvtx_domain *domain,
			      const nvtxPayloadEnumAttr_t *a)
{
	uint64_t needed = NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES |
		NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES |
		NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE, id;
	size_t nr = a ? a->numEntries : 0, size = a ? a->sizeOfEnum : 0;
	struct schema *schema;

	if (!domain)
		domain = nvtx_default_domain();
	if (!a || (a->fieldMask & needed) != needed || !a->entries || !nr ||
	    nr > SCHEMA_VALUES_MAX ||
	    (size != 1 && size != 2 && size != 4 && size != 8))
		return 0;
	id = choose_id(a->fieldMask & NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID,
		       a->schemaId);
	if (!id || schema_find(domain, id))
		return id;
	schema = create(domain, id, nr, sizeof(struct schema_value));
	if (!schema)
		return 0;
	schema->is_enum = true;
	schema->size = schema->align = (uint32_t)size;
	fill_values(schema, nr, a->entries);
	return publish(schema);
}
