/* SPDX-License-Identifier: MIT */
#include "writer/payload.h"

#include <stdio.h>

#include "collector/loss.h"
#include "collector/nvtx_schema.h"
#include "writer/json.h"
#include "writer/payload_value.h"

/* Schemas in schemas, as they are registered one after another. */
enum { DEPTH_MAX = 8 };

/* One payload that is read: its bytes, and where its values go. */
struct reading {
	struct bytes *out;
	size_t end;             /* of `out`: no more than that */
	const uint8_t *data;
	size_t len;
	bool is_whole;          /* nothing was left out so far */
};

/* ---- Fields ---- */

static void add_fields(struct reading *reading, const struct schema *schema,
		       size_t base, int depth);

static void add_one(struct reading *reading, const struct schema_field *field,
		    size_t at, int depth)
{
	if (field->kind != FIELD_NESTED) {
		payload_value(reading->out, field, reading->data + at);
		return;
	}
	json_open(reading->out, '{');
	add_fields(reading, field->of, at, depth + 1);
	json_close(reading->out, '}');
}

static void add_content(struct reading *reading,
			const struct schema_field *field, size_t at,
			size_t count, int depth)
{
	size_t i;

	if (field->is_text) {
		payload_text(reading->out, reading->data + at, field->size,
			     count);
	} else if (field->kind == FIELD_BYTES) {
		payload_hex(reading->out, reading->data + at, count, false);
	} else if (!field->is_array) {
		add_one(reading, field, at, depth);
	} else {
		json_open(reading->out, '[');
		for (i = 0; i < count && reading->out->len < reading->end; i++)
			add_one(reading, field, at + i * field->size, depth);
		reading->is_whole &= i == count;
		json_close(reading->out, ']');
	}
}

/* How many of them can be read; *is_all: all that there are. */
static size_t count_of(const struct reading *reading,
		       const struct schema_field *field, size_t at,
		       bool *is_all)
{
	size_t room = at < reading->len ? (reading->len - at) / field->size :
		0, count = 0;

	if (field->count) {
		*is_all = field->count <= room;
		/* Of a text, or bytes, the beginning says something. */
		return *is_all ? field->count : field->is_text ||
			field->kind == FIELD_BYTES ? room : 0;
	}
	while (count < room &&
	       payload_u64(reading->data + at + count * field->size,
			   field->size))
		count++;
	*is_all = count < room;
	return count;
}

static bool is_readable(const struct schema_field *field, int depth)
{
	return field->kind != FIELD_UNKNOWN &&
		(field->kind != FIELD_NESTED || depth < DEPTH_MAX);
}

static void add_key(struct bytes *out, const char *key, size_t len)
{
	json_string(out, key, len);
	bytes_add(out, ":", 1);
}

/* What the file itself says of a range, and what readers of the file take for
 * something else. */
static bool is_reserved(const struct schema_field *field)
{
	static const char *const names[] = {
		"domain", "category", "color", "payload", "name cut", "open",
		"payload incomplete", "payload at end", "External id",
		"device", "context", "stream", "correlation", "GPU operations",
		"Collective name", "queued", "wait_on_stream", "sort_index",
		"warps per SM", "memory bandwidth (GB/s)",
		"est. achieved occupancy %",
	};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strlen(names[i]) == field->name_len &&
		    !memcmp(names[i], field->name, field->name_len))
			return true;
	return false;
}

static void name_field(struct reading *reading,
		       const struct schema_field *field, int depth)
{
	char name[sizeof("payload ") + SCHEMA_NAME_MAX + 8] = "payload ";
	size_t len = strlen(name);

	if (depth || !is_reserved(field)) {
		add_key(reading->out, field->name, field->name_len);
		return;
	}
	memcpy(name + len, field->name, field->name_len);
	add_key(reading->out, name, len + field->name_len);
}

static void add_fields(struct reading *reading, const struct schema *schema,
		       size_t base, int depth)
{
	const struct schema_field *field = schema->fields;
	const struct schema_field *end = field + schema->nr;
	size_t at, count;
	bool is_all;

	reading->is_whole &= !schema->is_partial;
	for (; field < end; field++) {
		if (field->is_hidden)
			continue;
		at = base + field->offset;
		count = count_of(reading, field, at, &is_all);
		reading->is_whole &= is_all;
		if (!is_readable(field, depth) ||
		    reading->out->len >= reading->end) {
			reading->is_whole = false;
			continue;
		}
		if (!count && !is_all)
			continue;
		name_field(reading, field, depth);
		add_content(reading, field, at, count, depth);
	}
}

/* ---- Payloads ---- */

/* Of a type that has no fields: as many values as there are bytes. */
static void add_plain(struct reading *reading, const struct nvtx_domain *domain,
		      uint64_t type)
{
	struct schema_field field = { .kind = FIELD_BYTES, .size = 1 };
	size_t count;

	if (type != SCHEMA_RAW && !schema_of_type(domain, type, &field)) {
		reading->is_whole = false;
		return;
	}
	count = reading->len / field.size;
	field.is_array = count > 1;
	if (!count || field.kind == FIELD_UNKNOWN) {
		reading->is_whole &= !reading->len && field.is_text;
		return;
	}
	json_text(reading->out, "payload");
	bytes_add(reading->out, ":", 1);
	add_content(reading, &field, 0, count, 1);
}

static void add_payload(struct reading *reading,
			const struct nvtx_domain *domain, uint64_t id,
			int depth)
{
	const struct schema *schema = id < SCHEMA_PREDEFINED_END ? NULL :
		schema_find(domain, id);

	if (schema && !schema->is_enum)
		add_fields(reading, schema, 0, depth);
	else
		add_plain(reading, domain, id);
}

/* The next payload at *at, or false. */
static bool next_payload(const char **at, const char *end,
			 struct payload_head *head)
{
	if ((size_t)(end - *at) < sizeof(*head))
		return false;
	memcpy(head, *at, sizeof(*head));
	*at += sizeof(*head);
	return head->len <= (size_t)(end - *at);
}

static const char *behind(const char *at, const char *end, uint32_t len)
{
	size_t padded = payload_padded(len);

	return padded < (size_t)(end - at) ? at + padded : end;
}

/* Members of all payloads, the n-th in an object.  False: not all is there. */
static bool add_all(struct bytes *out, const struct nvtx_domain *domain,
		    const char *at, const char *end)
{
	size_t limit = out->len + PAYLOAD_JSON_MAX;
	struct payload_head head;
	bool is_whole = true;
	unsigned int n;
	char key[24];

	for (n = 1; next_payload(&at, end, &head); n++) {
		struct reading reading = { .out = out, .end = limit,
			.data = (const uint8_t *)at, .len = head.len,
			.is_whole = true };

		at = behind(at, end, head.len);
		if (head.schema == SCHEMA_REFERENCED)
			continue;
		/* As a schema that could not be registered. */
		if (!head.schema) {
			is_whole = false;
			continue;
		}
		if (n == 1) {
			add_payload(&reading, domain, head.schema, 0);
		} else {
			snprintf(key, sizeof(key), "payload %u", n);
			json_key(out, key);
			json_open(out, '{');
			add_payload(&reading, domain, head.schema, 1);
			json_close(out, '}');
		}
		is_whole &= reading.is_whole;
	}
	return is_whole;
}

/* Members begin as those behind another would. */
static void begin(struct bytes *scratch)
{
	bytes_clear(scratch);
	bytes_add(scratch, "{", 1);
}

static void tell_incomplete(struct bytes *scratch)
{
	loss_add(LOSS_PAYLOAD, 1);
	json_key(scratch, "payload incomplete");
	json_bool(scratch, true);
}

static void finish(struct bytes *scratch, struct record_text *text)
{
	text->args = NULL;
	text->args_len = 0;
	if (scratch->is_cut)
		loss_add(LOSS_TABLE_FULL, 1);
	else if (scratch->len > 1) {
		text->args = scratch->data + 1;
		text->args_len = scratch->len - 1;
	}
}

/* Where the arguments begin; they end the text. */
static const char *args_of(const struct range_record *record,
			   const char **end)
{
	uint32_t len = record->args_len <= record->head.len ?
		record->args_len : 0;

	*end = record->text + record->head.len;
	return *end - len;
}

/* ---- Names ---- */

static bool read_name(const struct schema_field *field, const char *data,
		      size_t len, struct record_text *text)
{
	const struct nvtx_text *string;

	if (field->offset >= len || field->size > len - field->offset)
		return false;
	if (field->kind == FIELD_STRING) {
		string = payload_string((const uint8_t *)data + field->offset);
		text->name = string ? string->text : NULL;
		text->name_len = string ? string->len : 0;
		return string;
	}
	if (!field->is_text || field->size != 1)
		return false;
	len -= field->offset;
	if (field->count && field->count < len)
		len = field->count;
	text->name = data + field->offset;
	text->name_len = strnlen(text->name, len);
	return true;
}

/* The first that says that it is the event's message. */
static void find_name(const struct nvtx_domain *domain, const char *at,
		      const char *end, struct record_text *text)
{
	const struct schema *schema;
	struct payload_head head;
	uint32_t i;

	for (; next_payload(&at, end, &head); at = behind(at, end, head.len)) {
		schema = schema_find(domain, head.schema);
		for (i = 0; schema && !schema->is_enum && i < schema->nr; i++)
			if (schema->fields[i].is_message &&
			    read_name(&schema->fields[i], at, head.len, text))
				return;
	}
}

struct record_text payload_of_record(const struct range_record *record,
				     struct bytes *scratch)
{
	const char *end, *args = args_of(record, &end);
	struct record_text text = { .name = record->text,
		.name_len = (size_t)(args - record->text), .args = args,
		.args_len = (size_t)(end - args) };
	bool is_whole;

	if (!(record->flags & (RECORD_PAYLOAD | RECORD_PAYLOAD_CUT)))
		return text;
	begin(scratch);
	is_whole = !(record->flags & RECORD_PAYLOAD_CUT);
	if (record->flags & RECORD_PAYLOAD)
		is_whole &= add_all(scratch, record->domain, args, end);
	if (!is_whole)
		tell_incomplete(scratch);
	finish(scratch, &text);
	if (record->flags & RECORD_PAYLOAD && !text.name_len &&
	    !record->string)
		find_name(record->domain, args, end, &text);
	return text;
}

struct record_text payload_of_end(const struct range_record *record,
				  const struct nvtx_domain *domain,
				  bool is_alone, struct bytes *scratch)
{
	struct record_text text = { 0 };
	const char *end, *args;
	bool is_whole;

	if (record->head.size <= RECORD_END_SIZE ||
	    !(record->flags & RECORD_PAYLOAD))
		return text;
	args = args_of(record, &end);
	begin(scratch);
	if (!is_alone) {
		json_key(scratch, "payload at end");
		json_open(scratch, '{');
	}
	is_whole = add_all(scratch, domain, args, end) &&
		!(record->flags & RECORD_PAYLOAD_CUT);
	if (!is_whole)
		tell_incomplete(scratch);
	if (!is_alone)
		json_close(scratch, '}');
	finish(scratch, &text);
	return text;
}
