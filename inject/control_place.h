/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_CONTROL_PLACE_H
#define GPUTRACE_INJECT_CONTROL_PLACE_H

#include <stddef.h>

/*
 * Where the control socket is (protocol.h): a folder that nobody but the
 * process's user may enter, with a socket for each process.
 *
 *   the folder   made with 0700; one that is there must be a folder, ours, and
 *                closed to all others, else there is no socket
 *   stale ones   of processes that are gone and with nobody behind them are
 *                removed (another container's numbers mean nothing here)
 */

/* Makes the socket and listens.  A descriptor; or -errno, with a sentence in
 * `why`.  path: what to unlink at the end.
 * Context: our own thread, in its own table of descriptors. */
int control_place_listen(char *path, size_t path_size, char *why,
			 size_t why_size);

#endif
