/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_PAYLOAD_VALUE_H
#define GPUTRACE_WRITER_PAYLOAD_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/nvtx_schema.h"
#include "writer/bytes.h"

/*
 * One value of a structured payload (payload.h) as JSON.  Its bytes are all
 * there, the caller has seen to that; they need not be aligned.
 * Context: writer thread.
 */

/* The value of a field that is neither a text nor nested. */
void payload_value(struct bytes *out, const struct schema_field *field,
		   const uint8_t *at);

/* A text of `count` units of 1, 2 or 4 bytes, at most up to a zero. */
void payload_text(struct bytes *out, const uint8_t *at, uint32_t size,
		  size_t count);

/* 0x and the digits: of a number from its highest byte (of little-endian
 * memory) on, of bytes as they stand; PAYLOAD_BYTES_MAX at most. */
void payload_hex(struct bytes *out, const uint8_t *at, size_t size,
		 bool is_number);

/* The number in `size` bytes; of more than 8 the lowest. */
uint64_t payload_u64(const uint8_t *at, uint32_t size);

/* The registered string whose handle lies there, or NULL: it is none. */
const struct nvtx_text *payload_string(const uint8_t *at);

#endif
