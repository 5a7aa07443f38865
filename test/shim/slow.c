/* SPDX-License-Identifier: MIT */
/*
 * Preloaded before the library: a machine so busy that a thread loses its CPU
 * where it matters.
 *
 *	SHIM_BIND_MS=N          before a bind(): a socket has no name yet
 *	SHIM_LISTEN_MS=N        before a listen(): it has, and refuses
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void lose_cpu(const char *name)
{
	const char *text = getenv(name);

	usleep(text ? (useconds_t)atoi(text) * 1000 : 0);
}

int bind(int fd, const struct sockaddr *address, socklen_t size)
{
	int (*real)(int, const struct sockaddr *, socklen_t) =
		(int (*)(int, const struct sockaddr *, socklen_t))
		dlsym(RTLD_NEXT, "bind");

	lose_cpu("SHIM_BIND_MS");
	return real(fd, address, size);
}

int listen(int fd, int backlog)
{
	int (*real)(int, int) = (int (*)(int, int))dlsym(RTLD_NEXT, "listen");

	lose_cpu("SHIM_LISTEN_MS");
	return real(fd, backlog);
}
