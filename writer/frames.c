/* SPDX-License-Identifier: MIT */
#include "writer/frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "writer/json.h"
#include "writer/names.h"
#include "writer/perf_map.h"

enum {
	NR_FRAMES = 16384,              /* half of them are used */
	FILES_MAX = 1024,
	FUNCTIONS_MAX = 2 << 20,        /* of all files: 16 MiB */
	SYMBOL_MAX = 8192, TEXT_MAX = 160,
};

struct frames {
	uint32_t pid;
	uint32_t nr;
	uint64_t version;               /* of the modules, for this stack */
	struct frame list[NR_FRAMES];   /* by pc; text NULL: unused */
	struct elf_symbols files[FILES_MAX];
	struct build_id {
		uint8_t bytes[BUILD_ID_MAX];
		uint32_t len;           /* 0: none, or of no interest */
	} ids[FILES_MAX];
	uint32_t nr_files, nr_functions;
	char symbol[SYMBOL_MAX];
	struct bytes scratch;
};

/* Beginnings of files' names.  Interpreters are of the system: a line of
 * Python is what their frames stand for. */
static const struct {
	const char *name;
	enum frame_kind kind;
} kinds[] = {
	{ "libgputrace", FRAME_OURS }, { "libcupti", FRAME_OURS },
	{ "libc.so", FRAME_SYSTEM }, { "libc-2", FRAME_SYSTEM },
	{ "libm.so", FRAME_SYSTEM }, { "libpthread", FRAME_SYSTEM },
	{ "ld-", FRAME_SYSTEM }, { "libstdc++", FRAME_SYSTEM },
	{ "libgcc_s", FRAME_SYSTEM }, { "libgomp", FRAME_SYSTEM },
	{ "libcuda", FRAME_SYSTEM }, { "libnvidia", FRAME_SYSTEM },
	{ "libcu", FRAME_SYSTEM }, { "libnccl", FRAME_SYSTEM },
	{ "libtorch", FRAME_SYSTEM }, { "libc10", FRAME_SYSTEM },
	{ "libpython", FRAME_SYSTEM }, { "python", FRAME_SYSTEM },
	{ "[vdso]", FRAME_SYSTEM },
};

static enum frame_kind kind_of(const char *base)
{
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strncmp(base, kinds[i].name, strlen(kinds[i].name)))
			return kinds[i].kind;
	return FRAME_PROGRAM;
}

struct frames *frames_create(uint32_t pid)
{
	struct frames *frames = calloc(1, sizeof(*frames));

	if (frames)
		frames->pid = pid;
	return frames;
}

static void forget(struct frames *frames)
{
	uint32_t i;

	for (i = 0; i < NR_FRAMES; i++)
		free((char *)frames->list[i].text);
	memset(frames->list, 0, sizeof(frames->list));
	frames->nr = 0;
}

void frames_destroy(struct frames *frames)
{
	uint32_t i;

	if (!frames)
		return;
	forget(frames);
	for (i = 0; i < frames->nr_files; i++)
		elf_symbols_fini(&frames->files[i]);
	bytes_fini(&frames->scratch);
	free(frames);
}

uint64_t frames_begin(struct frames *frames, uint32_t nr)
{
	frames->version = modules_version();
	if (frames->nr + nr > NR_FRAMES / 2)
		forget(frames);
	return frames->version;
}

/* The number of the file, from 1; 0: no room. */
static uint32_t file_of(struct frames *frames, const char *path)
{
	struct elf_symbols *file = frames->files;
	uint32_t i;

	for (i = 0; i < frames->nr_files; i++, file++)
		if (file->path && !strcmp(file->path, path))
			return i + 1;
	if (i == FILES_MAX)
		return 0;
	/* One without symbols is known, too. */
	(void)elf_symbols_init(file, path, FUNCTIONS_MAX -
			       frames->nr_functions);
	frames->nr_functions += file->nr;
	return ++frames->nr_files;
}

/* The symbol as kernels' names are shown (GPUTRACE_NAMES=short). */
static void add_symbol(struct bytes *out, const char *symbol)
{
	struct bytes full = { 0 };

	if (name_demangle(symbol, &full)) {
		bytes_add(&full, "", 1);
		if (!full.is_cut)
			name_shorten(full.data, out);
	}
	if (!out->len)
		bytes_add(out, symbol, strnlen(symbol, TEXT_MAX));
	bytes_fini(&full);
}

static void keep_id(struct frames *frames, const struct module *module,
		    uint32_t file)
{
	struct build_id *id = file ? &frames->ids[file - 1] : NULL;

	if (id && !id->len)
		id->len = module_build_id(module, id->bytes);
}

void frames_tell_ids(const struct frames *frames, struct bytes *out)
{
	static const char digits[] = "0123456789abcdef";
	char text[2 * BUILD_ID_MAX + 1];
	uint32_t i, k;

	json_key(out, "build_ids");
	json_open(out, '{');
	for (i = 0; i < frames->nr_files; i++) {
		const struct build_id *id = &frames->ids[i];

		if (!id->len || !frames->files[i].path)
			continue;
		for (k = 0; k < id->len; k++) {
			text[2 * k] = digits[id->bytes[k] >> 4];
			text[2 * k + 1] = digits[id->bytes[k] & 15];
		}
		text[2 * k] = 0;
		json_member_text(out, frames->files[i].path, text);
	}
	json_close(out, '}');
}

static void add_address(struct bytes *out, const char *base, uint64_t address)
{
	char text[32];

	bytes_add(out, base, strnlen(base, TEXT_MAX));
	snprintf(text, sizeof(text), "+0x%llx", (unsigned long long)address);
	bytes_add(out, text, strlen(text));
}

static void name_in_module(struct frames *frames, struct frame *frame,
			   const struct module *module)
{
	const char *path = module_path(module), *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	uint64_t address = frame->pc - module->bias;
	struct bytes *out = &frames->scratch;

	frame->kind = kind_of(base);
	frame->file = file_of(frames, path);
	frame->bias = module->bias;
	if (!frame->file ||
	    !elf_symbols_find(&frames->files[frame->file - 1], address,
			      frames->symbol, sizeof(frames->symbol))) {
		add_address(out, base, address);
		keep_id(frames, module, frame->file);
		return;
	}
	add_symbol(out, frames->symbol);
	bytes_add(out, " (", 2);
	bytes_add(out, base, strnlen(base, TEXT_MAX));
	bytes_add(out, ")", 1);
}

static void name_elsewhere(struct frames *frames, struct frame *frame)
{
	struct bytes *out = &frames->scratch;
	char text[32];

	if (perf_map_find(frames->pid, frame->pc, frames->symbol, TEXT_MAX)) {
		bytes_add(out, "[JIT] ", 6);
		bytes_add(out, frames->symbol, strlen(frames->symbol));
		return;
	}
	frame->kind = FRAME_SYSTEM;
	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)frame->pc);
	bytes_add(out, text, strlen(text));
}

/* After what lies there now. */
static bool is_named(const struct frames *frames, const struct frame *frame,
		     const struct module *module)
{
	const char *path;

	if (!frame->text || !frame->file != !module)
		return false;
	if (!module)
		return true;
	path = frames->files[frame->file - 1].path;
	return path && !strcmp(path, module_path(module)) &&
		frame->bias == module->bias;
}

static void name_frame(struct frames *frames, struct frame *frame)
{
	const struct modules *modules = modules_enter();
	const struct module *module = modules_find(modules, frame->pc);

	if (!is_named(frames, frame, module)) {
		free((char *)frame->text);
		*frame = (struct frame){ .pc = frame->pc };
		bytes_clear(&frames->scratch);
		if (module)
			name_in_module(frames, frame, module);
		else
			name_elsewhere(frames, frame);
		frame->text = bytes_copy(frames->scratch.data,
					 frames->scratch.len);
	}
	modules_leave();
	frame->version = frames->version;
}

const struct frame *frames_get(struct frames *frames, uint64_t pc)
{
	static const struct frame unknown = {
		.text = "no memory for names", .kind = FRAME_SYSTEM,
	};
	uint64_t at = (pc ^ pc >> 14) % NR_FRAMES;
	struct frame *frame;

	while ((frame = &frames->list[at])->text && frame->pc != pc)
		at = (at + 1) % NR_FRAMES;
	if (frame->text && frame->version == frames->version)
		return frame;
	if (!frame->text && frames->nr == NR_FRAMES - 1)
		return &unknown;
	frames->nr += !frame->text;
	frame->pc = pc;
	name_frame(frames, frame);
	return frame->text ? frame : &unknown;
}
