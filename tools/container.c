/* SPDX-License-Identifier: MIT */
/*
 * Where each runtime writes the id of a container (ID: 64 hexadecimal digits)
 * into a path of control groups.  As their sources build them, with systemd
 * and without:
 *
 *   docker       /docker/ID                 docker-ID.scope
 *   containerd   /default/ID                nerdctl-ID.scope
 *     Kubernetes /kubepods/../podUID/ID     cri-containerd-ID.scope
 *                ../SLICE:cri-containerd:ID
 *   CRI-O        crio-ID                    crio-ID.scope
 *   Podman       /libpod_parent/libpod-ID   libpod-ID.scope[/container]
 *   pod          podUID                     kubepods-CLASS-podUID.slice
 *
 * Their helpers (crio-conmon-ID.scope, libpod-conmon-ID.scope) run outside.
 */
#include "tools/container.h"

#include <stddef.h>
#include <string.h>

enum { ID_LEN = 64, POD_MIN = 32, POD_MAX = 36 };

static const struct {
	const char *name;
	enum runtime runtime;
} before_id[] = {               /* "docker-ID", or the folder "docker" */
	{ "docker", RUNTIME_DOCKER },
	{ "cri-containerd", RUNTIME_CONTAINERD },
	{ "nerdctl", RUNTIME_CONTAINERD },
	{ "default", RUNTIME_CONTAINERD },
	{ "k8s.io", RUNTIME_CONTAINERD },
	{ "crio", RUNTIME_CRIO },
	{ "libpod", RUNTIME_PODMAN },
	{ "libpod-payload", RUNTIME_PODMAN },
	{ "libpod_parent", RUNTIME_PODMAN },
};

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static bool is_id(const char *at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!is_hex(at[i]))
			return false;
	return len == ID_LEN;
}

/* A word of the path. */
struct word {
	const char *at;
	size_t len;
};

static enum runtime runtime_of(struct word name)
{
	for (size_t i = 0; i < sizeof(before_id) / sizeof(*before_id); i++)
		if (strlen(before_id[i].name) == name.len &&
		    !memcmp(before_id[i].name, name.at, name.len))
			return before_id[i].runtime;
	return RUNTIME_UNKNOWN;
}

static void strip(struct word *w, const char *end)
{
	size_t len = strlen(end);

	if (w->len > len && !memcmp(w->at + w->len - len, end, len))
		w->len -= len;
}

/* "crio-ID" or "ID", which the folder around tells of. */
static void see_id(struct word w, struct word folder, struct container *c)
{
	struct word name = { w.at, 0 };
	enum runtime runtime;

	strip(&w, ".scope");
	if (w.len < ID_LEN || !is_id(w.at + w.len - ID_LEN, ID_LEN))
		return;
	if (w.len == ID_LEN) {
		runtime = runtime_of(folder);
	} else if (w.at[w.len - ID_LEN - 1] == '-') {
		name.len = w.len - ID_LEN - 1;
		runtime = runtime_of(name);
		if (runtime == RUNTIME_UNKNOWN)
			return;
	} else {
		return;
	}
	c->runtime = runtime;
	memcpy(c->id, w.at + w.len - ID_LEN, ID_LEN);
	c->id[ID_LEN] = '\0';
}

/* The uid behind "pod"; systemd's names have '_' for '-'.  That of a static
 * pod is 32 digits. */
static void take_pod(const char *at, size_t len, struct container *c)
{
	char pod[sizeof(c->pod)];

	if (len != POD_MIN && len != POD_MAX)
		return;
	for (size_t i = 0; i < len; i++) {
		pod[i] = at[i] == '_' ? '-' : at[i];
		if (!is_hex(pod[i]) && pod[i] != '-')
			return;
	}
	memcpy(c->pod, pod, len);
	c->pod[len] = '\0';
}

static void see_pod(struct word w, struct container *c)
{
	strip(&w, ".slice");
	for (size_t i = 0; i + 3 + POD_MIN <= w.len; i++)
		if (!memcmp(w.at + i, "pod", 3) &&
		    (!i || w.at[i - 1] == '-'))
			take_pod(w.at + i + 3, w.len - i - 3, c);
}

static void see_path(const char *path, size_t len, struct container *c)
{
	struct word w = { path, 0 }, folder = { "", 0 };
	const char *end = path + len;

	for (; w.at < end; w.at += w.len + 1) {
		w.len = 0;
		while (w.at + w.len < end && w.at[w.len] != '/' &&
		       w.at[w.len] != ':')
			w.len++;
		see_pod(w, c);
		see_id(w, folder, c);
		folder = w;
	}
}

/* "4:memory:/docker/ID", "0::/system.slice/docker-ID.scope" */
static void see_cgroup(const char *text, struct container *c)
{
	const char *path, *end;

	for (; *text && !c->id[0]; text = *end ? end + 1 : end) {
		end = strchrnul(text, '\n');
		path = memchr(text, ':', (size_t)(end - text));
		if (path)
			path = memchr(path + 1, ':', (size_t)(end - path - 1));
		if (path)
			see_path(path + 1, (size_t)(end - path - 1), c);
	}
}

/* ---- Mounts ---- */

/* A line of mountinfo: "36 35 98:0 ROOT POINT rw ... - TYPE source rw" */
struct mount {
	struct word root, point, type;
};

static struct word next_word(const char **at, const char *end)
{
	struct word w = { *at, 0 };

	while (w.at + w.len < end && w.at[w.len] != ' ')
		w.len++;
	*at = w.at + w.len + (w.at + w.len < end);
	return w;
}

static struct mount read_mount(const char *at, const char *end)
{
	struct mount m = { 0 };
	struct word w;

	for (int i = 0; i < 3; i++)
		next_word(&at, end);
	m.root = next_word(&at, end);
	m.point = next_word(&at, end);
	do
		w = next_word(&at, end);
	while (w.len && !(w.len == 1 && *w.at == '-'));
	m.type = next_word(&at, end);
	return m;
}

static bool is_word(struct word w, const char *text)
{
	return w.len == strlen(text) && !memcmp(w.at, text, w.len);
}

/* What stands behind a folder in a path: "/pods/" of "/x/pods/UID/y". */
static struct word behind(struct word path, const char *folder)
{
	const char *at = memmem(path.at, path.len, folder, strlen(folder));
	struct word w = { at, 0 };

	if (!at)
		return w;
	w.at += strlen(folder);
	while (w.at + w.len < path.at + path.len && w.at[w.len] != '/')
		w.len++;
	return w;
}

static bool take_id(struct word w, enum runtime runtime, struct container *c)
{
	if (!w.at || !is_id(w.at, w.len))
		return false;
	c->runtime = runtime;
	memcpy(c->id, w.at, ID_LEN);
	c->id[ID_LEN] = '\0';
	return true;
}

/*
 * Files that a runtime mounts over those of the image:
 *
 *   Docker      ../docker/containers/ID/hostname
 *   nerdctl     ../containers/NAMESPACE/ID/hostname
 *   Podman      ../overlay-containers/ID/userdata/hostname
 *   CRI-O       the same, with the id of the pod's sandbox
 *   containerd  ../io.containerd.grpc.v1.cri/sandboxes/SANDBOX/hostname
 *   kubelet     ../pods/UID/etc-hosts
 */
static void see_file(const struct mount *m, struct container *c)
{
	struct word w = behind(m->root, "/pods/"), last;

	if (w.at)
		take_pod(w.at, w.len, c);
	if (behind(m->root, "/io.containerd.grpc.v1.cri/sandboxes/").at)
		c->runtime = RUNTIME_CONTAINERD;
	w = behind(m->root, "/overlay-containers/");
	/* In a pod of Podman's own the others are its infra container's. */
	if (w.at && c->id[0] && !is_word(m->point, "/run/.containerenv"))
		return;
	if (take_id(w, RUNTIME_PODMAN, c))
		return;
	w = behind(m->root, "/containers/");
	if (!w.at || take_id(w, RUNTIME_DOCKER, c))
		return;
	last.at = w.at + w.len + 1;
	if (last.at + ID_LEN >= m->root.at + m->root.len)
		return;
	last.len = ID_LEN;
	if (last.at[ID_LEN] == '/')
		take_id(last, RUNTIME_CONTAINERD, c);
}

static void see_cgroup_mount(const struct mount *m, struct container *c)
{
	if (is_word(m->type, "cgroup") || is_word(m->type, "cgroup2"))
		see_path(m->root.at, m->root.len, c);
}

static void see_file_mount(const struct mount *m, struct container *c)
{
	static const char *const points[] = {
		"/etc/hosts", "/etc/hostname", "/etc/resolv.conf",
		"/dev/termination-log", "/run/.containerenv",
	};

	for (size_t i = 0; i < sizeof(points) / sizeof(*points); i++)
		if (is_word(m->point, points[i]))
			see_file(m, c);
}

static void each_mount(const char *text, struct container *c,
		       void (*see)(const struct mount *, struct container *))
{
	const char *end;
	struct mount m;

	for (; *text; text = *end ? end + 1 : end) {
		end = strchrnul(text, '\n');
		m = read_mount(text, end);
		see(&m, c);
	}
}

static void see_mounts(const char *text, struct container *c)
{
	each_mount(text, c, see_cgroup_mount);
	if (c->id[0])
		return;
	each_mount(text, c, see_file_mount);
	/* CRI-O's are of the pod's sandbox, which is another container. */
	if (c->runtime == RUNTIME_PODMAN && c->pod[0]) {
		c->runtime = RUNTIME_CRIO;
		c->id[0] = '\0';
	}
}

bool container_find(const char *cgroup, const char *mountinfo,
		    struct container *found)
{
	memset(found, 0, sizeof(*found));
	if (cgroup)
		see_cgroup(cgroup, found);
	if (mountinfo && !found->id[0])
		see_mounts(mountinfo, found);
	if (found->pod[0] && !found->runtime)
		found->runtime = RUNTIME_UNKNOWN;
	return found->runtime != RUNTIME_NONE;
}

const char *container_runtime(const struct container *c)
{
	static const char *const names[] = {
		"", "unknown", "docker", "containerd", "cri-o", "podman",
	};

	return names[c->runtime];
}
