# SPDX-License-Identifier: MIT
"""Nothing is lost while the writer is busy elsewhere: 150,000 operators a
second, as an eager PyTorch loop has them, and what holds the writer up."""
import subprocess

import pytest
from control import Server
from test_torch import operators, torch
from tracing import BUILD, LIBRARY, SANITIZED, Run, Trace, run

DISK = BUILD / "shim" / "disk.so"
SETTINGS = {"SIM_TORCH_VERSION": "2.11.0", "GPUTRACE_BUFFER": "256M",
            "GPUTRACE_TRACE": "cuda,nvtx,stacks,torch",
            "GPUTRACE_TORCH_SHAPES": "on", "GPUTRACE_SAMPLE_HZ": "1000"}
NR = 45000              # 0.3 s, some 10 MB of records

pytestmark = pytest.mark.skipif(
    "thread" in SANITIZED, reason="that many take a sanitized writer longer")


def library(tmp_path, functions):
    """One that calls back, with so many functions in its table of symbols."""
    source, path = tmp_path / "through.s", tmp_path / "libthrough.so"
    source.write_text("""
        .macro function
        .type   f\\@, @function
f\\@:    ret
        .size   f\\@, . - f\\@
        .endm
        .text
        .globl  through
        .type   through, @function
through:
        .cfi_startproc
        sub     $8, %%rsp
        .cfi_def_cfa_offset 16
        call    *%%rdi
        add     $8, %%rsp
        .cfi_def_cfa_offset 8
        ret
        .cfi_endproc
        .size   through, . - through
        .rept   %d
        function
        .endr
""" % functions)
    subprocess.run(["cc", "-shared", "-nostdlib", "-o", path, source],
                   check=True, timeout=100)
    return path


def all_is_there(tmp_path, functions, **settings):
    path = tmp_path / "trace.json"
    done = run("operators", torch(tmp_path, "2.11.0"), "rate", NR,
               library(tmp_path, functions), GPUTRACE_OUT=path,
               **{**SETTINGS, **settings})
    trace = Trace(path)
    assert done.status == 0 and trace.losses() == {}
    assert operators(trace) == done.did["operators"] == {"aten::add": NR}
    return trace


def test_a_large_table_of_symbols(tmp_path):
    """PyTorch's have 100,000 to 300,000 functions each."""
    trace = all_is_there(tmp_path, 600000)
    assert "through (libthrough.so)" in trace.text


@pytest.mark.parametrize("busy", [(), (150000, "busy")], ids=["", "busy"])
def test_a_thread_from_before_the_source(tmp_path, busy):
    """Its ring was made for ranges: it has another one from then on, also if
    it has ranges while the window opens."""
    arguments = (torch(tmp_path, "2.11.0"), "rate", NR, library(tmp_path, 1),
                 *busy)
    with Server(tmp_path, *arguments, program="operators",
                SIM_TORCH_VERSION="2.11.0", GPUTRACE_BUFFER="256M") as server:
        assert server.ask("start trace=cuda,nvtx,stacks,torch")["ok"]
        done = Run(server.process, 60)
    trace = Trace(tmp_path / "t.json")
    assert done.status == 0 and trace.losses() == {}
    assert operators(trace) == done.did["operators"] == {"aten::add": NR}
    assert "before" in trace.count("user_annotation")


def test_more_than_there_is_room_for(tmp_path):
    """What the reader has kept meanwhile are more ranges than the table
    holds: only what found a full ring is lost."""
    nr, path = 450000, tmp_path / "trace.json"
    done = run("operators", torch(tmp_path, "2.11.0"), "rate", nr,
               library(tmp_path, 1), 300000, GPUTRACE_OUT=path,
               DISK_STALL=0.9, LD_PRELOAD="%s:%s" % (DISK, LIBRARY),
               **{**SETTINGS, "GPUTRACE_TRACE": "cuda,nvtx,torch",
                  "GPUTRACE_TORCH_SHAPES": "off"})
    assert done.status == 0
    assert set(Trace(path).losses()) <= {"ring full"}


def test_a_slow_disk(tmp_path):
    all_is_there(tmp_path, 1, DISK_STALL=0.2,
                 LD_PRELOAD="%s:%s" % (DISK, LIBRARY))
