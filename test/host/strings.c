/* SPDX-License-Identifier: MIT */
/*
 * strings: gives every kind of name to the same texts, whatever they hold.
 *
 *	strings TEXTS [WIDE]
 *
 * TEXTS is a file of texts that end in a zero byte each; WIDE one of texts of
 * wchar_t.  Text number i is the name of
 *	a range, a start/end range, a mark, with the payload i;
 *	a registered string, its domain and its category, with the payload i;
 *	two threads, by NVTX and by the system (its first 15 bytes), which
 *	make a range with the payload i;
 *	a stream, and the kernel on it, whose grid is i + 1 (SIM_NAME_HEX=1).
 * Text number i of WIDE names a range, a registered string and a thread, with
 * the payload 1000 + i.  The device is named by text 0.
 */
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "test/host/gpu.h"

enum { COMM_MAX = 15, WIDE_FROM = 1000 };

struct text {
	const char *ascii;
	const wchar_t *wide;
	uint64_t number;
	nvtxStringHandle_t registered;
};

static struct gpu gpu;

static void *read_whole(const char *path, size_t *size)
{
	FILE *file = fopen(path, "rb");
	struct stat st;
	void *bytes;

	if (!file || fstat(fileno(file), &st))
		exit(EXIT_FAILURE);
	bytes = calloc(1, (size_t)st.st_size + sizeof(wchar_t));
	*size = fread(bytes, 1, (size_t)st.st_size, file);
	fclose(file);
	return bytes;
}

static nvtxEventAttributes_t attributes_of(const struct text *text)
{
	nvtxEventAttributes_t a = {
		.version = NVTX_VERSION, .size = sizeof(a),
		.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
		.payload = { .ullValue = text->number },
	};

	if (text->registered) {
		a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
		a.message.registered = text->registered;
	} else if (text->wide) {
		a.messageType = NVTX_MESSAGE_TYPE_UNICODE;
		a.message.unicode = text->wide;
	} else {
		a.messageType = NVTX_MESSAGE_TYPE_ASCII;
		a.message.ascii = text->ascii;
	}
	return a;
}

static void use_events(const struct text *text)
{
	nvtxEventAttributes_t a = attributes_of(text);
	nvtxRangeId_t id;

	nvtxRangePushEx(&a);
	nvtxRangePop();
	id = nvtxRangeStartEx(&a);
	nvtxRangeEnd(id);
	nvtxMarkEx(&a);
}

static void use_domain(struct text text)
{
	nvtxDomainHandle_t domain = text.wide ? nvtxDomainCreateW(text.wide) :
		nvtxDomainCreateA(text.ascii);
	nvtxEventAttributes_t a;

	if (text.wide) {
		nvtxDomainNameCategoryW(domain, 7, text.wide);
		text.registered = nvtxDomainRegisterStringW(domain, text.wide);
	} else {
		nvtxDomainNameCategoryA(domain, 7, text.ascii);
		text.registered = nvtxDomainRegisterStringA(domain,
							    text.ascii);
	}
	a = attributes_of(&text);
	a.category = 7;
	nvtxDomainRangePushEx(domain, &a);
	nvtxDomainRangePop(domain);
}

static void push_plain(uint64_t number)
{
	const struct text text = { .ascii = "thread", .number = number };
	nvtxEventAttributes_t a = attributes_of(&text);

	nvtxRangePushEx(&a);
	nvtxRangePop();
}

static void *be_named(void *argument)
{
	const struct text *text = argument;

	if (text->wide)
		nvtxNameOsThreadW((uint32_t)gettid(), text->wide);
	else
		nvtxNameOsThreadA((uint32_t)gettid(), text->ascii);
	push_plain(text->number);
	return NULL;
}

static void *name_itself(void *argument)
{
	const struct text *text = argument;
	char comm[COMM_MAX + 1] = "";

	memcpy(comm, text->ascii, strnlen(text->ascii, COMM_MAX));
	pthread_setname_np(pthread_self(), comm);
	push_plain(text->number);
	return NULL;
}

static void run_thread(void *(*run)(void *), struct text *text)
{
	pthread_t thread;

	pthread_create(&thread, NULL, run, text);
	pthread_join(thread, NULL);
}

/* A module with one kernel of that name, in hex: SIM_NAME_HEX undoes it. */
static void use_kernel(const struct text *text)
{
	size_t len = strlen(text->ascii), i;
	char *symbol = malloc(2 * len + 8), *ptx = malloc(2 * len + 256);
	CUmodule module;
	CUfunction function;
	CUstream stream;

	strcpy(symbol, "hex_");
	for (i = 0; i < len; i++)
		sprintf(symbol + 4 + 2 * i, "%02x",
			(unsigned char)text->ascii[i]);
	sprintf(ptx, ".version 7.0\n.target sm_70\n.address_size 64\n"
		".visible .entry %s(.param .u64 duration_ns)\n{\n\tret;\n}\n",
		symbol);
	CU(cuModuleLoadData, &module, ptx);
	CU(cuModuleGetFunction, &function, module, symbol);
	CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	nvtxNameCuStreamA(stream, text->ascii);
	gpu_launch_function(function, (unsigned int)text->number + 1, 1, 0,
			    stream, 2000);
	CU(cuStreamSynchronize, stream);
	free(symbol);
	free(ptx);
}

static void use_text(struct text *text)
{
	use_events(text);
	use_domain(*text);
	run_thread(be_named, text);
	if (text->wide)
		return;
	run_thread(name_itself, text);
	if (*text->ascii)
		use_kernel(text);
}

int main(int argc, char **argv)
{
	struct text text = { 0 };
	size_t size, at;
	const char *texts;
	const wchar_t *wides;

	if (argc < 2)
		return 2;
	gpu_open(&gpu, 0);
	texts = read_whole(argv[1], &size);
	nvtxNameCuDeviceA(0, texts);
	for (at = 0; at < size; at += strlen(texts + at) + 1) {
		text.ascii = texts + at;
		use_text(&text);
		text.number++;
	}
	text.number = WIDE_FROM;
	wides = argc > 2 ? read_whole(argv[2], &size) : NULL;
	for (at = 0; wides && at < size / sizeof(wchar_t);
	     at += wcslen(wides + at) + 1) {
		text.wide = wides + at;
		use_text(&text);
		text.number++;
	}
	gpu_close(&gpu);
	return EXIT_SUCCESS;
}
