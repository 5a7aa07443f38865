/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_MERGE_OUT_H
#define GPUTRACE_TOOLS_MERGE_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The file that a merge writes, plain, or gzip if its name ends in .gz: whole
 * or not at all.  It grows under a temporary name beside its place and is moved
 * there at the end; an end by a signal removes it.  Only one at a time.
 *
 * Nothing returns an error but the first and the last step: what fails in
 * between makes the rest do nothing, and merge_out_end() says it.
 */
struct merge_out;

/* NULL with *err = -errno; -EINVAL: the place is taken by something that is no
 * regular file. */
struct merge_out *merge_out_open(const char *path, int *err);

void merge_out_bytes(struct merge_out *out, const char *text, size_t len);
void merge_out_print(struct merge_out *out, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A JSON string from valid UTF-8, with its quotes. */
void merge_out_string(struct merge_out *out, const char *text);

/* A piece of JSON in which strict readers may find fault: NaN and Infinity
 * become null, control characters are escaped, what is no UTF-8 is replaced,
 * escaped surrogates become the character.  Pieces that follow each other
 * share *in_string, which starts false. */
void merge_out_repaired(struct merge_out *out, const char *text, size_t len,
			bool *in_string);

/* Moves the file to its place and frees `out`.  Returns 0 or -errno; then
 * there is no file. */
int merge_out_end(struct merge_out *out);

/* Gives up: no file. */
void merge_out_drop(struct merge_out *out);

#endif
