/* SPDX-License-Identifier: MIT */
#include "collector/stack_fill.h"

#include <string.h>

#include "collector/python.h"

static void fill_pcs(struct stack_record *record, struct unwind_frame *frame)
{
	uint32_t nr, i;

	_Static_assert(sizeof(uintptr_t) == sizeof record->pcs[0],
		       "addresses are 64 bits");
	nr = unwind(frame, (uintptr_t *)record->pcs, STACK_PCS_MAX);
	for (i = 0; i < nr; i++)
		if (python_is_eval_frame(record->pcs[i]))
			record->pcs[i] |= STACK_EVAL;
	record->nr_pcs = nr;
}

uint32_t stack_fill(struct stack_record *record, struct unwind_frame *frame)
{
	char *text;
	uint32_t len = 0;

	fill_pcs(record, frame);
	text = (char *)(record->pcs + record->nr_pcs);
	record->ends = 0;
	/* Also where no frame is the interpreter's: it may be out of reach. */
	if (python_walk_calls(text, RECORD_TEXT_MAX, &record->ends) > 0)
		len = (uint32_t)strnlen(text, RECORD_TEXT_MAX);
	/* The writer tells stacks apart by whole words. */
	memset(text + len, 0, -len & 7);
	record->head.kind = RECORD_STACK;
	record->head.len = len;
	record->head.size = (uint16_t)(sizeof(*record) + record->nr_pcs * 8 +
				       ((len + 7) & ~7u));
	return record->head.size;
}
