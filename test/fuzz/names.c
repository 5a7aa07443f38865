/* SPDX-License-Identifier: MIT */
/*
 * Names of kernels: the demangler, the shortener, the table of names in each
 * style, the globs of GPUTRACE_KERNELS.  Lines of the input are names.
 */
#include "test/fuzz/fuzz.h"
#include "writer/json.h"
#include "writer/names.h"

/* names.h; and shorten.c adds at most the last piece of what it cuts. */
enum { FULL_MAX = 16 << 10, SHORT_MAX = 120 };

static void one_form(const char *name)
{
	struct bytes full = { 0 }, shorter = { 0 };

	if (name_demangle(name, &full)) {
		MUST(full.len && full.len <= FULL_MAX);
		bytes_add(&full, "", 1);
		name_shorten(full.data, &shorter);
		MUST(shorter.len && shorter.len <= SHORT_MAX);
	}
	bytes_clear(&shorter);
	name_shorten(name, &shorter);
	MUST(!*name || shorter.len);
	bytes_fini(&full);
	bytes_fini(&shorter);
}

static void look_up(struct names *names, const char *mangled)
{
	const struct name *name = names_get(names, mangled);
	struct bytes out = { 0 };

	MUST(name && name->text && *name->text && name->full);
	MUST(names_get(names, mangled) == name);
	json_text(&out, name->text);
	MUST(is_strict_json(out.data, out.len));
	bytes_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct input in = { bytes, bytes + size };
	unsigned int style = (unsigned int)take(&in, 1);
	char *globs = take_text(&in, take(&in, 1) % 64);
	char *text = take_text(&in, size), *line, *next;
	struct names names;

	MUST(!names_init(&names, style % 3, style & 4 ? globs : NULL));
	for (line = text; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		one_form(line);
		look_up(&names, line);
	}
	names_fini(&names);
	free(text);
	free(globs);
	return 0;
}
