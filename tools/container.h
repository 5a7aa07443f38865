/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_CONTAINER_H
#define GPUTRACE_TOOLS_CONTAINER_H

#include <stdbool.h>

/*
 * The container of a process, from the text of two files of its /proc/PID:
 *
 *   cgroup      each runtime puts its id into the path, in forms of its own
 *               (container.c lists them); the innermost one counts
 *   mountinfo   where the path is "/" (the reader shares the container's
 *               cgroup namespace): the root of the cgroup mount, or where
 *               /etc/hostname and its like come from
 *
 * Both are of the process's making as far as its names go: nothing but
 * letters, digits, '-', '_' and '.' is taken over.
 */
enum runtime {
	RUNTIME_NONE, RUNTIME_UNKNOWN, RUNTIME_DOCKER, RUNTIME_CONTAINERD,
	RUNTIME_CRIO, RUNTIME_PODMAN,
};

struct container {
	enum runtime runtime;   /* NONE: in no container that can be told */
	char id[65];            /* 64 hexadecimal digits, or "" */
	char pod[40];           /* uid of the Kubernetes pod, or "" */
};

/* Either text may be NULL.  False if there is no sign of a container. */
bool container_find(const char *cgroup, const char *mountinfo,
		    struct container *found);

/* "docker", "containerd", "cri-o", "podman", "unknown"; "" for none. */
const char *container_runtime(const struct container *c);

#endif
