# SPDX-License-Identifier: MIT
"""Python frames (collector/python.h) in every interpreter at hand.

What the walks must see is what the interpreter itself says: traceback, code
objects' own tables of lines, and for the places of fields its headers.  More
interpreters than PATH, pyenv and /usr have: GPUTRACE_TEST_PYTHONS, paths with
colons between.
"""
import glob
import json
import os
import pathlib
import shutil
import subprocess

import pytest
from tracing import BUILD, ROOT, SANITIZED, environment

VERSIONS = ["3.%d" % minor for minor in range(9, 15)]
SHIM = BUILD / "shim" / "python.so"
PROGRAMS = ROOT / "test" / "python"
ASK = ("import json, os, sys, sysconfig; "
       "print(json.dumps({'version': sys.version.split()[0], "
       "'implementation': sys.implementation.name, "
       "'free': bool(sysconfig.get_config_var('Py_GIL_DISABLED')), "
       "'debug': hasattr(sys, 'gettotalrefcount'), "
       "'binary': os.path.realpath('/proc/self/exe'), "
       "'program': os.path.realpath(sys.executable), "
       "'include': sysconfig.get_path('include')}))")


def ask(path):
    try:
        done = subprocess.run([path, "-c", ASK], capture_output=True,
                              check=False, timeout=30)
        return dict(json.loads(done.stdout), path=path)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None         # one that chooses among versions, and has none


def interpreters():
    """{version: [what it says of itself]}, each binary once."""
    names = ["python3"] + ["python" + version for version in VERSIONS]
    paths = os.environ.get("GPUTRACE_TEST_PYTHONS", "").split(":")
    paths += [shutil.which(name) or "" for name in names]
    paths += ["/usr/bin/" + name for name in names]
    pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    paths += sorted(glob.glob(pyenv + "/versions/3.*/bin/python3"))
    found, seen = {version: [] for version in VERSIONS}, set()
    for path in dict.fromkeys(filter(None, paths)):
        one = ask(path)
        version = one and ".".join(one["version"].split(".")[:2])
        if (version in found and one["implementation"] == "cpython" and
                not one["free"] and not one["debug"] and
                one["program"] not in seen):
            seen.add(one["program"])
            found[version].append(one)
    return found


FOUND = interpreters()
EACH = [pytest.param(one, id="%s-%s" % (version, i))
        for version in VERSIONS
        for i, one in enumerate(FOUND[version] or [None])]


@pytest.fixture(params=EACH)
def python(request):
    if not request.param:
        pytest.skip("no CPython of this version here")
    return request.param


def run(python, program, *args, timeout=280, shim=SHIM):
    if "thread" in SANITIZED:
        pytest.skip("Python does not start under it")
    env = environment(traced=False, SHIM=shim)
    if SANITIZED:
        env["LD_PRELOAD"] = str(shim)
    return subprocess.run(
        [python["path"], str(PROGRAMS / program), *map(str, args)],
        capture_output=True, text=True, timeout=timeout, check=False, env=env)


def test_some_are_there():
    """A machine without one is a machine that tests nothing here."""
    assert sum(map(len, FOUND.values()))


def test_frames(python):
    done = run(python, "frames.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) > 5000


def test_lines(python):
    done = run(python, "lines.py")
    assert done.returncode == 0, done.stdout + done.stderr


def test_signals(python):
    done = run(python, "signals.py", 2)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ending(python):
    """The interpreter ends while walks go on; sub-interpreters; a fork."""
    for _ in range(2):
        done = run(python, "ending.py")
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout == "True\n", done.stderr


def test_offsets(python, tmp_path):
    include = pathlib.Path(python["include"])
    if not (include / "internal").is_dir():
        pytest.skip("no headers of %s" % python["version"])
    program = tmp_path / "offsets"
    done = subprocess.run(
        ["gcc", "-w", "-I", str(ROOT), "-I", str(include), "-I",
         str(include / "internal"), "-I", str(include.parent),
         str(PROGRAMS / "offsets.c"), "-o", str(program)],
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([str(program)], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout


def test_says_what_it_found(python):
    done = run(python, "said.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "gputrace: Python %s: its frames are recorded\n" \
        % python["version"]


def test_cost(python):
    if SANITIZED:
        pytest.skip("times mean nothing here")
    done = run(python, "cost.py")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["name"] for row in rows] == ["python_walk_10",
                                             "python_walk_50"]
    # A walk of 10 took 4 to 15 us.
    assert all(0 < row["baseline"] < row["value"] < 1e6 for row in rows)
