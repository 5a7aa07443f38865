/* SPDX-License-Identifier: MIT */
#include "collector/nvtx_late.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collector/module.h"
#include "collector/nvtx.h"
#include "collector/nvtx_record.h"
#include "collector/wait.h"

enum { STATE_WORD = 0, CALLBACKS_WORD = 1, VERSION_WORD = 3, FIRST_SLOT = 6 };
enum { CALLBACKS_SIZE = 16, VERSION_SIZE = 24 };
enum { IS_FRESH = 0, IS_STARTED = 1, IS_COMPLETE = 2 };

/* The first module has 15 functions; all modules of NVTX 3 up to CUDA 13 have
 * 64, and their tables 76 words.  Three times that is room for more. */
enum { NR_CORE = 15, WORDS_MAX = 512, TABLE_MAX = 64 };

/* A pass: some 0.1 ms, in which nobody can load or unload a library. */
#define PASS_BYTES (1u << 20)

/* In all.  PyTorch's libraries have some 10 MiB of such memory. */
#define ALL_BYTES (256u << 20)

/* All that use NVTX 2 share it. */
#define NVTX2_LIBRARY "libnvToolsExt.so."

/* A first call lasts as long as the load of a library. */
enum { BUSY_LOOKS = 50 };
#define BUSY_WAIT_NS 20000000u

#define PAGE 4096u      /* or a part of one, where they are larger */

/* What we look at is the program's, which writes to it meanwhile, and where
 * the sanitizers see red zones. */
#define FOREIGN __attribute__((no_sanitize("address", "thread", "undefined")))

/* The kernel copies 8 bytes from there and then finds that the request makes
 * no sense: the most ordinary call that tells, and no filter of system calls
 * minds. */
static bool is_readable(uintptr_t address)
{
	return syscall(SYS_rt_sigprocmask, ~0, (const void *)address, NULL,
		       sizeof(uint64_t)) == 0 || errno != EFAULT;
}

/* ---- One structure ---- */

struct user {
	const uint64_t *words;
	size_t nr;              /* that can be read from there on */
	size_t table;           /* the word at which the first table begins */
};

/* NULL, the addresses of the first 15 slots, NULL. */
FOREIGN static bool is_table(const struct user *user, size_t at)
{
	uint64_t slot = (uintptr_t)&user->words[FIRST_SLOT];

	if (user->words[at] || user->words[at + NR_CORE + 1])
		return false;
	for (size_t i = 0; i < NR_CORE; i++)
		if (user->words[at + 1 + i] != slot + i * sizeof slot)
			return false;
	return true;
}

FOREIGN static bool is_user(struct user *user,
			    const struct dl_phdr_info *module)
{
	const uint64_t *words = user->words;
	size_t last = user->nr < WORDS_MAX ? user->nr : WORDS_MAX;

	if ((uint32_t)words[STATE_WORD] > IS_COMPLETE ||
	    !module_has(module, words[CALLBACKS_WORD + 1], PF_X) ||
	    !module_has(module, words[VERSION_WORD + 2], PF_X))
		return false;
	for (size_t at = FIRST_SLOT + NR_CORE; at + NR_CORE + 2 <= last; at++)
		if (is_table(user, at)) {
			user->table = at;
			return true;
		}
	return false;
}

FOREIGN static bool is_unused(const struct user *user)
{
	for (size_t at = FIRST_SLOT; at < user->table; at++)
		if (user->words[at])
			return false;
	return true;
}

/* Does what its own function says agree with what we see?  Tables lie behind
 * the first, and lead to slots before it. */
FOREIGN static bool is_sound(const struct user *user)
{
	int (*tables)(uint32_t module, void ****table, uint32_t *size) =
		(void *)user->words[CALLBACKS_WORD + 1];
	uintptr_t slots = (uintptr_t)&user->words[FIRST_SLOT];
	uintptr_t first = (uintptr_t)&user->words[user->table];
	uintptr_t end = (uintptr_t)&user->words[user->nr];
	void ***table;
	uint32_t nr;

	if (!tables(1, &table, &nr) || (uintptr_t)table != first)
		return false;
	for (uint32_t module = 1; module <= 6; module++) {
		if (!tables(module, &table, &nr))
			continue;
		if ((uintptr_t)table < first || nr > TABLE_MAX ||
		    (uintptr_t)(table + nr) > end)
			return false;
		for (uint32_t i = 1; i < nr; i++)
			if (table[i] && ((uintptr_t)table[i] < slots ||
					 (uintptr_t)table[i] >= first))
				return false;
	}
	return true;
}

FOREIGN static void take(struct nvtx_late *late, const struct user *user)
{
	uint32_t state = __atomic_load_n((const uint32_t *)user->words,
					 __ATOMIC_ACQUIRE);

	if (state == IS_STARTED)
		late->busy++;
	else if (state == IS_COMPLETE && !is_unused(user))
		late->taken++;
	else if (state == IS_COMPLETE && is_sound(user)) {
		nvtx_fill((const void *)&user->words[CALLBACKS_WORD],
			  (const void *)&user->words[VERSION_WORD]);
		late->filled++;
	}
}

/* ---- The memory of a module ---- */

/* Words that can be read from `at` on, of the structure that may begin there;
 * the pages before `known` can. */
static size_t readable_words(uintptr_t at, uintptr_t known, uintptr_t end)
{
	uintptr_t want = at + WORDS_MAX * sizeof(uint64_t);

	while (known < want && known < end && is_readable(known))
		known += PAGE;
	want = known < want ? known : want;
	return ((want < end ? want : end) - at) / sizeof(uint64_t);
}

/* [at, stop) can be read; what begins in it may go on up to end. */
FOREIGN static void look_at_page(struct nvtx_late *late,
				 const struct dl_phdr_info *module,
				 uintptr_t at, uintptr_t stop, uintptr_t end)
{
	for (; at < stop; at += sizeof(uint64_t)) {
		const uint64_t *words = (const uint64_t *)at;
		struct user user = { .words = words };

		if (end - at < (FIRST_SLOT + 2 * NR_CORE) * sizeof *words)
			return;
		/* The size is the rarest; the others may lie on a page that
		 * was not tried yet. */
		if (stop - at > CALLBACKS_WORD * sizeof *words &&
		    words[CALLBACKS_WORD] != CALLBACKS_SIZE)
			continue;
		user.nr = readable_words(at, stop, end);
		if (user.nr > FIRST_SLOT &&
		    words[CALLBACKS_WORD] == CALLBACKS_SIZE &&
		    words[VERSION_WORD] == VERSION_SIZE &&
		    words[VERSION_WORD + 1] == NVTX_VERSION &&
		    is_user(&user, module))
			take(late, &user);
	}
}

static uintptr_t min(uintptr_t a, uintptr_t b)
{
	return a < b ? a : b;
}

/* False: the pass is over before the part is. */
static bool look_at_part(struct nvtx_late *late,
			 const struct dl_phdr_info *module,
			 uintptr_t start, uintptr_t end)
{
	uintptr_t at = start > late->resume ? start : late->resume, stop;

	for (; at < end; at = stop) {
		if (!late->left) {
			late->resume = at;
			return false;
		}
		stop = min((at | (PAGE - 1)) + 1, end);
		late->left -= min(late->left, stop - at);
		if (is_readable(at))
			look_at_page(late, module, at, stop, end);
	}
	return true;
}

/* ---- NVTX 2 ---- */

/* Functions of its modules 1 to 6 (as NVTX 3 has them, but for one). */
enum { NR_MODULES = 6 };
static const uint8_t nr_functions[] = { 15, 8, 14, 6, 14, 6 };

/* Of the one that is being looked at; this is one thread's work. */
static const uint64_t *library_tables;

static int library_functions(uint32_t module, void ****table, uint32_t *size)
{
	if (module < 1 || module > NR_MODULES)
		return 0;
	*table = (void ***)(uintptr_t)library_tables[module];
	*size = nr_functions[module - 1] + 1u;
	return 1;
}

/* Aligned, and so many words of this memory. */
static bool is_inside(uint64_t address, size_t nr, uintptr_t start,
		      uintptr_t end)
{
	return address % sizeof address == 0 && address >= start &&
		address < end && (end - address) / sizeof address >= nr;
}

/* NULL, the addresses of nr slots, NULL. */
FOREIGN static bool is_library_table(uint64_t address, size_t nr,
				     uintptr_t start, uintptr_t end)
{
	const uint64_t *words = (const uint64_t *)(uintptr_t)address;

	if (!is_inside(address, nr + 2, start, end) || words[0] ||
	    words[nr + 1])
		return false;
	for (size_t i = 1; i <= nr; i++)
		if (!is_inside(words[i], 1, start, end))
			return false;
	return true;
}

FOREIGN static bool is_library_unused(const uint64_t *tables)
{
	for (size_t module = 1; module <= NR_MODULES; module++) {
		uint64_t **table = (void *)(uintptr_t)tables[module];

		for (size_t i = 1; i <= nr_functions[module - 1]; i++)
			if (*table[i])
				return false;
	}
	return true;
}

/* NULL, the addresses of six tables: nothing of it is called. */
FOREIGN static bool is_library(const uint64_t *words, uintptr_t start,
			       uintptr_t end)
{
	if (words[0] || !is_inside((uintptr_t)words, NR_MODULES + 1, start,
				   end))
		return false;
	for (size_t module = 1; module <= NR_MODULES; module++)
		if (!is_library_table(words[module], nr_functions[module - 1],
				      start, end))
			return false;
	return true;
}

FOREIGN static void look_at_library(struct nvtx_late *late, uintptr_t start,
				    uintptr_t end)
{
	static const struct nvtx_callbacks_table callbacks = {
		sizeof callbacks, library_functions,
	};
	const uint64_t *words;

	for (uintptr_t at = start; at < end; at = (at | (PAGE - 1)) + 1)
		if (!is_readable(at))
			return;
	for (words = (const uint64_t *)start; end - (uintptr_t)words >=
	     (NR_MODULES + 1) * sizeof *words; words++) {
		if (!is_library(words, start, end))
			continue;
		if (!is_library_unused(words)) {
			late->taken++;
			continue;
		}
		library_tables = words;
		nvtx_fill(&callbacks, NULL);
		late->filled++;
	}
}

/* ---- A module, and all of them ---- */

bool nvtx_late_look(struct nvtx_late *late, const struct dl_phdr_info *module)
{
	for (size_t i = 0; i < module->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &module->dlpi_phdr[i];
		uintptr_t start = module->dlpi_addr + part->p_vaddr;
		uintptr_t end = start + part->p_filesz;

		if (part->p_type != PT_LOAD || !(part->p_flags & PF_W))
			continue;
		start = (start + 7) & ~(uintptr_t)7;
		end &= ~(uintptr_t)7;
		if (module->dlpi_name && end - start < PASS_BYTES &&
		    strstr(module->dlpi_name, NVTX2_LIBRARY))
			look_at_library(late, start, end);
		else if (!look_at_part(late, module, start, end))
			return false;
	}
	return true;
}


/* Numbers of modules change when one before them is unloaded: from the first
 * one again, then. */
static int look_at_next(struct dl_phdr_info *module, size_t size, void *late_)
{
	struct nvtx_late *late = late_;

	(void)size;
	if (late->removed != module->dlpi_subs) {
		late->removed = module->dlpi_subs;
		late->module = 0;
		late->resume = 0;
	}
	if (late->seen++ < late->module)
		return 0;
	if (!nvtx_late_look(late, module))
		return 1;
	late->module++;
	late->resume = 0;
	return 0;
}

static void look_at_all(struct nvtx_late *late)
{
	size_t bytes = 0;

	*late = (struct nvtx_late){ 0 };
	do {
		late->seen = 0;
		late->left = PASS_BYTES;
		bytes += PASS_BYTES;
	} while (dl_iterate_phdr(look_at_next, late) && bytes < ALL_BYTES);
}

unsigned int nvtx_late_attach(void)
{
	static _Atomic uint32_t never;
	unsigned int filled = 0;
	struct nvtx_late late;
	int looks = BUSY_LOOKS;

	/* The variable was set before: a user whose first call has not begun
	 * by what we read finds it. */
	atomic_thread_fence(memory_order_seq_cst);
	do {
		look_at_all(&late);
		filled += late.filled;
		if (late.busy)
			wait_change(&never, 0, BUSY_WAIT_NS);
	} while (late.busy && --looks);
	return filled;
}
