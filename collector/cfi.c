/* SPDX-License-Identifier: MIT */
#include "collector/cfi.h"

#include <string.h>

/* DWARF's numbers that compilers use here. */
enum {
	CFA_ADVANCE = 0x40, CFA_OFFSET = 0x80, CFA_RESTORE = 0xc0,
	CFA_NOP = 0, CFA_SET_LOC = 1, CFA_ADVANCE_1 = 2, CFA_ADVANCE_2 = 3,
	CFA_ADVANCE_4 = 4, CFA_OFFSET_EXTENDED = 5, CFA_RESTORE_EXTENDED = 6,
	CFA_UNDEFINED = 7, CFA_SAME = 8, CFA_REGISTER = 9, CFA_REMEMBER = 0xa,
	CFA_RECALL = 0xb, CFA_DEF = 0xc, CFA_DEF_REGISTER = 0xd,
	CFA_DEF_OFFSET = 0xe, CFA_DEF_EXPRESSION = 0xf, CFA_EXPRESSION = 0x10,
	CFA_OFFSET_SF = 0x11, CFA_DEF_SF = 0x12, CFA_DEF_OFFSET_SF = 0x13,
	CFA_PAC_STATE = 0x2d, CFA_ARGS_SIZE = 0x2e,
};
enum { OP_DEREF = 0x06, OP_BREG = 0x70 };
enum {
	PE_ABSOLUTE = 0, PE_ULEB = 1, PE_U2 = 2, PE_U4 = 3, PE_U8 = 4,
	PE_SLEB = 9, PE_S2 = 0xa, PE_S4 = 0xb, PE_S8 = 0xc,
	PE_FORM = 0x0f, PE_PCREL = 0x10, PE_DATAREL = 0x30, PE_BASE = 0x70,
	PE_INDIRECT = 0x80,
};
enum { REMEMBERED_MAX = 8 };

uint64_t cfi_read(struct cfi_reader *reader, size_t size)
{
	uint64_t value = 0;

	if (size > reader->end - reader->at) {
		reader->is_bad = true;
		reader->at = reader->end;
		return 0;
	}
	memcpy(&value, reader->base + reader->at, size);  /* little-endian */
	reader->at += size;
	return value;
}

static uint64_t leb(struct cfi_reader *reader, bool is_signed)
{
	uint64_t value = 0, byte;
	unsigned int shift = 0;

	do {
		byte = cfi_read(reader, 1);
		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80 && !reader->is_bad);
	if (is_signed && shift < 64 && byte & 0x40)
		value |= ~UINT64_C(0) << shift;
	return value;
}

uint64_t cfi_uleb(struct cfi_reader *reader)
{
	return leb(reader, false);
}

int64_t cfi_sleb(struct cfi_reader *reader)
{
	return (int64_t)leb(reader, true);
}

uintptr_t cfi_pointer(struct cfi_reader *reader, uint8_t encoding,
		      uintptr_t table)
{
	static const uint8_t sizes[16] = {
		[PE_ABSOLUTE] = 8, [PE_U2] = 2, [PE_U4] = 4, [PE_U8] = 8,
		[PE_S2] = 2, [PE_S4] = 4, [PE_S8] = 8,
	};
	uintptr_t here = reader->address + reader->at, value;
	uint8_t form = encoding & PE_FORM, size = sizes[form];

	if (form == PE_ULEB || form == PE_SLEB)
		value = leb(reader, form == PE_SLEB);
	else
		value = cfi_read(reader, size);
	if (form == PE_S2)
		value = (uintptr_t)(int64_t)(int16_t)value;
	else if (form == PE_S4)
		value = (uintptr_t)(int64_t)(int32_t)value;
	reader->is_bad |= encoding & PE_INDIRECT ||
		(!size && form != PE_ULEB && form != PE_SLEB);
	switch (encoding & PE_BASE) {
	case 0:
		return value;
	case PE_PCREL:
		return here + value;
	case PE_DATAREL:
		return table + value;
	}
	reader->is_bad = true;
	return 0;
}

/* ---- Instructions ---- */

struct state {
	const struct cfi_shared *shared;
	struct unwind_row row, initial, remembered[REMEMBERED_MAX];
	uint32_t nr_remembered;
	uintptr_t at, pc;
	bool is_unfit;
};

int unwind_saved_index(uint64_t reg)
{
	static const uint8_t saved[] = UNWIND_SAVED;
	int i;

	for (i = 0; i < UNWIND_NR_SAVED; i++)
		if (saved[i] == reg)
			return i;
	return -1;
}

/* A register lies `offset` from the row's base. */
static void save(struct state *state, uint64_t reg, int64_t offset)
{
	int i = unwind_saved_index(reg);

#ifdef __x86_64__
	if (reg == UNWIND_RA) {         /* always there */
		state->is_unfit |= offset != -8;
		return;
	}
#endif
	if (i < 0)
		return;
	if (offset > 0 || offset % 8 || offset / -8 > 254)
		state->is_unfit = true;
	else
		state->row.saved[i] = (uint8_t)(offset / -8 + 1);
}

static void restore(struct state *state, uint64_t reg)
{
	int i = unwind_saved_index(reg);

	if (i >= 0)
		state->row.saved[i] = state->initial.saved[i];
}

static void undefine(struct state *state, uint64_t reg)
{
	int i = unwind_saved_index(reg);

	if (reg == state->shared->return_reg)
		state->row.flags |= ROW_END;
	else if (i >= 0)
		state->row.saved[i] = 0;
}

static void set_register(struct state *state, uint64_t reg)
{
	state->is_unfit |= reg >= UNWIND_NR_REGS;
	state->row.cfa_reg = (uint8_t)reg;
	state->row.flags &= (uint8_t)~(ROW_DEREF | ROW_PLT);
}

static void set_offset(struct state *state, int64_t offset)
{
	state->is_unfit |= offset != (int32_t)offset;
	state->row.cfa_offset = (int32_t)offset;
}

static struct cfi_reader block(struct cfi_reader *reader)
{
	uint64_t size = cfi_uleb(reader);
	struct cfi_reader inner = *reader;

	if (size > reader->end - reader->at) {
		reader->is_bad = true;
		size = 0;
	}
	inner.end = reader->at + size;
	reader->at += size;
	return inner;
}

/* "The register and an offset" (then, what lies there): frames that were
 * aligned.  Or what linkers write for all entries of a procedure linkage table
 * (PLT). */
static void define_by_expression(struct state *state, struct cfi_reader *reader)
{
	/* rsp + 8 + ((rip & 15) >= 11) * 8 */
	static const uint8_t plt_entry[] = { 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b,
					     0x2a, 0x33, 0x24, 0x22 };
	struct cfi_reader inner = block(reader);
	const uint8_t *at = inner.base + inner.at;
	size_t size = inner.end - inner.at;
	uint64_t op;

	if (UNWIND_SP == 7 && size == sizeof plt_entry &&
	    !memcmp(at, plt_entry, 6) && !memcmp(at + 7, plt_entry + 7, 4) &&
	    (at[6] == 0x3a || at[6] == 0x3b)) {
		state->row.flags |= ROW_PLT;
		state->row.cfa_reg = UNWIND_SP;
		state->row.cfa_offset = at[6] - 0x30;
		return;
	}
	op = cfi_read(&inner, 1);
	set_register(state, op - OP_BREG);
	set_offset(state, cfi_sleb(&inner));
	if (inner.at == inner.end)
		return;
	state->is_unfit |= cfi_read(&inner, 1) != OP_DEREF ||
		inner.at != inner.end;
	state->row.flags |= ROW_DEREF;
}

static void save_by_expression(struct state *state, struct cfi_reader *reader)
{
	uint64_t reg = cfi_uleb(reader);
	struct cfi_reader inner = block(reader);
	uint64_t base = cfi_read(&inner, 1) - OP_BREG;
	int64_t offset = cfi_sleb(&inner);

	if (unwind_saved_index(reg) < 0)
		return;
	state->is_unfit |= inner.at != inner.end || base != UNWIND_FP;
	state->row.flags |= ROW_BY_REG;
	save(state, reg, offset);
}

static void remember(struct state *state)
{
	if (state->nr_remembered == REMEMBERED_MAX)
		state->is_unfit = true;
	else
		state->remembered[state->nr_remembered++] = state->row;
}

static void recall(struct state *state)
{
	if (!state->nr_remembered)
		state->is_unfit = true;
	else
		state->row = state->remembered[--state->nr_remembered];
}

static void advance(struct state *state, uint64_t steps)
{
	state->at += steps * state->shared->code_align;
}

/* Those that say where the frame begins. */
static bool define(struct state *state, uint8_t op, struct cfi_reader *reader)
{
	int64_t factor = state->shared->data_align;

	switch (op) {
	case CFA_DEF:
		set_register(state, cfi_uleb(reader));
		set_offset(state, (int64_t)cfi_uleb(reader));
		return true;
	case CFA_DEF_SF:
		set_register(state, cfi_uleb(reader));
		set_offset(state, cfi_sleb(reader) * factor);
		return true;
	case CFA_DEF_REGISTER:
		set_register(state, cfi_uleb(reader));
		return true;
	case CFA_DEF_OFFSET:
		set_offset(state, (int64_t)cfi_uleb(reader));
		return true;
	case CFA_DEF_OFFSET_SF:
		set_offset(state, cfi_sleb(reader) * factor);
		return true;
	case CFA_DEF_EXPRESSION:
		define_by_expression(state, reader);
		return true;
	}
	return false;
}

/* Those that move on, or keep the whole row. */
static bool move(struct state *state, uint8_t op, struct cfi_reader *reader)
{
	switch (op) {
	case CFA_NOP:
	case CFA_PAC_STATE:             /* unwind.c strips all addresses */
		return true;
	case CFA_ADVANCE_1:
		advance(state, cfi_read(reader, 1));
		return true;
	case CFA_ADVANCE_2:
		advance(state, cfi_read(reader, 2));
		return true;
	case CFA_ADVANCE_4:
		advance(state, cfi_read(reader, 4));
		return true;
	case CFA_REMEMBER:
		remember(state);
		return true;
	case CFA_RECALL:
		recall(state);
		return true;
	case CFA_ARGS_SIZE:
		(void)cfi_uleb(reader);
		return true;
	}
	return false;
}

/* Those that say where a register is. */
static bool place(struct state *state, uint8_t op, struct cfi_reader *reader)
{
	int64_t factor = state->shared->data_align;
	uint64_t reg;

	switch (op) {
	case CFA_OFFSET_EXTENDED:
		reg = cfi_uleb(reader);
		save(state, reg, (int64_t)cfi_uleb(reader) * factor);
		return true;
	case CFA_OFFSET_SF:
		reg = cfi_uleb(reader);
		save(state, reg, cfi_sleb(reader) * factor);
		return true;
	case CFA_RESTORE_EXTENDED:
		restore(state, cfi_uleb(reader));
		return true;
	case CFA_UNDEFINED:
		undefine(state, cfi_uleb(reader));
		return true;
	case CFA_SAME:
		reg = cfi_uleb(reader);
		if (unwind_saved_index(reg) >= 0)
			state->row.saved[unwind_saved_index(reg)] = 0;
		return true;
	case CFA_EXPRESSION:
		save_by_expression(state, reader);
		return true;
	}
	return false;
}

static void step(struct state *state, struct cfi_reader *reader)
{
	uint8_t op = (uint8_t)cfi_read(reader, 1), low = op & 0x3f;

	switch (op & 0xc0) {
	case CFA_ADVANCE:
		advance(state, low);
		return;
	case CFA_OFFSET:
		save(state, low, (int64_t)cfi_uleb(reader) *
		     state->shared->data_align);
		return;
	case CFA_RESTORE:
		restore(state, low);
		return;
	}
	if (!move(state, op, reader) && !define(state, op, reader) &&
	    !place(state, op, reader))
		state->is_unfit = true; /* SET_LOC, REGISTER, ... */
}

static bool run(struct state *state, struct cfi_reader *program)
{
	while (program->at < program->end && !program->is_bad &&
	       !state->is_unfit) {
		step(state, program);
		if (state->at > state->pc)
			return true;    /* (its last row has not begun) */
	}
	return !program->is_bad && !state->is_unfit;
}

bool cfi_run(const struct cfi_shared *shared, struct cfi_reader *program,
	     uintptr_t start, uintptr_t pc, struct unwind_row *row)
{
	struct state state = { .shared = shared, .at = start, .pc = pc };
	struct cfi_reader common = shared->program;

	if (!run(&state, &common))
		return false;
	state.initial = state.row;
	if (!run(&state, program))
		return false;
	*row = state.row;
	return true;
}
