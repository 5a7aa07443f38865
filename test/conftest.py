# SPDX-License-Identifier: MIT
"""Fixtures for every test: the command, and the independent checker."""
import json
import os
import signal
import subprocess
import sys

import pytest
from tracing import BUILD, JUDGE, ROOT

# Behind nohup, or in the background of a shell, these come ignored, and the
# programs of the tests would inherit that.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

DATA = [ROOT.parent / "shared" / "data", ROOT / "test" / "data"]


class Done:
    """A command that has ended."""

    def __init__(self, done):
        self.status = done.returncode
        self.out = done.stdout.decode()
        self.err = done.stderr.decode()


@pytest.fixture(scope="session")
def gputrace():
    """Runs `gputrace ARGS...` of the build in $O."""
    def run(*args, timeout=60, **options):
        env = dict(os.environ, LC_ALL="C")
        env.update(options.pop("env", {}))
        return Done(subprocess.run(
            [str(BUILD / "gputrace"), *map(str, args)], timeout=timeout,
            capture_output=True, check=False, env=env, **options))
    return run


@pytest.fixture(scope="session")
def judged():
    """{rule: count} of a file, by the independent checker."""
    if not JUDGE.exists():
        if os.environ.get("CI"):
            pytest.fail("no checker at %s (GPUTRACE_JUDGE)" % JUDGE)
        pytest.skip("no checker at %s" % JUDGE)

    def rules(path, profile="all"):
        done = subprocess.run(
            [sys.executable, str(JUDGE), "--summary", "--profile", profile,
             str(path)], capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done.stderr
        return json.loads(done.stdout)["rules"]
    return rules


def real_traces():
    """Traces of real GPUs, for reading."""
    found = [p for folder in DATA if folder.is_dir()
             for p in sorted(folder.glob("*.json.gz"))]
    if not found and os.environ.get("CI"):
        raise FileNotFoundError("no traces in %s" % DATA)
    return found


def pytest_generate_tests(metafunc):
    if "real_trace" in metafunc.fixturenames:
        found = real_traces()
        metafunc.parametrize("real_trace", found, ids=[p.name for p in found])
