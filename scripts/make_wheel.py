#!/usr/bin/env python3
"""Packs an installed dlhook and the Python package into a wheel: make_wheel.py PREFIX OUT. Standard library only.

PREFIX is what scripts/package.sh installed there. The same files give the same bytes; SOURCE_DATE_EPOCH is the time of all files. A wheel
whose programs need only glibc up to the release of TAG gets that tag; any other one gets the tag of this kind of machine, and why is said.
"""

import base64
import hashlib
import os
import re
import subprocess
import sys
import time
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TAG = "manylinux_2_34_x86_64"
GLIBC = (2, 34)
GLIBC_LIBRARIES = {"ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1"}

METADATA = """\
Metadata-Version: 2.4
Name: dlhook
Version: {version}
Summary: {summary}
License-Expression: Apache-2.0
{licences}Keywords: profiler,deep learning,PyTorch,TensorFlow,BLAS,oneDNN,cuDNN
Classifier: Environment :: Console
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Software Development :: Debuggers
Requires-Python: >=3.9
Provides-Extra: pandas
Requires-Dist: pandas; extra == "pandas"
Provides-Extra: arrow
Requires-Dist: pyarrow; extra == "arrow"
Provides-Extra: mcp
Requires-Dist: mcp >= 2; extra == "mcp"
Provides-Extra: ranks
Requires-Dist: duckdb; extra == "ranks"
Provides-Extra: spark
Requires-Dist: pyspark >= 4; extra == "spark"
Description-Content-Type: text/plain

{summary}

    dlhook run -o RUN -- python train.py
    dlhook report RUN

`dlhook help` and `man dlhook` say everything; in Python: import dlhook; help(dlhook).
"""

WHEEL = """\
Wheel-Version: 1.0
Generator: dlhook
Root-Is-Purelib: false
Tag: py3-none-{tag}
"""


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def needs_more(path):
    """What a program needs besides glibc up to GLIBC, as sentences."""
    name = os.path.basename(path)
    libraries = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", path))) - GLIBC_LIBRARIES
    needs = [f"{name} needs {library}" for library in sorted(libraries)]
    for symbol, version in sorted(set(re.findall(r" UND (\w+)@GLIBC_(\w[\w.]*)", output("readelf", "-W", "--dyn-syms", path)))):
        if not version[0].isdigit() or tuple(map(int, version.split("."))) > GLIBC:
            needs.append(f"{name} needs {symbol} of GLIBC_{version}")
    return needs


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def contents(prefix):
    """(file name of the wheel, {path in the wheel: (bytes, is executable)}), without RECORD."""
    command, library = os.path.join(prefix, "bin", "dlhook"), os.path.join(prefix, "lib", "libdlhook.so")
    version = output(command, "--version").split()[1]
    summary = output(command, "help").splitlines()[0].split(": ", 1)[1]
    needs = needs_more(command) + needs_more(library)
    for need in needs:
        print(f"make_wheel.py: not {TAG}: {need}", file=sys.stderr)
    tag = "linux_x86_64" if needs else TAG
    data, info = f"dlhook-{version}.data", f"dlhook-{version}.dist-info"
    files = {f"{data}/scripts/dlhook": (read(command), True), f"{data}/data/lib/libdlhook.so": (read(library), True),
             f"{data}/data/share/man/man1/dlhook.1": (read(prefix, "share", "man", "man1", "dlhook.1"), False)}
    for path in ("bash-completion/completions/dlhook", "zsh/vendor-completions/_dlhook", "fish/vendor_completions.d/dlhook.fish"):
        files[f"{data}/data/share/{path}"] = (read(prefix, "share", path), False)
    package = os.path.join(ROOT, "python", "dlhook")
    for name in os.listdir(package):
        if name.endswith((".py", ".sql", ".typed")):
            files[f"dlhook/{name}"] = (read(package, name), False)
    folder = os.path.join(prefix, "share", "doc", "dlhook", "licences")
    names = sorted(os.listdir(folder))
    files.update({f"{info}/licenses/{name}": (read(folder, name), False) for name in names})
    named = "".join(f"License-File: {name}\n" for name in names)
    files[f"{info}/METADATA"] = (METADATA.format(version=version, summary=summary, licences=named).encode(), False)
    # The name with which pytest's option -p loads it, too: it is never registered twice.
    files[f"{info}/entry_points.txt"] = (b"[pytest11]\ndlhook._pytest_plugin = dlhook._pytest_plugin\n", False)
    files[f"{info}/WHEEL"] = (WHEEL.format(tag=tag).encode(), False)
    return f"dlhook-{version}-py3-none-{tag}.whl", files


def record(files, name):
    lines = []
    for path, (data, _) in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}\n")
    return "".join([*lines, f"{name},,\n"]).encode()


def write(path, files):
    moment = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800))[:6]  # zip begins in 1980
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, (data, is_executable) in files.items():
            entry = zipfile.ZipInfo(name, moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if is_executable else 0o100644) << 16
            wheel.writestr(entry, data)


def main():
    prefix, folder = sys.argv[1:]
    name, files = contents(prefix)
    info = next(path for path in files if path.endswith("/WHEEL")).split("/")[0]
    ordered = dict(sorted(files.items(), key=lambda item: (".dist-info/" in item[0], item[0])))  # dist-info last, as the format asks for
    ordered[f"{info}/RECORD"] = (record(files, f"{info}/RECORD"), False)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name)
    write(path, ordered)
    print(path)


main()
