/* SPDX-License-Identifier: MIT */
#include "collector/unwind.h"

#include <stdatomic.h>
#include <string.h>
#include <ucontext.h>

#include "collector/peek.h"

/* No frame is larger, nor a whole stack looked at beyond it. */
#define FRAME_BYTES_MAX (UINT64_C(4) << 20)
#define STACK_BYTES_MAX (UINT64_C(64) << 20)

/* Rows that were found, by address.  64 KiB of pages that are touched as they
 * fill; the places a program samples are few. */
enum { CACHE_SLOTS = 4096 };

/*
 * Written by all threads without a lock: `check` is the address mixed with
 * what stands beside it, so that half of one row and half of another are no
 * row at all.
 */
static struct slot {
	_Atomic uint64_t check, low, high;
} cache[CACHE_SLOTS];

struct walk {
	struct unwind_frame *frame;
	const struct modules *modules;
	struct peek peek;
	uintptr_t first_sp;
};

static uint64_t mixed(uintptr_t pc, uint32_t generation, const uint64_t row[2])
{
	return (pc ^ (uint64_t)generation << 48) ^
		row[0] * UINT64_C(0x9e3779b97f4a7c15) ^
		(row[1] << 7 | row[1] >> 57);
}

static bool cached(const struct walk *walk, uintptr_t pc,
		   struct unwind_row *row)
{
	struct slot *slot = &cache[(pc ^ pc >> 12) % CACHE_SLOTS];
	uint64_t both[2] = {
		atomic_load_explicit(&slot->low, memory_order_relaxed),
		atomic_load_explicit(&slot->high, memory_order_relaxed),
	};

	memcpy(row, both, sizeof *row);
	return atomic_load_explicit(&slot->check, memory_order_relaxed) ==
		mixed(pc, walk->modules->generation, both);
}

static void keep(const struct walk *walk, uintptr_t pc,
		 const struct unwind_row *row)
{
	struct slot *slot = &cache[(pc ^ pc >> 12) % CACHE_SLOTS];
	uint64_t both[2];

	memcpy(both, row, sizeof both);
	atomic_store_explicit(&slot->low, both[0], memory_order_relaxed);
	atomic_store_explicit(&slot->high, both[1], memory_order_relaxed);
	atomic_store_explicit(&slot->check, mixed(pc,
			      walk->modules->generation, both),
			      memory_order_relaxed);
}

static bool find_row(const struct walk *walk, uintptr_t pc,
		     struct unwind_row *row)
{
	const struct module *module;

	if (!walk->modules)
		return false;
	if (cached(walk, pc, row))
		return true;
	module = modules_find(walk->modules, pc);
	memset(row, 0, sizeof *row);
	if (!module || !unwind_row_find(module, pc, row))
		return false;
	keep(walk, pc, row);
	return true;
}

/* Pointer authentication's bits of a return address. */
static uintptr_t stripped(uintptr_t pc)
{
#ifdef __aarch64__
	return pc & UINT64_C(0x0000ffffffffffff);
#else
	return pc;
#endif
}

void unwind_interrupted(struct unwind_frame *frame, const void *context)
{
	const ucontext_t *from = context;
	uintptr_t *r = frame->registers;

#if defined(__x86_64__)
	const greg_t *g = from->uc_mcontext.gregs;

	memset(r, 0, sizeof frame->registers);
	r[3] = (uintptr_t)g[REG_RBX];
	r[6] = (uintptr_t)g[REG_RBP];
	r[7] = (uintptr_t)g[REG_RSP];
	r[10] = (uintptr_t)g[REG_R10];
	r[12] = (uintptr_t)g[REG_R12];
	r[13] = (uintptr_t)g[REG_R13];
	r[14] = (uintptr_t)g[REG_R14];
	r[15] = (uintptr_t)g[REG_R15];
	frame->pc = (uintptr_t)g[REG_RIP];
#else
	memcpy(r, from->uc_mcontext.regs, 31 * sizeof *r);
	r[UNWIND_SP] = from->uc_mcontext.sp;
	frame->pc = from->uc_mcontext.pc;
#endif
	frame->sp = r[UNWIND_SP];
	frame->is_exact = true;
}

/* The frame that the kernel made for a handler of the program. */
static bool step_signal(struct walk *walk)
{
	struct unwind_frame *frame = walk->frame;
	uintptr_t at = frame->sp;
	ucontext_t context;
	uintptr_t *to = (uintptr_t *)&context;
	size_t i;

#ifdef __aarch64__
	at += 128;                      /* siginfo_t comes first */
#endif
	for (i = 0; i < offsetof(ucontext_t, uc_mcontext) / sizeof *to +
	     sizeof context.uc_mcontext / sizeof *to; i++)
		if (!peek_word(&walk->peek, at + i * sizeof *to, to + i))
			return false;
	unwind_interrupted(frame, &context);
	walk->first_sp = frame->sp;     /* it may be another stack */
	return frame->pc;
}

static bool frame_begin(struct walk *walk, const struct unwind_row *row,
			uintptr_t *cfa)
{
	const struct unwind_frame *frame = walk->frame;

	if (row->flags & ROW_PLT) {
		*cfa = frame->sp + 8 + ((frame->pc & 15) >=
					(uintptr_t)row->cfa_offset) * 8;
		return true;
	}
	*cfa = frame->registers[row->cfa_reg] +
		(uintptr_t)(intptr_t)row->cfa_offset;
	return !(row->flags & ROW_DEREF) || peek_word(&walk->peek, *cfa, cfa);
}

/* A caller's frame lies above, in reach; of a leaf of some machines in the
 * same place. */
static bool is_above(const struct walk *walk, uintptr_t sp)
{
	return sp - walk->frame->sp < FRAME_BYTES_MAX &&
		(sp != walk->frame->sp || (UNWIND_RA == 30 &&
					   walk->frame->is_exact));
}

static bool step_row(struct walk *walk, const struct unwind_row *row)
{
	static const uint8_t saved[] = UNWIND_SAVED;
	struct unwind_frame *frame = walk->frame;
	uintptr_t *r = frame->registers, cfa, base;
	int i;

	if (row->flags & ROW_END || !frame_begin(walk, row, &cfa) ||
	    !is_above(walk, cfa))
		return false;
	base = row->flags & ROW_BY_REG ? r[UNWIND_FP] : cfa;
#ifdef __x86_64__
	if (!peek_word(&walk->peek, cfa - 8, &r[UNWIND_RA]))
		return false;
#endif
	for (i = 0; i < UNWIND_NR_SAVED; i++)
		if (row->saved[i] &&
		    !peek_word(&walk->peek, base - 8u * (row->saved[i] - 1u),
			       &r[saved[i]]))
			return false;
	frame->pc = stripped(r[UNWIND_RA]);
	frame->sp = r[UNWIND_SP] = cfa;
	frame->is_exact = false;
	return frame->pc;
}

/* [fp]: the caller's frame pointer, [fp + 8]: the return address. */
static bool step_pointer(struct walk *walk)
{
	struct unwind_frame *frame = walk->frame;
	uintptr_t *r = frame->registers, fp = r[UNWIND_FP], outer, pc;

	if (fp < frame->sp || fp + 16 - frame->sp >= FRAME_BYTES_MAX ||
	    !peek_word(&walk->peek, fp, &outer) ||
	    !peek_word(&walk->peek, fp + 8, &pc))
		return false;
	pc = stripped(pc);
	/* Where frame pointers are not kept the register is anything. */
	if (pc < 4096 || (walk->modules && !modules_find(walk->modules, pc - 1)
			  && outer <= fp))
		return false;
	r[UNWIND_FP] = outer;
	frame->pc = pc;
	frame->sp = r[UNWIND_SP] = fp + 16;
	frame->is_exact = false;
	return true;
}

static bool step(struct walk *walk)
{
	struct unwind_frame *frame = walk->frame;
	struct unwind_row row;

	if (!find_row(walk, frame->pc - !frame->is_exact, &row))
		return step_pointer(walk);
	if (row.flags & ROW_SIGNAL)
		return step_signal(walk);
	return step_row(walk, &row);
}

uint32_t unwind(struct unwind_frame *frame, uintptr_t *pcs, uint32_t max)
{
	struct walk walk = {
		.frame = frame, .modules = modules_enter(),
		.first_sp = frame->sp,
	};
	uint32_t nr = 0;

	do
		pcs[nr++] = frame->pc - !frame->is_exact;
	while (nr < max && step(&walk) &&
	       frame->sp - walk.first_sp < STACK_BYTES_MAX);
	modules_leave();
	return nr;
}
