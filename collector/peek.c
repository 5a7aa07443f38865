/* SPDX-License-Identifier: MIT */
#include "collector/peek.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KERNEL_SIGSET_SIZE 8

/* Not to become a call of memcpy(), which sanitizers check. */
typedef volatile uint64_t any_word __attribute__((aligned(1), may_alias));

static int ask(uintptr_t address)
{
	syscall(SYS_rt_sigprocmask, -1, address, NULL, KERNEL_SIGSET_SIZE);
	return errno;
}

static bool page_is_there(struct peek *peek, uintptr_t page)
{
	uintptr_t *slot = &peek->pages[page % PEEK_PAGES];
	uintptr_t *more = peek->more ? &peek->more[page % PEEK_MORE] : slot;

	if (*slot == page)
		return page != 0;
	if (!page || (*more != page &&
		      ask(page << PEEK_PAGE_SHIFT) != EINVAL))
		return false;
	*slot = *more = page;
	return true;
}

PEEK_UNCHECKED static void copy(char *to, uintptr_t from, size_t size)
{
	for (; size >= 8; size -= 8, from += 8, to += 8)
		__builtin_memcpy(to, &(uint64_t){ *(any_word *)from }, 8);
	for (; size; size--)
		*to++ = *(volatile char *)from++;
}

bool peek_copy(struct peek *peek, void *to, uintptr_t from, size_t size)
{
	uintptr_t page, last;

	if (!size || from + size < from)
		return false;
	last = (from + size - 1) >> PEEK_PAGE_SHIFT;
	for (page = from >> PEEK_PAGE_SHIFT; page <= last; page++)
		if (!page_is_there(peek, page))
			return false;
	copy(to, from, size);
	return true;
}

bool peek_other_word(struct peek *peek, uintptr_t from, uintptr_t *word)
{
	return peek_copy(peek, word, from, sizeof(*word));
}

bool peek_works(void)
{
	uint64_t there = 0;
	int saved = errno;
	bool works = ask((uintptr_t)&there) == EINVAL &&
		     ask(sizeof(there)) == EFAULT;

	errno = saved;
	return works;
}
