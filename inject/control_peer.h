/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_CONTROL_PEER_H
#define GPUTRACE_INJECT_CONTROL_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inject/protocol.h"
#include "writer/bytes.h"

/*
 * One connection of the control socket: bytes in, bytes out, both in bounded
 * buffers, and at most one descriptor that came with them.  Nothing waits.
 *
 *   peer_read() -> in -> peer_next_line() ... peer_reply() -> out
 *                                             peer_flush() <-'
 * Context: the socket's thread.
 */
enum {
	/* A path of 4095 bytes, each \u00xx, beside the rest of a reply. */
	PEER_OUT_MAX = 6 * 4096 + 4096,
};

/* One that does not read, or has not said what it speaks, is given so long. */
#define PEER_PATIENCE_NS UINT64_C(5000000000)

struct peer {
	int fd;                         /* -1: no connection */
	int passed;                     /* the descriptor that came, or -1 */
	uint64_t identity;              /* of fd: peer_identity() */
	bool has_ended;                 /* no more will come */
	bool is_greeted;
	uint64_t active_ns;             /* when bytes last moved */
	size_t in_len, out_len;
	char in[PROTOCOL_LINE_MAX];
	char out[PEER_OUT_MAX];
};

/* May this peer speak to us: the process's own user, or root as seen in its
 * user namespace. */
bool peer_is_allowed(int fd);

/*
 * The socket's inode, 0 if fd is none.  Where the table of descriptors is the
 * program's (a seccomp filter, as in most containers), it may have closed ours
 * and got the number for a socket of its own: that is left alone.
 */
uint64_t peer_identity(int fd);
bool peer_is_ours(int fd, uint64_t identity);

void peer_open(struct peer *peer, int fd);
void peer_close(struct peer *peer);

/* 0; -EAGAIN; or what drops the peer: -ECONNRESET, -E2BIG (more than one
 * descriptor, or a line of more than PROTOCOL_LINE_MAX). */
int peer_read(struct peer *peer);

/* Takes the next whole line, without its newline; false: there is none. */
bool peer_next_line(struct peer *peer, char line[PROTOCOL_LINE_MAX],
		    size_t *len);

/* One JSON object; its newline is added.  It is lost, and the peer dropped by
 * has_ended, where there was no memory for it. */
void peer_reply(struct peer *peer, const struct bytes *reply);

/* Sends what it takes.  0 or what drops the peer. */
int peer_flush(struct peer *peer);

bool peer_is_tiresome(const struct peer *peer, uint64_t now_ns);

/* One that gets this answer, as far as it takes it at once, and no more. */
void peer_turn_away(int fd, const struct bytes *reply);

/* The descriptor that came with the line, which is the caller's from here on;
 * or -1. */
int peer_take_passed(struct peer *peer);

/* NULL, or why the writer could not fill that descriptor. */
const char *peer_unfit(int fd);

#endif
