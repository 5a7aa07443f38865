/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_PYTHON_H
#define GPUTRACE_COLLECTOR_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The Python frames of the calling thread, for CPython 3.9 to 3.14, read out
 * of the interpreter's memory: no debug symbols, no GIL, nothing is called but
 * PyGILState_GetThisThreadState(), which is a read of thread-specific data.
 *
 * A thread's frames, their code objects and names live as long as the frames
 * run, so what a thread reads of itself stays.  In a signal handler it may be
 * in the middle of pushing a frame: every pointer is then read checked (peek.h)
 * and every object must be of the type that it ought to be, or the walk ends.
 * Such a thread holds the GIL, so that no other frees what a stale pointer
 * finds; that leaves the daemon threads of an interpreter that is ending.
 *
 * A walk takes about 4 us for 10 frames, 11 to 16 us for 50 (make bench,
 * 2026-11-30, 2 cores of a virtual machine, 3.10 to 3.12), a third of it in
 * the kernel.
 */
#define PYTHON_FRAMES_MAX 64
#define PYTHON_TEXT_MAX 4096

/*
 * Finds the interpreter, its version and where its structures keep what we
 * need.  Returns 0, also when all is known already; -ENOENT: no CPython;
 * -ENOTSUP: one that we do not know (version, free-threaded, changed
 * structures); -ENOSYS: the system cannot tell what memory is there.  Says
 * which in one line (info).
 * Context: attach or our own thread, after modules_refresh(); takes the
 * loader's lock.
 */
int python_prepare(void);

/* The same for who does not ask python_is_eval_frame(): needs no modules. */
int python_prepare_frames(void);

/*
 * The frames, innermost first, a line each: "file.py:123 function\n", with the
 * file's base name, or, for what is installed, its path from the packages'
 * folder on ("torch/cuda/__init__.py", "site-packages/six.py",
 * "python3.12/threading.py": a '/' tells them), and the qualified name of the function (3.9, 3.10: its
 * name); line 0: not known.  Whole lines as far as size reaches, 0-terminated.
 * Returns their number, 0: no interpreter, or a thread without Python.
 * Of a sub-interpreter before 3.12 the main one's frames are seen.
 * Context: any thread, signal-safe, no lock, no allocation; about 1.5 KiB of
 * stack; keeps errno.
 */
int python_walk(char *text, size_t size);

/*
 * As python_walk(), for the one who puts the frames into a native stack: bit i
 * of *ends says that frame i is the last (outermost) of its call of the
 * interpreter's loop, which since 3.11 runs many frames.  So of the native
 * frames for which python_is_eval_frame() is true, the innermost one stands
 * for the Python frames up to the first set bit, the next one for those behind
 * it up to the second, and so on.  There may be more of the native ones: a call
 * that a signal met before its first frame had begun, and what lies below a
 * greenlet, which Python does not tell either.
 */
int python_walk_calls(char *text, size_t size, uint64_t *ends);

/* pc (of a return address, the one before) lies in the interpreter's loop,
 * _PyEval_EvalFrameDefault, or the part that the compiler split off it.
 * Context: any thread, signal-safe. */
bool python_is_eval_frame(uintptr_t pc);

#endif
