/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_UNWIND_H
#define GPUTRACE_COLLECTOR_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/unwind_row.h"

/*
 * The calling thread's stack, frame by frame: by the modules' unwind tables;
 * where there are none (code made at run time, hand-written) by the chain of
 * frame pointers.
 *
 * Safe in a signal handler, whatever was interrupted: no lock, no memory, no
 * loader.  Every word of the stack is looked at before it is read (peek.h),
 * each frame lies above the last, and a stack of garbage ends the walk.
 */
enum { UNWIND_FRAMES_MAX = 96 };

struct unwind_frame {
	uintptr_t pc, sp;
	uintptr_t registers[UNWIND_NR_REGS];
	bool is_exact;          /* pc is what runs next, no return address */
};

/* The frame of the function that calls it. */
__attribute__((always_inline))
static inline void unwind_here(struct unwind_frame *frame)
{
	uintptr_t *r = frame->registers;

#if defined(__x86_64__)
	__asm__ volatile("lea 0(%%rip), %0\n\t" : "=r" (frame->pc));
	__asm__ volatile("mov %%rbx, 24(%0)\n\tmov %%rbp, 48(%0)\n\t"
			 "mov %%rsp, 56(%0)\n\tmov %%r12, 96(%0)\n\t"
			 "mov %%r13, 104(%0)\n\tmov %%r14, 112(%0)\n\t"
			 "mov %%r15, 120(%0)" : : "r" (r) : "memory");
#else
	__asm__ volatile("adr %0, ." : "=r" (frame->pc));
	__asm__ volatile("stp x19, x20, [%0, 152]\n\tstp x21, x22, [%0, 168]\n\t"
			 "stp x29, x30, [%0, 232]\n\tmov x9, sp\n\t"
			 "str x9, [%0, 248]" : : "r" (r) : "x9", "memory");
#endif
	frame->sp = r[UNWIND_SP];
	frame->is_exact = true;
}

/* What a signal interrupted: `context` is the handler's ucontext_t. */
void unwind_interrupted(struct unwind_frame *frame, const void *context);

/* Code addresses, innermost first; those of callers are inside the call.
 * Returns their number, at most `max`.  errno may change.
 * Context: any thread, signal-safe; about 4 KiB of stack. */
uint32_t unwind(struct unwind_frame *frame, uintptr_t *pcs, uint32_t max);

#endif
