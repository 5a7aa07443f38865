/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_UNWIND_ROW_H
#define GPUTRACE_COLLECTOR_UNWIND_ROW_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/modules.h"

/*
 * How a function's caller is found from one of its instructions, as the
 * compiler wrote it into .eh_frame (the DWARF standard's call frame
 * information): where the frame begins (CFA), and which registers lie where.
 *
 *      caller's frame
 *   +-----------------+ <- CFA = register `cfa_reg` + cfa_offset
 *   | return address  |    CFA - 8, on x86-64
 *   | saved registers |    place - 8 * (saved[i] - 1): below the CFA, or, in
 *   |       ...       |    frames that were aligned, the frame pointer
 *   +-----------------+ <- stack pointer
 *
 * What real compilers write fits into these 16 bytes; the rest is refused.
 */
#if defined(__x86_64__)
#define UNWIND_SP 7
#define UNWIND_FP 6
#define UNWIND_RA 16
#define UNWIND_SAVED { 3, 6, 12, 13, 14, 15 }
enum { UNWIND_NR_SAVED = 6, UNWIND_NR_REGS = 17 };
#elif defined(__aarch64__)
#define UNWIND_SP 31
#define UNWIND_FP 29
#define UNWIND_RA 30
#define UNWIND_SAVED { 29, 30, 19, 20, 21, 22 }
enum { UNWIND_NR_SAVED = 6, UNWIND_NR_REGS = 32 };
#else
#error "no unwinding on this machine"
#endif

enum {
	ROW_END = 1 << 0,       /* the outermost frame */
	ROW_SIGNAL = 1 << 1,    /* the kernel's frame of a signal handler */
	ROW_DEREF = 1 << 2,     /* the CFA is what lies at that address */
	ROW_BY_REG = 1 << 3,    /* registers lie below the frame pointer */
	ROW_PLT = 1 << 4,       /* a PLT entry of 16 bytes, which has pushed a
				 * word from byte `cfa_offset` on */
};

struct unwind_row {
	int32_t cfa_offset;
	uint8_t cfa_reg;
	uint8_t flags;
	uint8_t saved[UNWIND_NR_SAVED]; /* 0: as it was */
	uint8_t reserved[4];
};
_Static_assert(sizeof(struct unwind_row) == 16, "two words in the cache");

/* False: the module says nothing of this address, or more than fits.
 * Context: between modules_enter() and leave, signal-safe. */
bool unwind_row_find(const struct module *module, uintptr_t pc,
		     struct unwind_row *row);

/* The function that holds the address, or the part of one that the compiler
 * put elsewhere, which has an entry of its own.  False: none is known.
 * Context: as above. */
bool unwind_function_find(const struct module *module, uintptr_t pc,
			  uintptr_t *start, uintptr_t *size);

/* Where register `reg` is in `saved`, or -1. */
int unwind_saved_index(uint64_t reg);

#endif
