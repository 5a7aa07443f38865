/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_NVTX_TEXT_H
#define GPUTRACE_COLLECTOR_NVTX_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <wchar.h>

#include "collector/record.h"

/*
 * Domains, registered strings and categories: created seldom, kept until the
 * process ends, found again by their text where the program registers the
 * same one twice.  At most NVTX_TEXT_MAX bytes in all, with the schemas of
 * payloads (nvtx_schema.h); beyond that the caller gets NULL and the loss is
 * counted.  A text longer than RECORD_TEXT_MAX is
 * cut and counted.  Context: any thread, not signal-safe.
 */
#define NVTX_TEXT_MAX (16u << 20)

/* Domains, and names of categories in each, are looked through one by one.
 * Further domains are one, "(other domains)"; further names are lost. */
#define NVTX_DOMAINS_MAX 4096
#define NVTX_CATEGORIES_MAX 4096

struct nvtx_domain *nvtx_domain_create(const char *name, size_t len);
struct nvtx_text *nvtx_string_create(const struct nvtx_domain *domain,
				     const char *text, size_t len);
/* domain NULL: the default domain. */
void nvtx_category_name(struct nvtx_domain *domain, uint32_t id,
			const char *text, size_t len);
/* Which domains are recorded: nvtx.h, nvtx_select_domains(). */
void nvtx_domain_select(const char *globs);

/* Zeroed memory that stays, out of NVTX_TEXT_MAX; NULL is counted. */
void *nvtx_allocate(size_t size);

/* True if it is a registered string, and not a number that looks like one,
 * which is not read.  Context: any, signal-safe. */
bool nvtx_string_is(const struct nvtx_text *string);

/* Bytes of a text that is `len` long which are kept where `max` fit: whole
 * UTF-8 characters.  A cut is counted.  Context: any, signal-safe. */
size_t nvtx_text_fit(const char *text, size_t len, size_t max);

/* wchar_t text as UTF-8, cut at `size` between two characters; returns bytes
 * (no terminating 0).  Two surrogates are one character, as where the text was
 * UTF-16 once; what is none becomes U+FFFD.  out NULL: only counts.
 * Context: any, signal-safe. */
size_t nvtx_utf8(char *out, size_t size, const wchar_t *text);

#endif
