/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_ARGV_H
#define GPUTRACE_WRITER_ARGV_H

#include <stdbool.h>

#include "writer/bytes.h"

/*
 * The program's arguments as the file shows them.  With `mask`, values behind
 * names like token, key, password, secret become "***":
 *
 *   --hf-token abc   --api_key=abc   PASSWORD=abc   https://user:abc@host/
 *
 * "--tokenizer x" and "--max-tokens 9" stay.
 *
 * An argument beyond 4 KiB ends in "...", and so does the list where there was
 * more than ARGV_BYTES_MAX; the first time that is counted.
 * Context: writer thread.
 */
#define ARGV_BYTES_MAX (32u << 10)

void argv_write(struct bytes *out, const char *cmdline, size_t len, bool mask);

#endif
