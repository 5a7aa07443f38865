/* SPDX-License-Identifier: MIT */
#include "inject/control_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collector/clock.h"
#include "collector/own_thread.h"

/* Descriptors that one message can bring, all of them closed if it is more
 * than one: the kernel's own bound is 253. */
enum { PASSED_MAX = 253 };

bool peer_is_allowed(int fd)
{
	struct ucred who;
	socklen_t size = sizeof who;

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) &&
	       (who.uid == 0 || who.uid == geteuid());
}

uint64_t peer_identity(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISSOCK(st.st_mode) ? st.st_ino : 0;
}

bool peer_is_ours(int fd, uint64_t identity)
{
	return own_thread_files_are_apart() || peer_identity(fd) == identity;
}

void peer_open(struct peer *peer, int fd)
{
	peer->fd = fd;
	peer->identity = peer_identity(fd);
	peer->passed = -1;
	peer->has_ended = peer->is_greeted = false;
	peer->active_ns = clock_now_ns();
	peer->in_len = peer->out_len = 0;
}

void peer_close(struct peer *peer)
{
	if (peer->passed >= 0)
		close(peer->passed);
	if (peer->fd >= 0 && peer_is_ours(peer->fd, peer->identity))
		close(peer->fd);
	peer->fd = peer->passed = -1;
}

/* Keeps one descriptor; false if there was another. */
static bool take_passed(struct peer *peer, const struct msghdr *message)
{
	struct cmsghdr *part = message->msg_controllen ?
		CMSG_FIRSTHDR(message) : NULL;
	bool is_alone = true;
	size_t nr, i;
	int fd;

	for (; part; part = CMSG_NXTHDR((struct msghdr *)message, part)) {
		if (part->cmsg_level != SOL_SOCKET ||
		    part->cmsg_type != SCM_RIGHTS)
			continue;
		nr = (part->cmsg_len - CMSG_LEN(0)) / sizeof fd;
		for (i = 0; i < nr; i++) {
			memcpy(&fd, CMSG_DATA(part) + i * sizeof fd,
			       sizeof fd);
			if (peer->passed < 0) {
				peer->passed = fd;
			} else {
				close(fd);
				is_alone = false;
			}
		}
	}
	return is_alone;
}

int peer_read(struct peer *peer)
{
	union {
		struct cmsghdr first;
		char bytes[CMSG_SPACE(PASSED_MAX * sizeof(int))];
	} control;
	struct iovec where = { peer->in + peer->in_len,
			       sizeof peer->in - peer->in_len };
	struct msghdr message = {
		.msg_iov = &where, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof control,
	};
	ssize_t n;

	if (!where.iov_len)
		return -E2BIG;
	if (!peer_is_ours(peer->fd, peer->identity))
		return -ECONNRESET;
	n = recvmsg(peer->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN :
			-ECONNRESET;
	if (!take_passed(peer, &message))
		return -E2BIG;
	peer->has_ended |= !n;
	peer->in_len += (size_t)n;
	peer->active_ns = clock_now_ns();
	return 0;
}

bool peer_next_line(struct peer *peer, char line[PROTOCOL_LINE_MAX],
		    size_t *len)
{
	const char *end = memchr(peer->in, '\n', peer->in_len);

	if (!end)
		return false;
	*len = (size_t)(end - peer->in);
	memcpy(line, peer->in, *len);
	peer->in_len -= *len + 1;
	memmove(peer->in, end + 1, peer->in_len);
	return true;
}

void peer_reply(struct peer *peer, const struct bytes *reply)
{
	if (reply->is_cut || reply->len + 1 > PEER_OUT_MAX - peer->out_len) {
		peer->has_ended = true;
		return;
	}
	memcpy(peer->out + peer->out_len, reply->data, reply->len);
	peer->out_len += reply->len;
	peer->out[peer->out_len++] = '\n';
	peer->active_ns = clock_now_ns();
}

int peer_flush(struct peer *peer)
{
	ssize_t n;

	while (peer->out_len) {
		if (!peer_is_ours(peer->fd, peer->identity))
			return -ECONNRESET;
		n = send(peer->fd, peer->out, peer->out_len,
			 MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n <= 0)
			return n < 0 && (errno == EAGAIN || errno == EINTR) ?
				0 : -ECONNRESET;
		peer->out_len -= (size_t)n;
		memmove(peer->out, peer->out + n, peer->out_len);
		peer->active_ns = clock_now_ns();
	}
	return 0;
}

int peer_take_passed(struct peer *peer)
{
	int fd = peer->passed;

	peer->passed = -1;
	return fd;
}

const char *peer_unfit(int fd)
{
	struct stat st;
	int flags;

	if (fd < 0)
		return "fd=1, but no descriptor came with the line";
	flags = fcntl(fd, F_GETFL);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return "the descriptor is not that of a regular file";
	if (flags < 0 || (flags & O_ACCMODE) != O_RDWR || flags & O_APPEND)
		return "the descriptor must be open for reading and writing, "
			"and not for appending";
	return NULL;
}

void peer_turn_away(int fd, const struct bytes *reply)
{
	static struct peer peer;

	peer_open(&peer, fd);
	peer_reply(&peer, reply);
	(void)peer_flush(&peer);
	peer_close(&peer);
}

bool peer_is_tiresome(const struct peer *peer, uint64_t now_ns)
{
	return (peer->out_len || !peer->is_greeted) &&
		now_ns > peer->active_ns + PEER_PATIENCE_NS;
}
