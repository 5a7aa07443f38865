# SPDX-License-Identifier: MIT
"""The files for Docker and Kubernetes (tools/examples), and the commands that
README, manual and these files show: that they fit together, and to the
command.  What is needed to try them is not here.
"""
import json
import os
import pathlib
import re
import shlex
import subprocess

import pytest
from tracing import ROOT

yaml = pytest.importorskip("yaml")
EXAMPLES = ROOT / "tools" / "examples"
PODS = ["kubernetes.yaml", "kubernetes-attach.yaml"]


def load(name):
    return yaml.safe_load((EXAMPLES / name).read_text())


@pytest.fixture(scope="session", name="image")
def fixture_image(tmp_path_factory):
    """What `make install` puts into the folder that the Dockerfile copies."""
    folder = tmp_path_factory.mktemp("image")
    env = {k: v for k, v in os.environ.items() if k != "MAKEFLAGS"}
    subprocess.run(
        ["make", "install", "O=" + os.environ.get("O", "build"),
         "PREFIX=/opt/gputrace", "DESTDIR=%s" % folder], cwd=ROOT, env=env,
        check=True, capture_output=True)
    return folder


def dockerfile():
    """[(instruction, words)] and the image's name."""
    text = (EXAMPLES / "Dockerfile").read_text()
    lines = [l.split() for l in text.splitlines() if l and l[0] != "#"]
    return lines, re.search(r"docker build -t (\S+)", text).group(1)


def containers(pod):
    spec = pod["spec"]
    return spec.get("initContainers", []) + spec["containers"]


def mounts(container):
    """{volume: folder}"""
    return {m["name"]: pathlib.PurePath(m["mountPath"])
            for m in container.get("volumeMounts", [])}


def settings():
    return re.findall(r'X\(\w+, "(GPUTRACE_\w+)"',
                      (ROOT / "inject" / "settings.h").read_text())


def check_environment(env):
    for name, value in env.items():
        assert isinstance(value, str), name     # off is no text in YAML
        assert not name.startswith("GPUTRACE_") or name in settings()


def test_installed(image):
    found = {str(p.relative_to(image)) for p in image.rglob("*")
             if p.is_file()}
    assert {"opt/gputrace/bin/gputrace", "opt/gputrace/lib/libgputrace.so",
            "opt/gputrace/share/man/man1/gputrace.1"} < found
    assert {"opt/gputrace/share/doc/gputrace/examples/" + p.name
            for p in EXAMPLES.iterdir()} < found


def test_dockerfile(image):
    lines, _ = dockerfile()
    copied = [l[1:] for l in lines if l[0] == "COPY"]
    assert copied == [["opt/gputrace", "/opt/gputrace"]]
    assert (image / copied[0][0] / "bin" / "gputrace").exists()
    path = [l[1] for l in lines if l[0] == "ENV"]
    assert path[0].startswith("PATH=/opt/gputrace/bin:")


@pytest.mark.parametrize("name", PODS)
def test_pods(name):
    pod = load(name)
    assert (pod["apiVersion"], pod["kind"]) == ("v1", "Pod")
    volumes = [v["name"] for v in pod["spec"]["volumes"]]
    assert len(set(volumes)) == len(volumes)
    names = [c["name"] for c in containers(pod)]
    assert len(set(names)) == len(names)
    used = set()
    for container in containers(pod):
        used |= set(mounts(container))
        folders = list(mounts(container).values())
        assert len(set(folders)) == len(folders)
        env = container.get("env", [])
        assert len({e["name"] for e in env}) == len(env)
        check_environment({e["name"]: e["value"] for e in env})
    assert used == set(volumes)


def test_the_library_is_where_ld_preload_says(image):
    pod = load("kubernetes.yaml")
    [init] = pod["spec"]["initContainers"]
    [server] = pod["spec"]["containers"]
    assert init["image"] == dockerfile()[1]
    command = init["command"]
    assert command[:2] == ["cp", "-r"]
    target = pathlib.PurePath(command[-1])
    [volume] = [v for v, at in mounts(init).items() if at == target]
    placed = {}
    for source in command[2:-1]:
        for path in (image / source[1:]).rglob("*"):
            placed[str(pathlib.PurePath(source).name / path.relative_to(
                image / source[1:]))] = path
    env = {e["name"]: e["value"] for e in server["env"]}
    inside = pathlib.PurePath(env["LD_PRELOAD"]).relative_to(
        mounts(server)[volume])
    assert placed[str(inside)].name == "libgputrace.so"
    text = (EXAMPLES / "kubernetes.yaml").read_text()
    [command] = set(re.findall(r"(/\S+/gputrace)(?= (?:ps|capture))", text))
    assert str(pathlib.PurePath(command).relative_to(
        mounts(server)[volume])) in placed
    # what is written, and where the root cannot be
    assert server["securityContext"]["readOnlyRootFilesystem"]
    folders = {str(f) for f in mounts(server).values()}
    assert {"/tmp", os.path.dirname(env["GPUTRACE_OUT"])} <= folders
    assert not [m for m in server["volumeMounts"] if m.get("readOnly") and
                m["name"] != volume]


def test_attach_may(image):
    pod = load("kubernetes-attach.yaml")
    assert pod["spec"]["shareProcessNamespace"] is True
    server, sidecar = pod["spec"]["containers"]
    assert sidecar["image"] == dockerfile()[1]
    security = sidecar["securityContext"]
    assert security["capabilities"]["add"] == ["SYS_PTRACE"]
    assert security["runAsUser"] == 0
    assert "securityContext" not in server and "env" not in server
    assert (image / "opt/gputrace/bin/gputrace").exists()


def test_compose(image):
    compose = load("compose.yaml")
    services = compose["services"]
    named = set()
    for service in services.values():
        check_environment(service.get("environment", {}))
        named |= {v.split(":")[0] for v in service["volumes"]
                  if v[0] != "/"}
        kind, _, other = service.get("pid", "service:server").partition(":")
        assert kind == "service" and other in services
    assert named == set(compose["volumes"])
    server = services["server"]
    folders = dict(v.split(":")[:2] for v in server["volumes"])
    preload = server["environment"]["LD_PRELOAD"]
    [host] = [h for h, at in folders.items() if preload.startswith(at + "/")]
    assert (image / host[1:] / preload[len(folders[host]) + 1:]).exists()
    assert services["gputrace"]["image"] == dockerfile()[1]
    assert services["gputrace"]["cap_add"] == ["SYS_PTRACE"]


# ---- The commands that are shown ----

def readme():
    text = (ROOT / "README.md").read_text()
    return text.split("## Containers and clusters")[1].split("\n## ")[0]


def manual():
    text = (ROOT / "tools" / "gputrace.1").read_text()
    part = text.split(".Sh CONTAINERS AND CLUSTERS")[1].split("\n.Sh ")[0]
    return "\n".join(re.findall(r"\.Bd [^\n]*\n(.*?)\n\.Ed", part, re.S)
                     ).replace("\\e\n", "\\\n")


SHOWN = {"README": readme, "manual": manual,
         **{path.name: path.read_text
            for path in sorted(EXAMPLES.glob("*.yaml"))}}


VERBS = ("ps", "start", "stop", "status", "capture", "dump", "attach",
         "record", "doctor")


def commands(text):
    """The words of each `gputrace VERB ...` that is shown."""
    text = re.sub(r"\\\n[# ]*", "", text)
    return [shlex.split(words) for words in re.findall(
        r"\bgputrace ((?:%s)\b[^;|>#'`\n]*)" % "|".join(VERBS), text)]


@pytest.mark.parametrize("where", SHOWN)
def test_commands_exist(gputrace, where):
    """Each verb, and each of its options."""
    shown = commands(SHOWN[where]())
    assert {"capture"} <= {words[0] for words in shown}, where
    known = re.findall(r"^  (\w+) ", gputrace("--help").out, re.M)
    for words in shown:
        assert words[0] in known
        text = gputrace(words[0], "--help").out
        for option in (w for w in words[1:] if w[0] == "-"):
            assert re.search(r"(?<!\S)%s\b" % re.escape(option), text), words


# ---- The check for CI ----

def job(text):
    """The shell lines of the job that compares speeds."""
    text = re.search(r"^( *)jobs:\n(?:\1 .*\n|\n)*", text, re.M).group(0)
    step = yaml.safe_load(text)["jobs"]["speed"]["steps"][-1]
    return step["run"]


JOBS = {"README": "README.md", "manual": "tools/gputrace.1"}


@pytest.mark.parametrize("where", JOBS)
def test_job_fails_on_a_regression_alone(tmp_path, where):
    """With a program that leaves a trace of twelve steps of some length."""
    lines = job((ROOT / JOBS[where]).read_text().replace("\\e\n", "\\\n"))
    lines = lines.replace("/var/lib/traces/", "")
    real = (ROOT / os.environ.get("O", "build")).resolve() / "gputrace"
    fake = tmp_path / "gputrace"
    fake.write_text('#!/bin/sh\n[ "$1" = record ] || exec %s "$@"\n'
                    'gzip -c trace.json > "$3"\n' % shlex.quote(str(real)))
    fake.chmod(0o755)

    def run(us):
        events = [{"ph": "X", "cat": "kernel", "name": "k", "pid": 2,
                   "tid": 1, "ts": 1000 * i, "dur": us,
                   "args": {"device": 0, "stream": 7}} for i in range(12)]
        events += [{"ph": "X", "cat": "user_annotation", "name": "step",
                    "pid": 1, "tid": 1, "ts": 1000 * i, "dur": 900}
                   for i in range(12)]
        (tmp_path / "trace.json").write_text(
            json.dumps({"traceEvents": events}))
        return subprocess.run(
            ["bash", "-e", "-c", lines], cwd=tmp_path, check=False,
            env=dict(os.environ, PATH="%s:%s" % (
                tmp_path, os.environ["PATH"]))).returncode
    if "cp new" not in lines:       # not the job's: a release's
        run(400)
        (tmp_path / "new.json.gz").rename(tmp_path / "release.json.gz")
    assert [run(400), run(404), run(440), run(400)] == [0, 0, 1, 0]
