/* SPDX-License-Identifier: MIT */
#include "collector/nvtx_text.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "collector/cancel.h"
#include "collector/loss.h"
#include "collector/nvtx.h"

/* 2,048 chains: registered strings are hundreds, seldom thousands. */
#define CHAINS_LOG2 11
#define NR_CHAINS (1u << CHAINS_LOG2)

static struct nvtx_text *_Atomic strings[NR_CHAINS];
/* The same by their addresses: a number that may be one is not to be read. */
static struct nvtx_text *_Atomic known_strings[NR_CHAINS];
static struct nvtx_domain *_Atomic domains;
static _Atomic uint32_t nr_domains = 1;
static _Atomic size_t held_bytes;
static char selected[1024];
static struct nvtx_domain default_domain = { .recorded = 1 };
static struct nvtx_domain other_domains = { .recorded = 1, .len = 15,
					    .name = "(other domains)" };

void *nvtx_allocate(size_t size)
{
	int saved = errno, cancel = cancel_hold();
	void *memory = NULL;

	if (atomic_fetch_add(&held_bytes, size) + size <= NVTX_TEXT_MAX)
		memory = calloc(1, size);
	if (!memory) {
		atomic_fetch_sub(&held_bytes, size);
		loss_add(LOSS_TABLE_FULL, 1);
	}
	cancel_release(cancel);
	errno = saved;
	return memory;
}

size_t nvtx_text_fit(const char *text, size_t len, size_t max)
{
	size_t fit = max;

	if (len <= max)
		return len;
	loss_add(LOSS_TEXT_CUT, 1);
	/* What follows the cut must begin a character, which has at most
	 * three bytes behind its first. */
	while (fit > max - 3 && (text[fit] & 0xc0) == 0x80)
		fit--;
	return (text[fit] & 0xc0) == 0x80 ? max : fit;
}

static uint32_t hash(const void *domain, const char *text, size_t len)
{
	uint64_t h = 0xcbf29ce484222325u ^ (uintptr_t)domain; /* FNV-1a */

	for (size_t i = 0; i < len; i++)
		h = (h ^ (uint8_t)text[i]) * 0x100000001b3u;
	return (uint32_t)(h ^ h >> 32) % NR_CHAINS;
}

/* The upper bits of a product with 2^64 / the golden ratio. */
static struct nvtx_text *_Atomic *known_chain(const struct nvtx_text *string)
{
	return &known_strings[(uintptr_t)string * 0x9e3779b97f4a7c15u >>
			      (64 - CHAINS_LOG2)];
}

static void make_known(struct nvtx_text *string)
{
	struct nvtx_text *_Atomic *chain = known_chain(string);

	string->next_known = atomic_load(chain);
	while (!atomic_compare_exchange_weak(chain, &string->next_known,
					     string))
		;
}

struct nvtx_text *nvtx_string_create(const struct nvtx_domain *domain,
				     const char *text, size_t whole_len)
{
	size_t len = nvtx_text_fit(text, whole_len, RECORD_TEXT_MAX);
	struct nvtx_text *_Atomic *chain = &strings[hash(domain, text, len)];
	struct nvtx_text *string = atomic_load(chain);

	for (; string; string = string->next)
		if (string->domain == domain && string->len == len &&
		    !memcmp(string->text, text, len))
			return string;
	string = nvtx_allocate(sizeof *string + len + 1);
	if (!string)
		return NULL;
	string->domain = domain;
	string->is_cut = len < whole_len;
	string->len = (uint32_t)len;
	memcpy(string->text, text, len);
	make_known(string);
	string->next = atomic_load(chain);
	while (!atomic_compare_exchange_weak(chain, &string->next, string))
		;
	return string;
}

bool nvtx_string_is(const struct nvtx_text *string)
{
	const struct nvtx_text *known = atomic_load(known_chain(string));

	while (known && known != string)
		known = known->next_known;
	return known;
}

/* True if one of the comma-separated globs fits. */
static bool is_selected(const char *name)
{
	char glob[sizeof selected];
	const char *at = selected;

	if (!selected[0])
		return true;
	while (*at) {
		size_t len = strcspn(at, ",");

		memcpy(glob, at, len);
		glob[len] = 0;
		if (!fnmatch(glob, name, 0))
			return true;
		at += len + (at[len] == ',');
	}
	return false;
}

struct nvtx_domain *nvtx_domain_create(const char *name, size_t whole_len)
{
	struct nvtx_domain *domain = atomic_load(&domains);
	size_t len = nvtx_text_fit(name, whole_len, RECORD_TEXT_MAX);

	for (; domain; domain = domain->next)
		if (domain->len == len && !memcmp(domain->name, name, len))
			return domain;
	if (atomic_load(&nr_domains) >= NVTX_DOMAINS_MAX) {
		loss_add(LOSS_TABLE_FULL, 1);
		return &other_domains;
	}
	domain = nvtx_allocate(sizeof *domain + len + 1);
	if (!domain)
		return NULL;
	domain->len = (uint32_t)len;
	memcpy(domain->name, name, len);
	domain->id = atomic_fetch_add(&nr_domains, 1);
	domain->recorded = is_selected(domain->name);
	domain->next = atomic_load(&domains);
	while (!atomic_compare_exchange_weak(&domains, &domain->next, domain))
		;
	return domain;
}

struct nvtx_domain *nvtx_default_domain(void)
{
	return &default_domain;
}

void nvtx_category_name(struct nvtx_domain *domain, uint32_t id,
			const char *text, size_t whole_len)
{
	size_t len = nvtx_text_fit(text, whole_len, RECORD_TEXT_MAX);
	struct nvtx_text *category;

	if (!domain)
		domain = &default_domain;
	/* The same again, as from a function that names it at each call. */
	category = atomic_load(&domain->categories);
	while (category && category->id != id)
		category = category->next;
	if (category && category->len == len &&
	    !memcmp(category->text, text, len))
		return;
	if (atomic_fetch_add(&domain->nr_categories, 1) >=
	    NVTX_CATEGORIES_MAX) {
		loss_add(LOSS_TABLE_FULL, 1);
		atomic_fetch_sub(&domain->nr_categories, 1);
		return;
	}
	category = nvtx_allocate(sizeof *category + len + 1);
	if (!category)
		return;
	category->domain = domain;
	category->id = id;
	category->len = (uint32_t)len;
	memcpy(category->text, text, len);
	category->next = atomic_load(&domain->categories);
	while (!atomic_compare_exchange_weak(&domain->categories,
					     &category->next, category))
		;
}

void nvtx_domain_select(const char *globs)
{
	if (!globs || strlen(globs) >= sizeof selected)
		return;
	strcpy(selected, globs);
	/* The default domain goes by the name that users write for it. */
	default_domain.recorded = is_selected("default");
	other_domains.recorded = is_selected(other_domains.name);
}

static size_t encode(char *out, uint32_t c)
{
	if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		c = 0xfffd;
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

/* One character, or a surrogate that is alone. */
static uint32_t next_character(const wchar_t **text)
{
	uint32_t c = (uint32_t)*(*text)++, low = (uint32_t)**text;

	if (c < 0xd800 || c > 0xdbff || low < 0xdc00 || low > 0xdfff)
		return c;
	(*text)++;
	return 0x10000 + ((c & 0x3ff) << 10 | (low & 0x3ff));
}

size_t nvtx_utf8(char *out, size_t size, const wchar_t *text)
{
	size_t len = 0, n;
	char bytes[4];

	while (text && *text) {
		n = encode(bytes, next_character(&text));
		if (n > size - len)
			break;
		if (out)
			memcpy(out + len, bytes, n);
		len += n;
	}
	return len;
}
