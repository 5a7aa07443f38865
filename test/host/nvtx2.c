/* SPDX-License-Identifier: MIT */
/*
 * nvtx2: a program of the NVTX 2 time (libnvToolsExt.so.1, gone since CUDA
 * 12.9), rebuilt by hand.
 *
 * Shows: the injection library named by NVTX_INJECTION64_PATH is asked through
 * InitializeInjectionNvtx2 with the tables of NVTX 2, which has no version
 * table and one function less in CORE2; what it stores there is then called.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "test/host/gpu.h"

/* Callback ids of NVTX (module CORE and CORE2). */
enum { CORE_MARK = 2, CORE_START = 5, CORE_END = 7, CORE_PUSH = 9,
       CORE_POP = 11, CORE_SIZE = 16 };
enum { CORE2_POP = 5, CORE2_CREATE = 12, CORE2_PUSH = 4, CORE2_SIZE = 15 };

/* 48 bytes, version 2: as nvtxEventAttributes_t was. */
struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type;
	const char *message;
};
_Static_assert(sizeof(struct attributes) == 48, "NVTX 2's layout");

typedef void (*function)(void);
static function core[CORE_SIZE], core2[CORE2_SIZE];
static function *core_table[CORE_SIZE + 1], *core2_table[CORE2_SIZE + 1];

static int module_table(uint32_t module, function ***table, unsigned int *size)
{
	if (module == 1) {
		*table = core_table;
		*size = CORE_SIZE;
		return 1;
	}
	if (module == 5) {
		*table = core2_table;
		*size = CORE2_SIZE;
		return 1;
	}
	return 0;
}

static const struct {
	size_t size;
	int (*module_table)(uint32_t, function ***, unsigned int *);
} callbacks = { sizeof(callbacks), module_table };

static const void *export_table(uint32_t id)
{
	return id == 1 ? &callbacks : NULL;
}

static bool attach(void)
{
	const char *path = getenv("NVTX_INJECTION64_PATH");
	void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
	int (*init)(const void *(*)(uint32_t));
	int i;

	for (i = 1; i < CORE_SIZE; i++)
		core_table[i] = &core[i];
	for (i = 1; i < CORE2_SIZE; i++)
		core2_table[i] = &core2[i];
	init = library ? (int (*)(const void *(*)(uint32_t)))
		dlsym(library, "InitializeInjectionNvtx2") : NULL;
	return init && init(export_table);
}

static void core_calls(void)
{
	uint64_t id;

	((void (*)(const char *))core[CORE_MARK])("mark 2");
	id = ((uint64_t (*)(const char *))core[CORE_START])("start 2");
	((int (*)(const char *))core[CORE_PUSH])("push 2");
	((int (*)(void))core[CORE_POP])();
	((void (*)(uint64_t))core[CORE_END])(id);
}

static void domain_calls(void)
{
	struct attributes a = {
		.version = 2, .size = sizeof(a), .message_type = 1,
		.message = "domain push 2",
	};
	void *domain;

	domain = ((void *(*)(const char *))core2[CORE2_CREATE])("domain 2");
	((int (*)(void *, struct attributes *))core2[CORE2_PUSH])(domain, &a);
	((int (*)(void *))core2[CORE2_POP])(domain);
}

int main(void)
{
	struct gpu gpu;
	bool attached = attach();

	gpu_open(&gpu, 0);
	if (attached) {
		core_calls();
		domain_calls();
	}
	gpu_launch(&gpu, KERNEL_ADD, NULL, 5000);
	gpu_close(&gpu);
	printf("{\"attached\": %d}\n", attached);
	return EXIT_SUCCESS;
}
