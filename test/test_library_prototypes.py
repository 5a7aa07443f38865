# SPDX-License-Identifier: MIT
"""The wrappers of cuBLAS, cuDNN and NCCL: each prototype against the toolkit's
headers, and each argument through the wrapper."""
import os
import re
import subprocess

import pytest
from test_libraries import ALL, CATS, run
from tracing import BUILD, ROOT, SANITIZED, Trace

HEADERS = ["cublas_api.h", "cublasLt.h", "cudnn_graph.h", "cudnn_ops.h",
           "cudnn_cnn.h", "cudnn_adv.h", "nccl.h"]


def wrappers():
    """{function: [parameter]} of all wrappers, from the preprocessor."""
    found = {}
    for library in CATS:
        text = subprocess.run(
            ["gcc", "-E", "-P", "-D_GNU_SOURCE", "-I.",
             "inject/interpose_%s.c" % library], cwd=ROOT,
            capture_output=True, text=True, check=True).stdout
        for name, parameters in re.findall(
                r'visibility\("default"\)\)\) int (\w+) \(([^;]*?)\);', text):
            found[name] = [p.strip() for p in parameters.split(",")
                           if p.strip() != "void"]
    return found


def passed_as(parameter):
    """How the processor passes it: pointer, 32 or 64 bits, double, or a
    unique id, which goes by value."""
    text = re.sub(r"\bconst\b", "", parameter)
    if "*" in text or "[" in text:
        return "P"
    of = " ".join(text.split()[:-1])
    if of in ("int64_t", "long long", "long long int", "size_t"):
        return "L"
    if of in ("ncclUniqueId", "struct unique_id"):
        return "U"
    if of == "double":
        return "D"
    if re.fullmatch(r"\w*(Handle|Descriptor|Comm|Stream|Desc|Layout)_t",
                    of, re.I):
        return "P"
    assert of in ("int", "unsigned", "int32_t", "uint32_t", "cudaDataType") \
        or of.endswith("_t"), of
    return "I"


# What our parameter is in the headers, of those that are looked at.
SAME = {"batch": "batchcount", "count": "(send|recv)?count",
        "type": "datatype", "ranks": "nranks|ndev", "rank": "(my)?rank",
        "root": "root|peer", "trans": "trans", "transa": "transa(_array)?",
        "transb": "transb(_array)?", "atype": "atype", "btype": "btype",
        "ctype": "ctype", "compute": "computetype", "op": "op",
        "comm": "(new)?comm", "m": "m(_array)?", "n": "n(_array)?",
        "k": "k(_array)?", "nr": "group_count", "sizes": "group_size",
        "xd": "d?xdesc", "wd": "d?wdesc", "yd": "d?ydesc",
        "dyd": "dydesc", "convolution": "convdesc", "alayout": "adesc",
        "blayout": "bdesc", "dlayout": "ddesc", "operation": "computedesc",
        "attention": "attndesc", "rnn": "rnndesc", "plan": "executionplan"}


def named(parameter):
    return re.sub(r"\[.*", "", parameter).replace("*", " ").split()[-1]


def headers():
    folders = [os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/include"]
    text = ""
    for name in HEADERS:
        path = next((os.path.join(f, name) for f in folders
                     if os.path.exists(os.path.join(f, name))), None)
        if not path:
            pytest.skip("no " + name)
        with open(path, encoding="utf-8") as file:
            text += file.read()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return re.sub(r"//.*", "", text)


def test_prototypes_are_the_headers():
    text = headers()
    for name, ours in wrappers().items():
        match = re.search(r"\b%s\s*\(([^;{]*?)\)\s*(?:CUDNN_DEPRECATED)?\s*;"
                          % name, text)
        assert match, name
        theirs = [" ".join(p.split()) for p in match[1].split(",")
                  if p.strip() not in ("", "void")]
        assert [passed_as(p) for p in ours] == \
            [passed_as(p) for p in theirs], name
        for mine, real in zip(ours, theirs):
            if named(mine) in SAME and not (name.startswith("cudnn") and
                                            named(mine) == "k"):
                assert re.fullmatch(SAME[named(mine)], named(real), re.I), \
                    (name, mine, real)


VALUES = {"P": "(void *)%#xul", "L": "%#xll", "I": "%#x", "D": "%d.5"}
PRINT = {"P": "%lx", "L": "%lx", "I": "%x", "D": "%.1f", "U": "%d"}


def value(kind, i):
    """Of argument i: no two alike, and the high half not empty."""
    if kind == "U":
        return "(struct unique_id){ { [0] = 3, [127] = %d } }" % (i + 60)
    wide = (i + 1) * 0x100000001 if kind == "L" else \
        0x7f0000000000 + i * 16 if kind == "P" else i + 1
    return VALUES[kind] % wide


def generated():
    """A library that prints what reaches it, and a program that calls it."""
    head = "#include <stdint.h>\n#include <stdio.h>\n#include <stddef.h>\n" \
        "struct unique_id { char bytes[128]; };\n"
    library, program = head, head + "int cuInit(unsigned);\n"
    calls = ""
    for name, parameters in wrappers().items():
        kinds = [passed_as(p) for p in parameters]
        names = [named(p) for p in parameters]
        prototype = "int %s(%s)" % (name, ", ".join(parameters) or "void")
        shown = ["%s.bytes[127]" % n if k == "U" else
                 "(unsigned long)%s" % n if k in "PL" else n
                 for k, n in zip(kinds, names)]
        library += "%s { printf(\"%s%s\\n\"%s); return %d; }\n" % (
            prototype, name, "".join(" " + PRINT[k] for k in kinds),
            "".join(", " + s for s in shown), 100 + len(kinds))
        program += prototype + ";\n"
        calls += "\tif (%s(%s) != %d) puts(\"wrong\");\n" % (
            name, ", ".join(value(k, i) for i, k in enumerate(kinds)),
            100 + len(kinds))
    # The getters know nothing.
    for name in ("cublasLtMatrixLayoutGetAttribute", "ncclCommUserRank",
                 "cublasLtMatmulDescGetAttribute", "ncclCommCount"):
        library += "int %s(void) { return 1; }\n" % name
    return library, program + "int main(void) {\n\tcuInit(0);\n" + calls + \
        "\treturn 0;\n}\n"


@pytest.mark.skipif(bool(SANITIZED), reason="has a build of its own")
def test_every_argument_of_every_function(tmp_path):
    """Through each of the wrappers, recorded and not."""
    for name, text in zip(("library", "program"), generated()):
        (tmp_path / (name + ".c")).write_text(text)
    # Arrays of groups are read: from what is not one, nothing.
    grouped = {n for n in wrappers() if "Grouped" in n}
    text = (tmp_path / "program.c").read_text()
    text = "\n".join(l for l in text.splitlines()
                     if not any(g + "(" in l and "wrong" in l
                                for g in grouped))
    (tmp_path / "program.c").write_text(text)
    flags = ["gcc", "-w", "-O1", "-I", str(ROOT)]
    subprocess.run([*flags, "-shared", "-fPIC", "-Wl,-soname,libreal.so",
                    "-o", tmp_path / "libreal.so", tmp_path / "library.c"],
                   check=True)
    subprocess.run([*flags, "-o", tmp_path / "program",
                    tmp_path / "program.c", tmp_path / "libreal.so",
                    BUILD / "sim" / "libcuda.so.1", "-Wl,-rpath," + str(tmp_path)],
                   check=True)
    program = str(tmp_path / "program")
    plain = run(program, traced=False)
    assert plain.status == 0 and "wrong" not in plain.out
    assert len(plain.out.splitlines()) == len(wrappers()) - len(grouped)
    for trace in ("cuda", ALL):
        done = run(program, GPUTRACE_TRACE=trace,
                   GPUTRACE_OUT=tmp_path / "t.json")
        assert done.status == 0 and done.out == plain.out
    counted = sum(Trace(tmp_path / "t.json").count(*CATS).values())
    assert counted == len(wrappers()) - len(grouped)
