/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_TORCH_MODULES_H
#define GPUTRACE_COLLECTOR_TORCH_MODULES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The torch.nn.Modules around PyTorch's operators, as ranges of the category
 * python_function on the operators' rows, named as PyTorch's profiler does:
 *
 *    nn.Module: Block_0       +-----------------------------+
 *      nn.Module: Linear_0      +-----------+ +-----------+   nn.Module:
 *        aten::linear             +-------+     +-------+     Linear_1
 *
 * The program is not changed and not called.  Where an operator begins, the
 * calls of Module._call_impl() that its thread is in (python_calls.h) are
 * compared with those at the last one: those that are over end, new ones begin.
 *
 *    chain      [ Block, Linear ]        frame and serial of each call, outer
 *    frames       Block, Linear'         first: Linear is over, Linear' begins
 *
 * So a module begins with its first operator.  It is over when the next
 * operator finds it gone, and ended with the last one inside it, which the
 * writer knows (nvtx_domain.ends_inside).  One that runs no operator is not
 * seen.
 */

/* Looks for the interpreter, and room for the names.  False: there are none,
 * after one line.  Context: our own thread, once PyTorch is there. */
bool torch_modules_prepare(void);

/* Where an operator, or an annotation, is about to begin on the calling
 * thread, of `level`: so many operators are open there already, and modules
 * have changed only where Python code runs, or ran, inside them.
 * Context: as source_range_push(); no lock, no allocation; a system call only
 * for a page that was not read before; sets errno. */
void torch_modules_look(int64_t level);

#endif
