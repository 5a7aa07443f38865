/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "tools/diff.h"
#include "tools/utf8.h"

/*
 * Facts of a document that make two traces differ before any program does: the
 * GPUs, driver, CUPTI and library versions, how it was recorded.
 *
 *      ours        deviceProperties, gputrace.{version,driver,cupti,settings}
 *      Kineto's    deviceProperties, keys with "version" in their name
 *      both        distributedInfo.{world_size,nccl_version,backend}
 *
 * Host, paths and times differ always and are none.
 */
static void add_fact(struct diff *d, struct diff_side *s, const char *key,
		     uint32_t value)
{
	uint32_t id = intern_text(&d->names, key, strlen(key));

	if (id == INTERN_NONE || value == INTERN_NONE ||
	    !VEC_ROOM(s->fact, s->nr_facts, s->cap_facts)) {
		d->no_memory = true;
		return;
	}
	s->fact[s->nr_facts++] = (struct diff_fact){ id, value };
}

/* A scalar; other values are no facts. */
static void add_value(struct diff *d, struct diff_side *s, const char *key,
		      const struct json_value *v)
{
	if (v->type == JSON_STRING)
		add_fact(d, s, key, intern_value(&d->names, v));
	else if (v->type >= JSON_FALSE && v->type <= JSON_NUMBER)
		add_fact(d, s, key, intern_text(&d->names, v->text, v->len));
}

static void add_member(struct diff *d, struct diff_side *s,
		       const struct json_value *of, const char *key,
		       const char *title)
{
	struct json_value v = jsonval_member(of, key);

	add_value(d, s, title, &v);
}

/* "2 x NVIDIA H200": equal ones that follow each other. */
static void add_devices(struct diff *d, struct diff_side *s,
			const struct json_value *list)
{
	struct json_value device, name;
	uint32_t id, last = INTERN_NONE;
	const char *at = NULL;
	char text[512] = "";
	size_t used = 0;
	int nr = 0;

	for (bool more = true; more; last = id) {
		more = jsonval_next(list, &at, NULL, &device);
		name = more ? jsonval_member(&device, "name") : trace_none;
		id = name.type == JSON_STRING ?
			intern_value(&d->names, &name) : INTERN_NONE;
		if (id == last && id != INTERN_NONE) {
			nr++;
			continue;
		}
		if (last != INTERN_NONE && used < sizeof(text))
			used += snprintf(text + used, sizeof(text) - used,
					 "%s%d x %.100s", used ? ", " : "", nr,
					 intern_get(&d->names, last));
		nr = 1;
	}
	if (used)               /* a long name may have been cut anywhere */
		add_fact(d, s, "GPU", intern_text(&d->names, text,
				utf8_valid(text, strlen(text))));
}

static void add_settings(struct diff *d, struct diff_side *s,
			 const struct json_value *own)
{
	static const char *const others[] = {
		"GPUTRACE_OUT", "GPUTRACE_LOG", "GPUTRACE_CONTROL",
		"GPUTRACE_CUPTI",
	};
	struct json_value settings = jsonval_member(own, "settings"), key, v;
	const char *at = NULL;
	char text[64];

	while (settings.type == JSON_OBJECT &&
	       jsonval_next(&settings, &at, &key, &v)) {
		bool is_other = false;

		for (int i = 0; i < 4; i++)
			is_other |= jsonval_is(&key, others[i]);
		jsonval_string(&key, text, sizeof(text));
		if (!is_other && !strncmp(text, "GPUTRACE_", 9))
			add_value(d, s, text, &v);
	}
}

static void add_own(struct diff *d, struct diff_side *s,
		    const struct json_value *own)
{
	add_member(d, s, own, "version", "gputrace");
	add_member(d, s, own, "driver", "driver");
	add_member(d, s, own, "cupti", "CUPTI");
	add_settings(d, s, own);
}

static void add_key(struct diff *d, struct diff_side *s,
		    const struct json_value *key, const struct json_value *v)
{
	char text[64];

	jsonval_string(key, text, sizeof(text));
	if (!strcmp(text, "deviceProperties") && v->type == JSON_ARRAY) {
		add_devices(d, s, v);
	} else if (!strcmp(text, "gputrace") && v->type == JSON_OBJECT) {
		add_own(d, s, v);
	} else if (!strcmp(text, "distributedInfo") &&
		   v->type == JSON_OBJECT) {
		add_member(d, s, v, "world_size", "world size");
		add_member(d, s, v, "backend", "backend");
		add_member(d, s, v, "nccl_version", "NCCL");
	} else if (!strcmp(text, "cuda_driver_version")) {
		add_value(d, s, "driver", v);
	} else if (!strcmp(text, "cupti_version")) {
		add_value(d, s, "CUPTI", v);
	} else if (strstr(text, "version") || strstr(text, "Version")) {
		add_value(d, s, text, v);
	}
}

void diff_facts_read(struct diff *d, struct diff_side *s, const char *text,
		     size_t len)
{
	struct json_value document = {
		.text = text, .len = len, .type = JSON_OBJECT,
	}, key, value;
	const char *at = NULL;

	while (s->nr_facts < 1000 && !d->no_memory &&
	       jsonval_next(&document, &at, &key, &value))
		add_key(d, s, &key, &value);
}

const char *diff_fact(const struct diff *d, enum diff_sides side,
		      uint32_t key)
{
	const struct diff_side *s = &d->side[side];

	for (size_t i = 0; i < s->nr_facts; i++)
		if (s->fact[i].key == key)
			return intern_get(&d->names, s->fact[i].value);
	return NULL;
}
