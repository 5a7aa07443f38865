/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CUPTI_PLACES_H
#define GPUTRACE_COLLECTOR_CUPTI_PLACES_H

/*
 * Where a libcupti can be, in the order in which the library tries them
 * (cupti_api.c) and `gputrace doctor` tells them.  Data alone: the command
 * includes it, too.
 */

/* X(CUDA's major version, soname): newest first. */
#define CUPTI_SONAMES(X) \
	X(13, "libcupti.so.13") \
	X(12, "libcupti.so.12") \
	X(11, "libcupti.so.11.8")

/* Folders of toolkits that the loader does not know; of several matches the
 * last one in the order of the alphabet. */
#define CUPTI_PLACES(X) \
	X("/usr/local/cuda/extras/CUPTI/lib64/") \
	X("/usr/local/cuda/lib64/") \
	X("/usr/local/cuda-*/extras/CUPTI/lib64/") \
	X("/usr/local/cuda-*/lib64/") \
	X("/opt/cuda/extras/CUPTI/lib64/") \
	X("/usr/lib/*-linux-gnu/")

/* Below the folder nvidia/ of pip's wheels, from which the process has mapped
 * a library of CUDA's. */
#define CUPTI_WHEEL_PLACES(X) \
	X("cu13/lib/") X("cuda_cupti/lib/") X("cu12/lib/")

#endif
