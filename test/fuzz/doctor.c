/* SPDX-License-Identifier: MIT */
/*
 * Hostile files for `gputrace doctor`, which may run as root: libraries,
 * /proc/PID and the loader's cache.  Whatever the bytes are, it answers with
 * 0, 1 or 3, without a crash, a leak or undefined behaviour (build with
 * SAN=address,undefined).
 *
 *      doctor [ITERATIONS]     mutations of real files, the same in every run
 *
 * With clang's -fsanitize=fuzzer and -DLIBFUZZER the mutations are libFuzzer's.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/gputrace.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* The machine: one of these is the input, the others are as they were. */
static const char *const files[] = {
	"proc/1234/maps", "proc/1234/status", "proc/1234/environ",
	"proc/1234/auxv", "lib/libgputrace.so", "lib/libcuda.so.1",
	"etc/ld.so.cache", "out/t.json",
};

enum { NR_FILES = sizeof(files) / sizeof(*files) };

static const char status[] = "Name:\tprog\nState:\tS (sleeping)\nTgid:\t1234\n"
	"TracerPid:\t0\nUid:\t0\t0\t0\t0\nNSpid:\t1234\t7\nVmSize:\t9 kB\n"
	"CapEff:\t0000000000200000\n";
static const char maps[] =
	"7f00-7f01 r-xp 00000000 08:01 1    /lib/libgputrace.so\n"
	"7f01-7f02 r-xp 00000000 08:01 2    /lib/libcuda.so.1\n"
	"7f02-7f03 r-xp 00000000 08:01 3    /x/libcupti.so.12 (deleted)\n"
	"7f03-7f04 r-xp 00000000 08:01 4    /x/nvidia/l/libcudart.so.12\n";
static const char environ_text[] = "GPUTRACE_OUT=/out/t.json\0GPUTRACE_API=x\0"
	"LD_PRELOAD=/lib/libgputrace.so\0LD_LIBRARY_PATH=/lib:x";
static const char json[] = "{\"traceEvents\":[],\"gputrace\":{\"losses\":"
	"{\"ring full\":3}},\"traceName\":\"t\"}";

/* A header, one entry (x86-64), two strings: tools/doctor_loader.c. */
static const char cache[] = "glibc-ld.so.cache1.1\1\0\0\0" "\36\0\0\0"
	"\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
	"\3\3\0\0" "\110\0\0\0" "\125\0\0\0\0\0\0\0\0\0\0\0"
	"libcuda.so.1\0/lib/libcuda.so.1";

static char root[64];

static void write_file(const char *name, const void *bytes, size_t size)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		mkdir(path, 0700);
		*at = '/';
	}
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		abort();
	close(fd);
}

/* The first bytes of a file that is there: this program, an ELF. */
static size_t read_own(const char *path, uint8_t *to, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, to, size);

	if (fd >= 0)
		close(fd);
	return len > 0 ? (size_t)len : 0;
}

static uint8_t elf[64 << 10];
static size_t elf_size;

static void write_machine(unsigned which)
{
	switch (which) {
	case 0: write_file(files[0], maps, sizeof(maps) - 1); break;
	case 1: write_file(files[1], status, sizeof(status) - 1); break;
	case 2: write_file(files[2], environ_text, sizeof(environ_text));
		break;
	case 3: write_file(files[3], status, 64); break;
	case 4: write_file(files[4], elf, elf_size); break;
	case 5: write_file(files[5], elf, elf_size); break;
	case 6: write_file(files[6], cache, sizeof(cache)); break;
	default: write_file(files[7], json, sizeof(json) - 1); break;
	}
}

static void remove_machine(void)
{
	static const char *const folders[] = { "proc/1234/task/1234/fd",
		"proc/1234/task/1234", "proc/1234/task", "proc/1234", "proc",
		"lib", "etc", "out", "" };
	char path[256];

	for (int i = 0; i < NR_FILES; i++) {
		snprintf(path, sizeof(path), "%s/%s", root, files[i]);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/proc/1234/task/1234/comm", root);
	unlink(path);
	snprintf(path, sizeof(path), "%s/proc/1234/task/1234/fd/3", root);
	unlink(path);
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		snprintf(path, sizeof(path), "%s/%s", root, folders[i]);
		rmdir(path);
	}
}

static void begin(void)
{
	char path[256];

	snprintf(root, sizeof(root), "/tmp/fuzz-doctor-XXXXXX");
	if (!mkdtemp(root))
		abort();
	atexit(remove_machine);
	elf_size = read_own("/proc/self/exe", elf, sizeof(elf));
	for (unsigned i = 0; i < NR_FILES; i++)
		write_machine(i);
	write_file("proc/1234/task/1234/comm", "gputrace-writer\n", 16);
	snprintf(path, sizeof(path), "%s/proc/1234/task/1234/fd", root);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/proc/1234/task/1234/fd/3", root);
	if (symlink("/out/.t.json.gputrace-twin", path))
		abort();
	/* What the command says, nobody reads. */
	stdout = stderr = fopen("/dev/null", "w");
	if (!stdout)
		abort();
}

/* The first byte says which file it is. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	char name[] = "doctor", option[] = "--root", pid[] = "1234",
	     format[] = "--format", text[] = "text", js[] = "json";
	unsigned which = size ? bytes[0] % NR_FILES : 0;
	char *argv[] = { name, option, root, format,
		size % 2 ? text : js, pid, NULL };
	int result;

	if (!root[0])
		begin();
	if (size)
		write_file(files[which], bytes + 1, size - 1);
	result = cmd_doctor(6, argv);
	if (result != STATUS_DONE && result != STATUS_FINDING &&
	    result != STATUS_COULD_NOT)
		abort();
	write_machine(which);
	return 0;
}

#ifndef LIBFUZZER
static uint64_t seed = 88172645463325252u;

static uint64_t any(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

/* The file as it is, with some bytes changed and the end cut. */
static void try_one(void)
{
	static uint8_t input[sizeof(elf) + 1];
	unsigned which = any() % NR_FILES;
	char path[128];
	size_t size;

	snprintf(path, sizeof(path), "%s/%s", root, files[which]);
	input[0] = (uint8_t)which;
	size = read_own(path, input + 1, sizeof(input) - 1);
	for (unsigned n = any() % 8; n && size; n--)
		input[1 + any() % (any() % 2 ? size : size < 512 ? size :
				   512)] = (uint8_t)any();
	if (size && any() % 4 == 0)
		size = any() % size;
	LLVMFuzzerTestOneInput(input, size + 1);
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? strtol(argv[1], NULL, 10) : 0;

	n = n > 0 ? n : 1000;
	LLVMFuzzerTestOneInput(NULL, 0);
	while (n-- > 0)
		try_one();
	return 0;
}
#endif
