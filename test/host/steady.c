/* SPDX-License-Identifier: MIT */
/*
 * steady: a program that may be killed at any moment and has told by then what
 * it did.
 *
 *	steady FILE
 *
 * Launches a kernel, waits for it, and writes the time (CLOCK_REALTIME, ns, 8
 * bytes) into FILE, which is mapped: nothing of it is lost with the process.
 * A kernel about each 100 us, for 20 s at most.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "test/host/gpu.h"

enum { MAX = 200000 };

int main(int argc, char **argv)
{
	_Atomic uint64_t *times;
	struct timespec t;
	struct gpu gpu;
	int fd, i;

	fd = argc > 1 ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;
	if (fd < 0 || ftruncate(fd, MAX * sizeof(*times)))
		return 2;
	times = mmap(NULL, MAX * sizeof(*times), PROT_READ | PROT_WRITE,
		     MAP_SHARED, fd, 0);
	if (times == MAP_FAILED)
		return 2;
	gpu_open(&gpu, 0);
	for (i = 0; i < MAX; i++) {
		gpu_launch(&gpu, KERNEL_SILU, NULL, 5000);
		CU(cuCtxSynchronize);
		clock_gettime(CLOCK_REALTIME, &t);
		atomic_store(&times[i], (uint64_t)t.tv_sec * 1000000000u +
			     (uint64_t)t.tv_nsec);
		usleep(50);
	}
	return EXIT_SUCCESS;
}
