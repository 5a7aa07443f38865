/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_PROTOCOL_H
#define GPUTRACE_INJECT_PROTOCOL_H

/*
 * What the control socket's two ends agree on (the server: control.h, the
 * command: tools/control.h).  The manual's section CONTROL SOCKET is its
 * description for people.
 *
 *   socket   FOLDER/gputrace-UID/PID-STARTTIME.sock, in the mount namespace of
 *            the process, with the numbers that it sees itself; FOLDER is
 *            TMPDIR if that is absolute, else /tmp; STARTTIME is field 22 of
 *            /proc/PID/stat
 *   client   "gputrace 1", then one command a line: a verb and KEY=VALUE,
 *            separated by spaces; a value's space, %, control characters and
 *            bytes beyond ASCII are %XX
 *   server   one JSON object a line for each command, in order
 */
#define PROTOCOL_HELLO "gputrace 1"
#define PROTOCOL_LINE_MAX 8192          /* with its newline */
#define PROTOCOL_FOLDER "gputrace-%lu"
#define PROTOCOL_SOCKET "%ld-%llu.sock"
#define PROTOCOL_TMP "/tmp"

/* An error's code. */
#define PROTOCOL_BUSY "busy"            /* a window is open; the file's path */
#define PROTOCOL_UNKNOWN "unknown"      /* no such verb, key, version */
#define PROTOCOL_BAD_VALUE "bad-value"
#define PROTOCOL_REFUSED "refused"      /* not you, not there, not that */
#define PROTOCOL_FAILED "failed"        /* tried, and did not work */
#define PROTOCOL_TIMEOUT "timeout"
#define PROTOCOL_IDLE "idle"            /* no window is open */

/* The thread on which `gputrace attach` loads the library, which knows by this
 * name who brings it (brought.h). */
#define PROTOCOL_LOADER "gputrace-load"

#endif
