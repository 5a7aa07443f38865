/* SPDX-License-Identifier: MIT */
#include "tools/attach_stub.h"

#include <sys/mman.h>
#include <sys/prctl.h>

/* The results stay so long for the command to read them, in us. */
enum { LOOKS = 300, LOOK_US = 10000 };

_Static_assert(offsetof(struct stub_data, unmap) == 16, "see below");
_Static_assert(sizeof(struct stub_data) <= STUB_SIZE - STUB_CODE, "room");

#define IN_STUB __attribute__((section("stub_body"), used, noinline, \
	no_sanitize("address", "undefined", "thread")))

/*
 * The start routine: the body, then a jump to munmap(), which returns to the
 * thread's start when this code is gone.
 */
#if defined(__x86_64__)
__asm__(
	".pushsection stub_body,\"ax\",@progbits\n"
	".globl stub_begin\n.hidden stub_begin\n"
	".type stub_begin,@function\n"
	"stub_begin:\n"
	"	push %rbx\n"
	"	mov %rdi, %rbx\n"
	"	call stub_load\n"
	"	mov (%rbx), %rdi\n"
	"	mov 8(%rbx), %rsi\n"
	"	mov 16(%rbx), %rax\n"
	"	pop %rbx\n"
	"	jmp *%rax\n"
	".popsection\n");
#elif defined(__aarch64__)
__asm__(
	".pushsection stub_body,\"ax\",@progbits\n"
	".globl stub_begin\n.hidden stub_begin\n"
	".type stub_begin,@function\n"
	"stub_begin:\n"
	"	bti c\n"
	"	stp x29, x30, [sp, #-32]!\n"
	"	str x19, [sp, #16]\n"
	"	mov x19, x0\n"
	"	bl stub_load\n"
	"	ldp x0, x1, [x19]\n"
	"	ldr x16, [x19, #16]\n"
	"	ldr x19, [sp, #16]\n"
	"	ldp x29, x30, [sp], #32\n"
	"	br x16\n"
	".popsection\n");
#endif

IN_STUB static void put(uint32_t *to, uint32_t value)
{
	__atomic_store_n(to, value, __ATOMIC_RELEASE);
}

IN_STUB static void keep_why(struct stub_data *d)
{
	const char *why = d->why ? d->why() : NULL;

	for (size_t i = 0; why && why[i] && i < sizeof(d->error) - 1; i++)
		((volatile char *)d->error)[i] = why[i];
}

IN_STUB static int wait_for(struct stub_data *d, const uint32_t *flag)
{
	for (int i = 0; i < LOOKS; i++) {
		if (__atomic_load_n(flag, __ATOMIC_ACQUIRE))
			return 1;
		d->pause(LOOK_US);
	}
	return 0;
}

/* The descriptor stays: the path that NVTX is told leads through it. */
IN_STUB static void *open_library(struct stub_data *d)
{
	void *library = 0;

	if (!d->in_memory)
		return d->open(d->path, d->open_flags);
	d->fd = d->memory(d->file, MFD_CLOEXEC);
	if (d->fd < 0)
		return 0;
	put(&d->step, STUB_WAITS);
	if (wait_for(d, &d->is_filled))
		library = d->open(d->path, d->open_flags);
	if (!library)
		d->close(d->fd);
	return library;
}

IN_STUB static uint32_t bring(struct stub_data *d)
{
	int (*entry)(const char *);
	void *library = open_library(d);

	if (!library) {
		keep_why(d);
		return STUB_NO_LIBRARY;
	}
	entry = (int (*)(const char *))d->symbol(library, d->entry);
	if (!entry)
		return STUB_NO_ENTRY;
	d->answer = entry(d->settings);
	return STUB_LOADED;
}

IN_STUB void stub_load(struct stub_data *d);
void stub_load(struct stub_data *d)
{
	d->detach(d->self());
	d->control(PR_SET_NAME, (unsigned long)d->thread, 0ul, 0ul, 0ul);
	put(&d->step, STUB_LOADING);
	d->result = bring(d);
	put(&d->step, STUB_DONE);
	wait_for(d, &d->is_read);
}
