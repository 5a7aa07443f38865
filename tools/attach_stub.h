/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_ATTACH_STUB_H
#define GPUTRACE_TOOLS_ATTACH_STUB_H

#include <stddef.h>
#include <stdint.h>

/*
 * What runs in the other process, on a thread of its own: a few calls of the C
 * library's functions, whose addresses it is given.  The code is copied there,
 * so it refers to nothing but itself and its argument.  It needs nobody once
 * it runs: where the command dies it loads the library, or fails to, and goes.
 *
 *	  one mapping          STUB_CODE bytes of code, then the data
 */
#define STUB_CODE 4096
#define STUB_SIZE (STUB_CODE + 32768)

enum stub_step {
	STUB_NOT_STARTED,
	STUB_WAITS,             /* for the library in its descriptor `fd` */
	STUB_LOADING, STUB_DONE
};

enum stub_result {
	STUB_LOADED,            /* and gputrace_attach() gave `answer` */
	STUB_NO_LIBRARY,        /* `error` holds what dlerror() said */
	STUB_NO_ENTRY,          /* the library has no gputrace_attach() */
};

struct stub_data {
	/* The first three are known to the assembly. */
	void *mapping;
	size_t mapping_size;
	int (*unmap)(void *, size_t);

	void *(*open)(const char *, int);       /* dlopen */
	void *(*symbol)(void *, const char *);  /* dlsym */
	char *(*why)(void);                     /* dlerror, or NULL */
	unsigned long (*self)(void);            /* pthread_self */
	int (*detach)(unsigned long);           /* pthread_detach */
	int (*pause)(unsigned int);             /* usleep */
	int (*control)(int, ...);               /* prctl */
	int (*memory)(const char *, unsigned int);      /* memfd_create */
	int (*close)(int);
	int open_flags;
	uint32_t in_memory;     /* no path: the library comes by descriptor */
	int32_t fd;
	uint32_t is_filled;     /* and `path` names it */

	uint32_t step;          /* enum stub_step: written there, read here */
	uint32_t is_read;       /* the other way: the mapping may go */
	uint32_t result;        /* enum stub_result */
	int32_t answer;
	char thread[16], entry[32], file[32];
	char error[1024];
	char path[4096];
	char settings[16384];   /* lines */
};

/* The code, to be copied (names of the linker's); in it the thread's start
 * routine. */
extern const uint8_t __start_stub_body[], __stop_stub_body[];
extern const uint8_t stub_begin[];

#endif
