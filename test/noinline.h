/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TEST_NOINLINE_H
#define GPUTRACE_TEST_NOINLINE_H

/* A function that is seen in stacks under its own name; clang clones none. */
#if defined(__clang__)
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif

#endif
