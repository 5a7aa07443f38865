# SPDX-License-Identifier: MIT
"""Names of every kind that hold what nobody expects: host/strings.

The texts are made here, and what the file must say of them is what Python's
own decoder says: UTF-8 comes back whole, a byte that is none as U+FFFD (how
many of these stand for a broken sequence is free).
"""
import ctypes
import os
import re
import subprocess

import pytest
from tracing import BUILD, Trace, environment, judge, run, traced

TEXT_MAX = 4096         # README: what is kept of a name that the program gives
WIDE = 1000             # numbers of wide texts in host/strings
MB = 1 << 20

TEXTS = [
    b'quote " back\\slash / {"a":[1]} \\" \\u0041 \\',
    bytes(range(1, 0x20)) + b"\x7f end",
    b"</script><!-- %s %n $(x) `x` ${x}",
    b"overlong \xc0\x80 \xe0\x80\xaf \xf0\x80\x80\x80 end",
    b"surrogates \xed\xa0\x80 \xed\xbf\xbf \xed\xa0\xbd\xed\xb8\x80 end",
    b"beyond \xf4\x90\x80\x80 \xf8\x88\x80\x80\x80 \xff\xfe end",
    b"truncated \xe2\x82",
    b"truncated \xf0\x9f\x98",
    b"\x80\xbf\xc2",
    "direction \u202e\u200f\u2066 line \u2028\u2029 \ufeff end".encode(),
    "emoji \U0001f600\U0001f1ea\U0001f1fa e\u0301 \U0010ffff \x85".encode(),
    b" ", b"\n", b"a\xff", b"a\xfe",
    b"long " + b"x" * MB,
    b"odd" + "\U0001f600".encode() * (MB // 4),
    b"\xc3" * MB,
    b"(" * MB, b"f<" * 60000 + b">", b"_Z" + b"9" * 60000,
    b"_ZN" + b"1aI" * 20000 + b"E",
]
WIDES = [
    "wide \u00e9\u6f22\U0001f600 \u202e\u2028 \" \\ \x01\x1f\x7f",
    "pair \ud83d\ude00 alone \ud83d x \ude00 end", "\ude00\ud83d",
    "w" * MB, "odd" + "\U0001f600" * (MB // 4),
]


def shown(text):
    """What the file says of these bytes, U+FFFD in a row as one."""
    return re.sub("\ufffd+", "\ufffd", text)


def expected(raw, limit=None):
    text = raw.decode("utf-8", "replace")
    if limit is None or len(raw) <= limit:
        return shown(text)
    whole = raw[:limit].decode("utf-8", "ignore") if \
        "\ufffd" not in text else raw[:limit].decode("utf-8", "replace")
    return shown(whole)


def expected_wide(text):
    units = text.encode("utf-16-le", "surrogatepass")
    return expected(units.decode("utf-16-le", "replace").encode(), TEXT_MAX)


@pytest.fixture(scope="module", name="trace")
def fixture_trace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("strings")
    (folder / "texts").write_bytes(b"".join(t + b"\0" for t in TEXTS))
    (folder / "wides").write_bytes(b"".join(
        (t + "\0").encode("utf-32-le", "surrogatepass") for t in WIDES))
    return traced(folder, "strings", folder / "texts", folder / "wides",
                  SIM_NAME_HEX=1, GPUTRACE_FLUSH="100ms")[1]


def numbered(events, number):
    return [e for e in events if e["args"].get("payload") == number]


def cases():
    return [(i, expected(t, TEXT_MAX), len(t) > TEXT_MAX)
            for i, t in enumerate(TEXTS)] + \
        [(WIDE + i, expected_wide(t), len(t.encode(
            "utf-16-le", "surrogatepass")) > TEXT_MAX)
         for i, t in enumerate(WIDES)]


def test_names_of_ranges(trace):
    for number, name, is_cut in cases():
        plain = [e for e in numbered(trace.ranges() + trace.marks(), number)
                 if e["name"] != "thread"]
        assert len(plain) == 4, number
        for event in plain:
            assert shown(event["name"]) == name, number
            assert ("name cut" in event["args"]) == is_cut
    assert not [e for e in trace.ranges() if not e["name"]]


def test_domains_and_categories(trace):
    for number, name, _ in cases():
        found = [e for e in numbered(trace.ranges(), number)
                 if "category" in e["args"]]
        assert len(found) == 1, number
        assert shown(found[0]["args"]["domain"]) == name
        assert shown(found[0]["args"]["category"]) == name


def test_threads(trace):
    lanes = trace.labels("thread_name")
    for number, name, _ in cases():
        names = {shown(lanes[e["pid"], e["tid"]])
                 for e in numbered(trace.ranges("thread"), number)}
        assert name in names, number
        if number < WIDE:       # a name that is not there is the program's
            comm = expected(TEXTS[number][:15].rstrip(b"\n"))
            assert comm in names or not comm


def test_streams_and_device(trace):
    lanes = trace.labels("thread_name")
    for kernel in trace.slices("kernel"):
        number = kernel["args"]["grid"][0] - 1
        assert expected(TEXTS[number], TEXT_MAX) in \
            shown(lanes[kernel["pid"], kernel["tid"]])
        assert TEXTS[0].decode() in trace.labels("process_name")[kernel["pid"]]


def test_kernels(trace):
    """A label of at most 120 bytes in each event; the whole name, up to
    64 KiB, once; no two names alike."""
    kernels = {k["args"]["grid"][0] - 1: k["name"]
               for k in trace.slices("kernel")}
    full = trace.own["names"]
    assert len(kernels) == len(TEXTS)
    assert len(set(kernels.values())) == len(TEXTS)
    for number, name in kernels.items():
        assert len(name.encode()) <= 120 + len(" #0123") + 3, number
        want, got = expected(TEXTS[number]), shown(full.get(name, name))
        if len(TEXTS[number]) <= 65536:
            assert got == want or want == "f<" * 60000 + ">"
        else:
            begin, number = re.fullmatch(r"(.*)\.\.\. #([0-9a-f]{16})", got,
                                         re.DOTALL).groups()
            assert want.startswith(begin)
            assert len(begin) > 16000 or "\ufffd" in begin


def test_cuts_are_counted(trace):
    long_texts = sum(len(t) > TEXT_MAX for t in TEXTS)
    long_wides = sum(c for n, _, c in cases() if n >= WIDE)
    kernels = sum(len(t) > 65536 for t in TEXTS)
    # range, start/end, mark, domain, category, string, thread, stream
    assert trace.losses() == {"names cut": long_texts * 8 + long_wides * 7 +
                              kernels}


def test_no_raw_control_characters(trace):
    """Readers of lines and terminals: the file has none but newlines."""
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f]", trace.text)


# ---- Names from outside ----

ODD = [b'quote " back\\slash', b"new\nline\ttab\x01\x1b[31m", b"\xff\xfe\xc3",
       "\u202eright \U0001f600 \u2028".encode(), b"%p%q %% %"]


@pytest.mark.parametrize("name", ODD)
def test_file_and_program(tmp_path, name):
    path = os.fsencode(tmp_path) + b"/" + name.replace(b"%", b"") + b".json"
    env = environment(GPUTRACE_LOG="info")
    env = {os.fsencode(k): os.fsencode(v) for k, v in env.items()}
    env.update({b"GPUTRACE_OUT": path, b"RANK": name, b"WORLD_SIZE": name,
                b"GPUTRACE_" + name.replace(b"=", b""): name})
    done = subprocess.run(
        [b"/x/" + name, b"--kernels", b"7", b"--steps", b"2"], env=env,
        executable=BUILD / "host" / "decode", capture_output=True, timeout=60,
        check=False)
    assert (done.returncode, done.stdout) == (0, b"steps 2\n")
    said = done.stderr.split(b"\n")
    assert all(l.startswith(b"gputrace: ") for l in said[:-1]) and said
    assert not re.search(b"[\x00-\x09\x0b-\x1f\x7f]", done.stderr)
    trace = Trace(os.fsdecode(path))
    assert not judge(trace.path), judge(trace.path)
    assert trace.own["rank"] == 0 and trace.own["world_size"] == 1
    assert shown(trace.own["argv"][0]) == expected(b"/x/" + name)
    assert shown(trace.header["traceName"]) == \
        expected(os.path.basename(path))
    assert shown(trace.own["settings"]["GPUTRACE_OUT"]) == expected(path)
    assert expected(name) in {
        shown(n) for n in trace.labels("process_name").values()}


def test_host(tmp_path):
    """A host name is any 64 bytes; none of them leads into another folder."""
    libc = ctypes.CDLL(None, use_errno=True)
    name = b'a"/../\n\xff'

    def rename():
        if libc.unshare(0x04000000) or libc.sethostname(name, len(name)):
            os._exit(77)        # CLONE_NEWUTS: not for everybody

    done = subprocess.run([BUILD / "host" / "decode"], preexec_fn=rename,
                          env=environment(GPUTRACE_OUT=tmp_path / "%h.json"),
                          capture_output=True, timeout=60, check=False)
    if done.returncode == 77:
        pytest.skip("may not have a host name of its own")
    path, = os.listdir(os.fsencode(tmp_path))
    assert path == name.replace(b"/", b"_") + b".json"
    trace = Trace(os.fsdecode(os.fsencode(tmp_path) + b"/" + path))
    assert not judge(trace.path), judge(trace.path)
    assert shown(trace.own["host"]) == expected(name)


@pytest.mark.parametrize("values, rank, world", [
    (dict(RANK="3", WORLD_SIZE="8"), 3, 8),
    (dict(RANK="-1", OMPI_COMM_WORLD_RANK="2"), 2, 1),
    (dict(RANK="99999999999999999999", SLURM_PROCID="5 "), 0, 1),
    (dict(RANK="", PMI_RANK="0x7", WORLD_SIZE="1e3"), 0, 1)])
def test_ranks(tmp_path, values, rank, world):
    trace = traced(tmp_path, "decode", "--steps", 1, **values)[1]
    assert trace.own["rank"] == rank and trace.own["world_size"] == world


def test_long_arguments(tmp_path):
    """An argument is cut at 4,096 bytes, all of them at 32 KiB, and the list
    says so."""
    path = tmp_path / "t.json"
    def argv(*args):
        done = run("strings", "/dev/null", "/dev/null", *args,
                   GPUTRACE_OUT=path)
        return done, Trace(path)
    done, trace = argv("odd" + "\U0001f600" * 2000, "--api-key", "x" * 5000)
    assert done.status == 0, done.err
    assert trace.own["argv"][3] == "odd" + "\U0001f600" * 1022 + "..."
    assert trace.own["argv"][4:] == ["--api-key", "***"]
    assert trace.losses() == {"names cut": 1}
    trace = argv(*["y" * 1000] * 100)[1]
    assert trace.own["argv"][-1] == "..." and len(trace.own["argv"]) < 40
    assert trace.losses() == {"names cut": 1}
