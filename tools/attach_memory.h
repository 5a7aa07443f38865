/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_ATTACH_MEMORY_H
#define GPUTRACE_TOOLS_ATTACH_MEMORY_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The memory of another process: what is mapped where, and what the libraries
 * in it define.  They are read from memory, not from their files: those may be
 * deleted, replaced, or in another mount namespace.  All of it is hostile:
 * what is read is bounded.
 */
struct region {
	uint64_t start, end;
	bool is_exec, is_write;
	uint64_t base;          /* of the file: where its first byte is */
	const char *path;       /* "", "[stack]", "/usr/lib/libc.so.6" */
};

struct memory {
	int fd;                 /* /proc/PID/mem */
	char *maps;
	struct region *regions;
	size_t nr, cap;
};

/* 0 or -errno; memory_close() in every case. */
int memory_open(struct memory *m, pid_t pid);
void memory_close(struct memory *m);

/* Reads the list of what is mapped (anew).  0 or -errno. */
int memory_map(struct memory *m, pid_t pid);

bool memory_read(const struct memory *m, uint64_t at, void *to, size_t size);
bool memory_write(const struct memory *m, uint64_t at, const void *from,
		  size_t size);

/* What is mapped at the address, or NULL. */
const struct region *memory_at(const struct memory *m, uint64_t address);

/* The first mapping of a file of that name, up to ".so" or a version ("libc"
 * finds libc.so.6 and libc-2.31.so); NULL. */
const struct region *memory_library(const struct memory *m, const char *name);

/* The address of a function that the library at `base` defines, or 0. */
uint64_t memory_symbol(const struct memory *m, uint64_t base,
		       const char *name);

/* True if the library's dynamic strings hold this one. */
bool memory_has_string(const struct memory *m, uint64_t base,
		       const char *string);

/* The first place in executable memory of that file that holds these bytes,
 * or 0. */
uint64_t memory_find(const struct memory *m, uint64_t base,
		     const uint8_t *bytes, size_t size);

#endif
