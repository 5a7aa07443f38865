/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_NVTX_SCHEMA_H
#define GPUTRACE_COLLECTOR_NVTX_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/record.h"

/*
 * Layouts of structured payloads, as programs register them with NVTX's
 * payload extension (nvtx3/nvToolsExtPayload.h): schemas and enums.
 *
 *   nvtxPayloadSchemaRegister() -> a schema: where each field lies, how it is
 *                                  read                (the program's thread)
 *   a record's payload          -> its schema, by domain and id     (writer)
 *
 * Offsets and sizes are worked out once, here, by the header's rules: an
 * offset that is given is taken, another follows the field before it by
 * natural alignment, which packAlign bounds.  What a field nests must be
 * registered before it.  They live until the process ends and are immutable;
 * the first of an id stays.  Memory and number are bounded, beyond that it is
 * counted (LOSS_TABLE_FULL).
 */
#define SCHEMAS_MAX 4096                /* of the process */
#define SCHEMAS_OF_DOMAIN_MAX 1024
#define SCHEMA_FIELDS_MAX 128
#define SCHEMA_VALUES_MAX 1024          /* of an enum */
#define SCHEMA_NAME_MAX 128             /* bytes of a field's, a value's */
#define SCHEMA_SIZE_MAX 65536u          /* bytes of what one describes */

/* Predefined ids (NVTX_TYPE_PAYLOAD_SCHEMA_*); custom ones are beyond. */
#define SCHEMA_REFERENCED 1022u
#define SCHEMA_RAW 1023u
#define SCHEMA_PREDEFINED_END 1024u

enum field_kind {
	FIELD_UNKNOWN,          /* of known size, but not to be read */
	FIELD_SIGNED, FIELD_UNSIGNED,
	FIELD_REAL,             /* float, double, long double, by size */
	FIELD_HALF, FIELD_BFLOAT, /* float16, bfloat16 */
	FIELD_ADDRESS,          /* hexadecimal, also 128 bits */
	FIELD_BYTES,
	FIELD_COLOR,
	FIELD_CHAR,             /* units of a text; alone: a number */
	FIELD_STRING,           /* a registered string: struct nvtx_text * */
	FIELD_ENUM, FIELD_NESTED, /* `of` */
};

struct schema_field {
	const char *name;
	uint32_t name_len;
	uint32_t offset;
	uint32_t size;          /* of one */
	uint32_t count;         /* of an array; 0: up to a zero */
	uint8_t kind;           /* enum field_kind */
	bool is_signed;         /* of FIELD_CHAR that is alone */
	bool is_array;
	bool is_text;           /* array of FIELD_CHAR */
	bool is_hidden;
	bool is_message;        /* is the event's name */
	const struct schema *of;
};

struct schema_value {
	const char *name;
	uint32_t name_len;
	bool is_flag;           /* a set of bits */
	uint64_t value;
};

struct schema {
	struct schema *next;
	const struct nvtx_domain *domain;
	uint64_t id;
	uint32_t size, align;   /* 0: not known */
	uint32_t nr;            /* fields; values */
	bool is_enum;
	bool is_partial;        /* fields behind these cannot be placed */
	const struct schema_field *fields;
	const struct schema_value *values;
};

struct nvtxPayloadSchemaAttr_v1;
struct nvtxPayloadEnumAttr_v1;

/* Keeps one; returns its id, or 0: it is malformed, or there is no room.
 * domain NULL: the default one.  Context: any thread, not signal-safe. */
uint64_t schema_register(struct nvtx_domain *domain,
			 const struct nvtxPayloadSchemaAttr_v1 *attributes);
uint64_t schema_register_enum(struct nvtx_domain *domain,
			      const struct nvtxPayloadEnumAttr_v1 *attributes);

/* A custom one, or NULL.  Context: any, signal-safe. */
const struct schema *schema_find(const struct nvtx_domain *domain,
				 uint64_t id);

/* How a value of a type is read that is predefined, or a custom id: kind, size
 * and `of`.  Returns its alignment; 0: it has no known size.
 * Context: any, signal-safe. */
uint32_t schema_of_type(const struct nvtx_domain *domain, uint64_t type,
			struct schema_field *field);

#endif
