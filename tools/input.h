/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_INPUT_H
#define GPUTRACE_TOOLS_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The bytes of a trace file, plain or gzip (several members too), as a window
 * that slides forward:
 *
 *      buf          keep                 end
 *       | (dropped)   | (still needed)    | NUL, padding
 *
 * input_fill() moves what the caller still needs to the front and appends.
 * If that alone fills the window, it doubles, up to INPUT_MAX: so one event of
 * a file may be that long, and a hostile file cannot take more memory.
 */
#define INPUT_MAX (64u << 20)

struct input {
	int fd;
	char *buf;
	char *end;              /* behind the last byte; holds a NUL */
	size_t cap;
	uint64_t base;          /* offset in the (unpacked) file of buf[0] */
	bool eof;
	uint64_t packed_read;   /* bytes taken from the file */
	struct unpacker *unpacker;      /* NULL: plain */
	char why[160];          /* after an error */
};

/* Takes over fd.  Returns 0 or -errno (then fd is closed). */
int input_open(struct input *in, int fd);
void input_close(struct input *in);

/* Makes more bytes follow `*keep`, which moves.  Returns 0 (perhaps with eof
 * set), -EFBIG when the window is full, -EBADMSG for damaged gzip data, or
 * another -errno; `why` says it in words. */
int input_fill(struct input *in, const char **keep);

#endif
