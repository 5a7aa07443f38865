/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_FRAMES_H
#define GPUTRACE_WRITER_FRAMES_H

#include <stdint.h>

#include "collector/modules.h"
#include "writer/bytes.h"
#include "writer/elf_symbols.h"

/*
 * From a code address to what people call it:
 *
 *   inner (decode)              a function, the file it is in
 *   libx.so+0x12f0              no symbol: the file's own address; its build
 *                               id stands in the trace's tail
 *   [JIT] matmul_kernel         perf-PID.map
 *
 * Each address is looked up once, and again when what is loaded there is
 * another file; addresses, names and functions are bounded, and begin anew when
 * they are full.
 * Context: writer thread.
 */
enum frame_kind {
	FRAME_PROGRAM,          /* of the program */
	FRAME_SYSTEM,           /* of what many programs stand on */
	FRAME_OURS,             /* ours, or CUPTI's */
};

struct frame {
	uint64_t pc;
	uint64_t version, bias;         /* of the modules, when it was named */
	const char *text;
	enum frame_kind kind;
	uint32_t file;          /* frames of one file have one number; 0: JIT */
};

struct frames;
struct frames *frames_create(uint32_t pid);
void frames_destroy(struct frames *frames);

/* Never NULL; good until the next call. */
const struct frame *frames_get(struct frames *frames, uint64_t pc);

/* Build ids of the files that had no symbol for some frame: "build_ids". */
void frames_tell_ids(const struct frames *frames, struct bytes *out);

/* Before a stack of `nr` addresses: forgets all if so many more do not fit.
 * Returns modules_version(), by which these will be named. */
uint64_t frames_begin(struct frames *frames, uint32_t nr);

#endif
