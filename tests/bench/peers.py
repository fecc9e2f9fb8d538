"""The tracers that dlhook is compared with on the calls of gemm_caller: how each is started, what its trace says, what
reads it, which version it is. Standard library only. Each recorder has

    record(caller, folder)   the program's output, as an object; its trace is then in the folder
    calls(folder)            calls of sgemm_ in the trace, as the tool's own reader counts them
"""

import contextlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time

import runner
from runner import DLHOOK, clean_environment, program, run

NOBODY = 65534
CAPTURED = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


def missing(*words):
    """The missing ones among these commands and benchmark programs."""
    return [word for word in words if not (shutil.which(word) or os.path.exists(program(word)))]


def _output(command, check=True):
    return subprocess.run(command, check=check, env=clean_environment(), **CAPTURED).stdout


class Recorder:
    needs = ()

    def folder(self):
        """A context manager: a folder for one trace."""
        return tempfile.TemporaryDirectory(prefix="dlhook-bench-")

    def trace_bytes(self, folder):
        return sum(os.path.getsize(os.path.join(top, name)) for top, _, names in os.walk(folder) for name in names
                   if not os.path.islink(os.path.join(top, name)))


class Plain(Recorder):

    def record(self, caller, folder):
        return run(caller)


class Dlhook(Recorder):
    """`dlhook run`, with rings of 16 MiB (LTTng has 32 per processor, uftrace allocates on demand)."""

    RING_KIB = 245760  # a fifteenth of it for each of the first eight threads

    def record(self, caller, folder, **variables):
        command = [DLHOOK, "run", "-o", os.path.join(folder, "run"), "--", *caller]
        return run(command, DLHOOK_RING_KIB=self.RING_KIB, **variables)

    def calls(self, folder):
        table = runner.report(os.path.join(folder, "run"), "summary")
        names = [column["name"] for column in table["columns"]]
        return {row[names.index("metric")]: row[names.index("value")] for row in table["rows"]}["calls"]

    def readers(self, folder):
        report = [DLHOOK, "report", os.path.join(folder, "run"), "--table"]
        return {f"dlhook report --table {table}": [*report, table] for table in ("ops", "summary")}


class Uftrace(Recorder):
    """Hooks the PLT of the executable: five arguments and the return value, no scheduling events."""

    needs = ("uftrace",)
    HOOK = ["-A", "sgemm_@arg1,arg2,arg3,arg4,arg5", "-R", "sgemm_@retval", "--no-event"]

    def record(self, caller, folder):
        command = ["uftrace", "record", "--force", "--no-pager", *self.HOOK, "-d", os.path.join(folder, "uftrace")]
        return run([*command, *caller])

    def calls(self, folder):
        text = _output(self.readers(folder)["uftrace report"], check=False)  # it fails if nothing was recorded
        return sum(map(int, re.findall(r"(?m)\s(\d+)\s+sgemm_$", text)))

    def readers(self, folder):
        return {"uftrace report": ["uftrace", "report", "--no-pager", "-d", os.path.join(folder, "uftrace")]}


class Ltrace(Recorder):
    needs = ("ltrace",)

    def record(self, caller, folder):
        return run(["ltrace", "-f", "-e", "sgemm_", "-ttt", "-T", "-o", os.path.join(folder, "ltrace.txt"), *caller])

    def calls(self, folder):
        with open(os.path.join(folder, "ltrace.txt"), encoding="utf-8", errors="replace") as file:
            return sum("sgemm_(" in line for line in file)


class Lttng(Recorder):
    """A separate session daemon, in its own folder. A daemon of root would be the machine's, so root runs all of this
    as nobody; the programs are copied to a place where nobody may read them."""

    needs = ("lttng", "lttng-sessiond", "babeltrace2", "liblttng_gemm.so")
    CHANNEL = ["--buffers-uid", "--subbuf-size=512K", "--num-subbuf=64"]  # 32 MiB per processor

    def __enter__(self):
        self.home = tempfile.mkdtemp(prefix="dlhook-bench-lttng-")
        for name in ("gemm_caller", "libstub_blas.so", "liblttng_gemm.so"):
            shutil.copy(program(name), self.home)
        os.chmod(self.home, 0o755)
        user = {}
        if os.getuid() == 0:
            os.chown(self.home, NOBODY, NOBODY)
            user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        self._process = {"cwd": self.home, **user}
        self._environment = {**clean_environment(), "LTTNG_HOME": self.home, "LD_LIBRARY_PATH": self.home}
        # setpriv: the daemon ends with this process, however that ends.
        command = ["setpriv", "--pdeathsig", "TERM", "lttng-sessiond", "--no-kernel", "--quiet"]
        self._daemon = subprocess.Popen(command, env=self._environment, **self._process, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._sessions = 0
        self._wait_for_daemon()
        return self

    def _wait_for_daemon(self):
        for _ in range(100):
            if self._lttng("list", check=False).returncode == 0:
                return
            time.sleep(0.1)
        self.__exit__()
        raise RuntimeError("lttng-sessiond does not answer")

    def __exit__(self, *unused):
        self._daemon.terminate()  # it ends its consumers
        self._daemon.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def _lttng(self, *words, check=True):
        command = ["lttng", "--no-sessiond", *words]
        return subprocess.run(command, check=check, env=self._environment, timeout=60, **CAPTURED, **self._process)

    def _daemons(self):
        """The session daemon and its consumers, by their ids."""
        pids = [self._daemon.pid]
        for pid in pids:
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                pids += map(int, file.read().split())
        return " ".join(map(str, pids))

    @contextlib.contextmanager
    def folder(self):
        with tempfile.TemporaryDirectory(dir=self.home) as folder:
            if os.getuid() == 0:
                os.chown(folder, NOBODY, NOBODY)
            yield folder

    def record(self, caller, folder):
        self._sessions += 1
        session = f"session-{self._sessions}"
        self._lttng("create", session, "--output", os.path.join(folder, "lttng"))
        self._lttng("enable-channel", "-u", "-s", session, *self.CHANNEL, "calls")
        self._lttng("enable-event", "-u", "-s", session, "-c", "calls", "dlhook_peer:*")
        self._lttng("add-context", "-u", "-s", session, "-c", "calls", "-t", "vtid")
        self._lttng("start", session)
        words = [os.path.join(self.home, "gemm_caller"), *map(str, caller[1:])]
        environment = {**self._environment, "LD_PRELOAD": os.path.join(self.home, "liblttng_gemm.so"),
                       "BENCH_WATCH": self._daemons()}
        result = subprocess.run(words, check=True, env=environment, **CAPTURED, **self._process)
        self._lttng("stop", session)
        self._lttng("destroy", session)
        return runner.last_line(result.stdout)

    def calls(self, folder):
        """Half of the events: entries and exits."""
        text = _output(["babeltrace2", os.path.join(folder, "lttng"), "-c", "sink.utils.counter", "-p", "step=+0"])
        return int(re.findall(r"(\d+) Event messages", text)[-1]) // 2

    def readers(self, folder):
        read = ["babeltrace2", os.path.join(folder, "lttng")]
        return {"babeltrace2, counter": [*read, "-c", "sink.utils.counter", "-p", "step=+0"],
                "babeltrace2, dummy": [*read, "-o", "dummy"]}


def machine():
    """One line: the machine of the measurement."""
    text = _output(["lscpu"]) if shutil.which("lscpu") else ""
    facts = dict(re.findall(r"(?m)^\s*([^:]+):\s+(.*)$", text))
    with open("/proc/meminfo", encoding="ascii") as file:
        memory_gib = int(file.read().split()[1]) / 2**20
    host = f", {facts['Hypervisor vendor']}" if "Hypervisor vendor" in facts else ""
    processor = facts.get("Model name", platform.machine())
    return f"{os.cpu_count()} x {processor}{host}, {memory_gib:.0f} GiB, Linux {platform.release()}"


def versions():
    """One line: the peers' versions, from Debian's package manager or from themselves."""
    packages = ["liblttng-ust1", "lttng-tools", "babeltrace2", "uftrace", "ltrace", "libdnnl2"]
    found = []
    for package in packages:
        answer = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], check=False, **CAPTURED)
        if answer.returncode == 0 and answer.stdout:
            found.append(f"{package} {answer.stdout}")
    if runner.TORCH_PYTHON:
        tell = "import platform, torch; print(f'torch {torch.__version__}, Python {platform.python_version()}')"
        found.append(_output([runner.TORCH_PYTHON, "-c", tell]).strip())
    return ", ".join(found)
