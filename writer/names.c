/* SPDX-License-Identifier: MIT */
#include "writer/names.h"

#include <errno.h>
#include <fnmatch.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include "collector/loss.h"
#include "writer/json.h"

enum {
	NR_BUCKETS = 4096,
	NR_PLACES = 4096,
	/* 65536 kernels: of a process that makes more at run time (JIT) the
	 * rest have no name, and are counted. */
	NAMES_MAX = 65536,
	MANGLED_MAX = 16 << 10,
	FULL_MAX = 16 << 10,
	/* The whole table stands in the file's tail, written at each flush. */
	NAME_MAX_LEN = 64 << 10,
};

#define CUT_FORM "... #%016llx"
#define CUT_LEN (sizeof("... #") - 1 + 16)

/* libstdc++'s demangler without exceptions, iostreams or its own malloc: part
 * of libsupc++.a since gcc 4.3, made for such uses. */
int __gcclibcxx_demangle_callback(const char *mangled,
				  void (*take)(const char *, size_t, void *),
				  void *opaque);

struct demangling {
	struct bytes *out;
	jmp_buf too_long;
};

/* Some inputs expand without end ("substitution bombs"): leave. */
static void take(const char *text, size_t len, void *opaque)
{
	struct demangling *at = opaque;

	if (at->out->len + len > FULL_MAX)
		longjmp(at->too_long, 1);
	bytes_add(at->out, text, len);
}

bool name_demangle(const char *mangled, struct bytes *out)
{
	struct demangling at = { .out = out };

	if (strncmp(mangled, "_Z", 2) || strlen(mangled) > MANGLED_MAX)
		return false;
	if (setjmp(at.too_long))
		return false;
	return !__gcclibcxx_demangle_callback(mangled, take, &at) &&
		out->len && !out->is_cut;
}

int names_init(struct names *names, enum name_style style, const char *globs)
{
	static char unknown[] = "unknown kernel";

	memset(names, 0, sizeof(*names));
	names->style = style;
	names->globs = globs && *globs ? globs : NULL;
	names->unknown.mangled = unknown;
	names->unknown.full = unknown;
	names->unknown.text = unknown;
	names->unknown.is_selected = 1;
	names->buckets = calloc(NR_BUCKETS, sizeof(*names->buckets));
	names->by_full = calloc(NR_BUCKETS, sizeof(*names->by_full));
	names->by_text = calloc(NR_BUCKETS, sizeof(*names->by_text));
	names->places = calloc(NR_PLACES, sizeof(*names->places));
	return names->buckets && names->by_full && names->by_text &&
	       names->places ? 0 : -ENOMEM;
}

static void destroy(struct name *name)
{
	if (!name->is_alias && name->text != name->mangled)
		free(name->text);
	if (!name->is_alias && name->full != name->mangled)
		free(name->full);
	free(name->mangled);
	free(name);
}

void names_fini(struct names *names)
{
	struct name *name;

	while ((name = names->list)) {
		names->list = name->next;
		destroy(name);
	}
	free(names->buckets);
	free(names->by_full);
	free(names->by_text);
	free(names->places);
	memset(names, 0, sizeof(*names));
}

/* FNV-1a, 64 bits. */
static uint64_t hash_text(const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return hash;
}

/* Some other name has this text already. */
static bool is_taken(const struct names *names, const char *text)
{
	uint64_t hash = hash_text(text);
	const struct name *name;

	for (name = names->by_text[hash % NR_BUCKETS]; name;
	     name = name->next_text)
		if (name->text_hash == hash && !strcmp(name->text, text))
			return true;
	return false;
}

/* The text that the style asks for. */
static void add_styled(struct bytes *out, enum name_style style,
		       const struct name *name)
{
	struct bytes text = { 0 };

	if (style == NAMES_SHORT) {
		name_shorten(name->full, &text);
		/* Lengths in mangled names count bytes. */
		json_add_utf8(out, text.data, text.len);
		bytes_fini(&text);
	} else if (style == NAMES_FULL) {
		bytes_add(out, name->full, strlen(name->full));
	} else {
		json_add_utf8(out, name->mangled, strlen(name->mangled));
	}
}

/* The same, told apart from those of other names. */
static char *distinct_text(const struct names *names, const struct name *name,
			   uint64_t hash)
{
	struct bytes out = { 0 };
	size_t len;
	char digits[20];
	int width;

	add_styled(&out, names->style, name);
	len = out.len;
	bytes_add(&out, "", 1);
	for (width = 4; width <= 16 && !out.is_cut &&
	     is_taken(names, out.data); width += 4) {
		bytes_cut(&out, len);
		snprintf(digits, sizeof(digits), " #%0*llx", width,
			 (unsigned long long)(hash >> (64 - 4 * width)));
		bytes_add(&out, digits, strlen(digits) + 1);
	}
	if (out.is_cut) {
		bytes_fini(&out);
		return NULL;
	}
	return out.data;
}

static char *full_of(char *mangled)
{
	struct bytes out = { 0 };

	if (name_demangle(mangled, &out)) {
		bytes_add(&out, "", 1);
		if (!out.is_cut)
			return out.data;
	}
	bytes_fini(&out);
	return mangled;
}

/* What the file can say of it. */
static char *made_valid(struct name *name, char *full)
{
	struct bytes out = { 0 };
	size_t len = strlen(full);

	if (json_is_utf8(full, len))
		return full;
	json_add_utf8(&out, full, len);
	bytes_add(&out, "", 1);
	if (out.is_cut) {
		bytes_fini(&out);
		return full;
	}
	if (full != name->mangled)
		free(full);
	return out.data;
}

/* GPUTRACE_KERNELS: comma-separated globs on any of the forms. */
static bool is_selected(const char *globs, const struct name *name)
{
	char one[256];
	size_t len;

	for (; globs && *globs; globs += len + (globs[len] == ',')) {
		len = strcspn(globs, ",");
		if (!len || len >= sizeof(one))
			continue;
		memcpy(one, globs, len);
		one[len] = 0;
		if (!fnmatch(one, name->text, 0) ||
		    !fnmatch(one, name->full, 0) ||
		    !fnmatch(one, name->mangled, 0))
			return true;
	}
	return !globs;
}

/* The same function from another module has the same text. */
static bool share(struct names *names, struct name *name, bool is_valid)
{
	const struct name *other;

	name->full_hash = hash_text(name->full);
	if (!is_valid)                  /* others are shown alike */
		return false;
	other = names->by_full[name->full_hash % NR_BUCKETS];
	while (other && (other->full_hash != name->full_hash ||
			 strcmp(other->full, name->full)))
		other = other->next_full;
	if (!other || names->style == NAMES_MANGLED)
		return false;
	if (name->full != name->mangled)
		free(name->full);
	name->full = other->full;
	name->text = other->text;
	name->is_alias = 1;
	return true;
}

static void name_it(struct names *names, struct name *name, bool is_valid)
{
	struct name **bucket;

	name->text = distinct_text(names, name, is_valid ? name->full_hash :
				   name->hash);
	if (!name->text)
		name->text = name->mangled;
	name->text_hash = hash_text(name->text);
	bucket = &names->by_full[name->full_hash % NR_BUCKETS];
	name->next_full = *bucket;
	*bucket = name;
	bucket = &names->by_text[name->text_hash % NR_BUCKETS];
	name->next_text = *bucket;
	*bucket = name;
}

static uint64_t size_of(const struct name *name)
{
	uint64_t size = sizeof(*name) + strlen(name->mangled);

	if (name->is_alias)
		return size;
	if (name->full != name->mangled)
		size += strlen(name->full);
	return name->text != name->full ? size + strlen(name->text) : size;
}

static struct name *create(struct names *names, const char *mangled,
			   uint64_t hash)
{
	size_t len = strlen(mangled);
	struct name *name;
	char *full;
	bool is_valid;

	if (names->nr == NAMES_MAX ||
	    (names->max_bytes && names->bytes >= names->max_bytes))
		return NULL;
	name = calloc(1, sizeof(*name));
	if (!name)
		return NULL;
	name->hash = hash;
	name->mangled = bytes_copy(mangled, len);
	if (!name->mangled) {
		free(name);
		return NULL;
	}
	full = full_of(name->mangled);
	is_valid = json_is_utf8(full, strlen(full));
	name->full = made_valid(name, full);
	if (!share(names, name, is_valid))
		name_it(names, name, is_valid);
	name->is_selected = is_selected(names->globs, name);
	names->bytes += size_of(name);
	return name;
}

static struct name *find(const struct names *names, const char *mangled,
			 uint64_t hash)
{
	struct name *name;

	for (name = names->buckets[hash % NR_BUCKETS]; name;
	     name = name->next_in_bucket)
		if (name->hash == hash && !strcmp(name->mangled, mangled))
			return name;
	return NULL;
}

static struct name *by_text(struct names *names, const char *mangled,
			    bool is_cut)
{
	uint64_t hash = hash_text(mangled);
	struct name **bucket = &names->buckets[hash % NR_BUCKETS];
	struct name *name = find(names, mangled, hash);

	if (name)
		return name;
	name = create(names, mangled, hash);
	if (!name) {
		loss_add(LOSS_TABLE_FULL, 1);
		return &names->unknown;
	}
	loss_add(LOSS_TEXT_CUT, is_cut);
	name->next_in_bucket = *bucket;
	*bucket = name;
	name->next = names->list;
	names->list = name;
	names->nr++;
	return name;
}

/* What is too long goes by its beginning and its hash, which is a name that
 * is not too long. */
static struct name *by_content(struct names *names, const char *mangled)
{
	char *cut;
	struct name *name;
	size_t len = NAME_MAX_LEN - CUT_LEN;

	if (strnlen(mangled, NAME_MAX_LEN + 1) <= NAME_MAX_LEN)
		return by_text(names, mangled, false);
	cut = malloc(NAME_MAX_LEN + 1);
	if (!cut)
		return &names->unknown;
	while (len > NAME_MAX_LEN - CUT_LEN - 3 &&
	       ((unsigned char)mangled[len] & 0xC0) == 0x80)
		len--;
	memcpy(cut, mangled, len);
	snprintf(cut + len, CUT_LEN + 1, CUT_FORM,
		 (unsigned long long)hash_text(mangled));
	name = by_text(names, cut, true);
	free(cut);
	return name;
}

const struct name *names_get(struct names *names, const char *mangled)
{
	struct name_place *place;

	if (!mangled || !*mangled)
		return &names->unknown;
	/* Strings lie apart by more than 16 bytes as a rule. */
	place = &names->places[((uintptr_t)mangled >> 4 ^
				(uintptr_t)mangled >> 16) % NR_PLACES];
	if (place->pointer != mangled) {
		place->name = by_content(names, mangled);
		place->pointer = mangled;
	}
	return place->name;
}

void names_forget_pointers(struct names *names)
{
	memset(names->places, 0, NR_PLACES * sizeof(*names->places));
}
