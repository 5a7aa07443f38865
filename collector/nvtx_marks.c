/* SPDX-License-Identifier: MIT */
#include "collector/nvtx_marks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "collector/nvtx_text.h"

/*
 * The range that counts, of a name: FREE -> BUSY -> its thread, or STARTED
 * (with its id) -> BUSY -> FREE.  Who has brought it from FREE to BUSY, or
 * whose it is, alone changes the rest.
 */
enum { FREE = 0, BUSY = 1, STARTED = 2 };       /* no thread's number */

struct tracked {
	struct nvtx_name name;
	_Atomic uint64_t owner, only;   /* only: of this thread; 0: of all */
	_Atomic uint64_t id;
	const struct nvtx_domain *domain;
	uint64_t depth;                 /* pushes in it, itself included */
};

bool nvtx_marks_are_set;
static struct tracked tracked[NVTX_NAMES_MAX];
static int nr_tracked;

/* Wide texts are compared in UTF-8. */
struct text {
	const char *at;
	size_t len;
	char wide[256];
};

static uint64_t own_thread(void)
{
	return (uint64_t)(uintptr_t)pthread_self();
}

/* ---- Which names are meant ---- */

static bool is_digits(const char *at, size_t len)
{
	while (len && at[len - 1] >= '0' && at[len - 1] <= '9')
		len--;
	return len == 0;
}

static bool begins(const struct text *text, const char *name, size_t len)
{
	return text->len >= len && !memcmp(text->at, name, len);
}

/* "step", "step 12", "step_12", "step#12", "step12". */
static bool is_numbered(const struct text *text, const char *name, size_t len)
{
	const char *at;
	size_t left;

	if (!begins(text, name, len))
		return false;
	at = text->at + len;
	left = text->len - len;
	if (left > 1 && strchr(" _#-:", *at) && *at)
		return is_digits(at + 1, left - 1);
	return is_digits(at, left);
}

static bool is_profiler_step(const struct text *text)
{
	static const char name[] = "ProfilerStep#";
	size_t len = sizeof name - 1;

	return text->len > len && begins(text, name, len) &&
		is_digits(text->at + len, text->len - len);
}

static bool is_in_domain(const struct nvtx_name *name,
			 const struct nvtx_domain *domain)
{
	static const char none[] = "default";
	const char *text = domain ? domain->name : none;
	size_t len = domain ? domain->len : sizeof none - 1;

	return !name->domain || (name->domain_len == len &&
				 !memcmp(name->domain, text, len));
}

static bool is_meant(const struct nvtx_name *name, const struct text *text)
{
	switch (name->kind) {
	case NAME_EXACT:
		return text->len == name->len && begins(text, name->name,
							name->len);
	case NAME_NUMBERED:
		return is_numbered(text, name->name, name->len);
	default:
		return is_numbered(text, "step", 4) || is_profiler_step(text);
	}
}

static void read_text(const struct nvtx_message *message, struct text *text)
{
	text->at = message->text ? message->text : "";
	text->len = message->len;
	if (message->string) {
		text->at = message->string->text;
		text->len = message->string->len;
	} else if (message->wide && text->len >= sizeof text->wide) {
		text->len = 0;          /* no name is so long */
	} else if (message->wide) {
		text->len = nvtx_utf8(text->wide, sizeof text->wide,
				      message->wide);
		text->at = text->wide;
	}
}

static bool matches(const struct nvtx_name *name, const struct text *text,
		    const struct nvtx_message *message)
{
	return is_in_domain(name, message->domain) && is_meant(name, text);
}

/* ---- Ranges ---- */

/* True if it is the one that counts. */
static bool begin_tracking(struct tracked *t,
			   const struct nvtx_message *message,
			   const struct text *text, bool is_push)
{
	struct nvtx_opened opened = {
		.thread = own_thread(),
		.is_profiler_step = is_profiler_step(text),
	};
	uint64_t is_free = FREE, only = atomic_load(&t->only);

	if ((only && only != opened.thread) ||
	    !atomic_compare_exchange_strong(&t->owner, &is_free, BUSY))
		return false;
	t->domain = message->domain;
	t->depth = 1;
	atomic_store(&t->id, 0);        /* not yet known */
	if (!t->name.opens(&opened)) {
		atomic_store(&t->owner, FREE);
		return false;
	}
	atomic_store(&t->owner, is_push ? opened.thread : STARTED);
	return true;
}

/* Of a mark, or of a range whose end is not of interest. */
static void tell(const struct tracked *t, const struct nvtx_message *message,
		 const struct text *text)
{
	struct nvtx_opened opened = { .thread = own_thread() };

	if (matches(&t->name, text, message))
		(void)t->name.opens(&opened);
}

static void end_tracking(struct tracked *t)
{
	atomic_store(&t->owner, BUSY);
	t->name.closes();
	atomic_store(&t->owner, FREE);
}

uint32_t nvtx_marks_before(const struct nvtx_message *message, bool is_push)
{
	uint32_t opened = 0;
	struct text text;

	read_text(message, &text);
	for (int i = 0; i < nr_tracked; i++) {
		struct tracked *t = &tracked[i];
		uint64_t owner = atomic_load(&t->owner);

		if (!t->name.closes)
			tell(t, message, &text);
		else if (owner == FREE && matches(&t->name, &text, message))
			opened |= (uint32_t)begin_tracking(t, message, &text,
							   is_push) << i;
		else if (is_push && owner == own_thread() &&
			 t->domain == message->domain)
			t->depth++;
	}
	return opened;
}

/* A range that NVTX has given no id ends at once. */
void nvtx_marks_after_start(uint32_t opened, uint64_t id)
{
	for (int i = 0; i < nr_tracked; i++) {
		if (!(opened >> i & 1))
			continue;
		if (id)
			atomic_store(&tracked[i].id, id);
		else
			end_tracking(&tracked[i]);
	}
}

void nvtx_marks_after_pop(const struct nvtx_domain *domain)
{
	for (int i = 0; i < nr_tracked; i++) {
		struct tracked *t = &tracked[i];

		if (atomic_load(&t->owner) == own_thread() &&
		    t->domain == domain && --t->depth == 0)
			end_tracking(t);
	}
}

void nvtx_marks_after_end(uint64_t id)
{
	for (int i = 0; i < nr_tracked; i++) {
		struct tracked *t = &tracked[i];
		uint64_t ours = id;

		if (id && atomic_load(&t->owner) == STARTED &&
		    atomic_compare_exchange_strong(&t->id, &ours, 0))
			end_tracking(t);
	}
}

void nvtx_marks_after_mark(const struct nvtx_message *message)
{
	struct text text;

	read_text(message, &text);
	for (int i = 0; i < nr_tracked; i++)
		if (!tracked[i].name.closes)
			tell(&tracked[i], message, &text);
}

/* ---- Around them ---- */

void nvtx_marks_add(const struct nvtx_name *name)
{
	if (nr_tracked == NVTX_NAMES_MAX)
		return;
	tracked[nr_tracked++].name = *name;
	nvtx_marks_are_set = true;
}

void nvtx_marks_keep_to(bool (*opens)(const struct nvtx_opened *opened),
			uint64_t thread)
{
	for (int i = 0; i < nr_tracked; i++)
		if (tracked[i].name.opens == opens)
			atomic_store(&tracked[i].only, thread);
}

bool nvtx_marks_is_open(bool (*opens)(const struct nvtx_opened *opened))
{
	for (int i = 0; i < nr_tracked; i++)
		if (tracked[i].name.opens == opens)
			return atomic_load(&tracked[i].owner) != FREE;
	return false;
}

void nvtx_marks_leave(void)
{
	for (int i = 0; i < nr_tracked; i++)
		if (atomic_load(&tracked[i].owner) == own_thread())
			end_tracking(&tracked[i]);
}

void nvtx_marks_forget(void)
{
	for (int i = 0; i < nr_tracked; i++) {
		atomic_store(&tracked[i].owner, FREE);
		atomic_store(&tracked[i].only, 0);
	}
}
