/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_PAYLOAD_H
#define GPUTRACE_WRITER_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "collector/record.h"
#include "writer/bytes.h"

/*
 * Structured payloads of NVTX ranges and marks (record.h, struct payload_head)
 * as members of an event's args, by their schemas:
 *
 *   "Message size [bytes]":4096,"Reduction operation":"Sum"
 *
 * The first payload's fields go by their own names; one that has the name of
 * what the file says itself of a range gets "payload " before it.  Further
 * payloads are objects, "payload 2" and so on.  What cannot be read (its
 * schema is not known, it is shorter than its fields) is left out.
 * Context: writer thread.
 */
#define PAYLOAD_JSON_MAX 8192   /* bytes of an event's members */

/* What a record says: its name, and the members of its args. */
struct record_text {
	const char *name;
	size_t name_len;
	const char *args;       /* of a source, or in `scratch` */
	size_t args_len;
};

/* Takes it apart; what is left out of a payload is counted, and said in the
 * members.  Valid until `scratch` is used again, and as long as the record.
 * A name that is in the payload is taken from there. */
struct record_text payload_of_record(const struct range_record *record,
				     struct bytes *scratch);

/* The same of the record that ends a range of the domain: members alone.
 * is_alone: the range has none yet; else they are in an object. */
struct record_text payload_of_end(const struct range_record *record,
				  const struct nvtx_domain *domain,
				  bool is_alone, struct bytes *scratch);

#endif
