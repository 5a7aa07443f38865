/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CFI_H
#define GPUTRACE_COLLECTOR_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/unwind_row.h"

/*
 * The small language of .eh_frame: numbers, pointers, and the instructions
 * that lead from a function's first address to a row.
 */

/* A place in a part of a file that is read; it never leaves [0, end). */
struct cfi_reader {
	const uint8_t *base;
	uintptr_t address;      /* of base, in the file's own addresses */
	size_t at, end;
	bool is_bad;            /* ran over the end, or unknown */
};

uint64_t cfi_read(struct cfi_reader *reader, size_t size);
uint64_t cfi_uleb(struct cfi_reader *reader);
int64_t cfi_sleb(struct cfi_reader *reader);
/* encoding: DW_EH_PE_*; `table`: what DW_EH_PE_datarel is relative to. */
uintptr_t cfi_pointer(struct cfi_reader *reader, uint8_t encoding,
		      uintptr_t table);

/* What the entry says that functions share (CIE). */
struct cfi_shared {
	uint64_t code_align;
	int64_t data_align;
	uint64_t return_reg;
	uint8_t encoding;       /* of addresses */
	bool has_length, is_signal;
	struct cfi_reader program;
};

/* Runs both programs up to pc; `start`: the function's first address.
 * False: an instruction, or a row, that does not fit. */
bool cfi_run(const struct cfi_shared *shared, struct cfi_reader *program,
	     uintptr_t start, uintptr_t pc, struct unwind_row *row);

#endif
