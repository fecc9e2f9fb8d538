"""Runs programs with and without dlhook and loads dlhook's record. Python standard library only.

All compared values come from the documented outputs: `dlhook report --format json` and `dlhook dump`. The decoding of
dumps below follows the comments of proto/*.proto and shares no code with the analyzer.
"""

import collections
import concurrent.futures
import json
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

DLHOOK = os.environ.get("DLHOOK_TEST_DLHOOK", "")
SHIM = os.environ.get("DLHOOK_TEST_SHIM", "")
TESTING_SHIM = os.environ.get("DLHOOK_TEST_TESTING_SHIM", "")  # tests/testing_shim/
VICTIMS = os.environ.get("DLHOOK_TEST_VICTIMS", "")
HERE = os.path.dirname(os.path.abspath(__file__))

Result = collections.namedtuple("Result", "code out err")
Call = collections.namedtuple("Call", "thread_id sequence parent op end_ticks duration")

# The three hosts of the drain (docs/design.md, "The drain"): the launcher, a writer thread in the host, a reader of the
# run.
HOSTS = tuple(os.environ.get("DLHOOK_TEST_HOSTS", "launcher writer rings").split())


def _not_built():
    """{victim: the library that was missing when it should have been linked}, of CMakeLists.txt."""
    path = os.path.join(VICTIMS, "not_built")
    if not os.path.exists(path):
        return {}
    with open(path, encoding="ascii") as file:
        return dict(line.split() for line in file)


NOT_BUILT = _not_built()


def _assert_built(name):
    if name in NOT_BUILT:
        raise unittest.SkipTest(f"no {NOT_BUILT[name]} when victim_{name} should have been built")


def victim(name):
    _assert_built(name)
    return os.path.join(VICTIMS, "victim_" + name)


def library(name):
    _assert_built(name)
    for prefix in ("lib", ""):
        path = os.path.join(VICTIMS, f"{prefix}victim_{name}.so")
        if os.path.exists(path):
            return path
    raise FileNotFoundError(name)


def clean_environment(**extra):
    """The tests' own environment without variables that could affect dlhook or the victims."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("DLHOOK_", "ONEDNN_", "DNNL_", "MKLDNN_", "PYTHON", "LD_"))}
    env["OPENBLAS_NUM_THREADS"] = "1"
    env["OMP_WAIT_POLICY"] = "passive"  # tests share two cores: spinning threads delay all of them
    env["TF_ENABLE_ONEDNN_OPTS"] = "1"  # the default depends on the processor
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    env["DLHOOK_CACHE"] = "off"  # tests leave nothing at home
    if "DLHOOK_TEST_PYTHONPATH" in os.environ:
        env["PYTHONPATH"] = os.environ["DLHOOK_TEST_PYTHONPATH"]
    env.update({name: str(value) for name, value in extra.items()})
    return env


def limits():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def start(argv, env=None, cwd=None):
    """A running process with pipes, in its own process group."""
    return subprocess.Popen(argv, env=env or clean_environment(), cwd=cwd, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limits,
                            start_new_session=True)


def waiting(session):
    """The current activity of a session's processes, one line per thread: for programs that don't end."""
    lines = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if os.getsid(int(pid)) != session:
                continue
            for thread in sorted(os.listdir(f"/proc/{pid}/task"), key=int):
                told = []
                for name in ("comm", "wchan", "syscall", "stat"):
                    with open(f"/proc/{pid}/task/{thread}/{name}", encoding="utf-8", errors="replace") as file:
                        told.append(file.read().strip())
                comm, place, call, stat = told
                state, *numbers = stat.rsplit(") ", 1)[1].split()
                lines.append(f"{pid} {thread} {comm} {state} user {numbers[10]} system {numbers[11]} {place} {call}")
        except OSError:  # it has ended
            pass
    return lines[:60]


def ends_within(process, seconds):
    """Like process.wait(seconds), which polls every 50 ms: most programs of tests end sooner."""
    descriptor = os.pidfd_open(process.pid)
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def run(argv, env=None, cwd=None, stdin=b"", timeout=200):
    """Runs to the end. Output goes through files, as a test must not depend on the speed of readers."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, \
            tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        process = subprocess.Popen(argv, env=env or clean_environment(), cwd=cwd, stdin=given,
                                   stdout=out, stderr=err, preexec_fn=limits, start_new_session=True)
        if not ends_within(process, timeout):
            lines = waiting(process.pid)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise AssertionError("\n".join([f"{argv} did not end in {timeout} s; its threads then:", *lines]))
        code = process.wait()
        out.seek(0)
        err.seek(0)
        return Result(code, out.read(), err.read())


def until_top_says(path, words, patience=120):
    """What dlhook top says, in one line, once it has these words (a regular expression)."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        result = run([DLHOOK, "top", path, "--once"])
        text = " ".join((result.out + result.err).decode().split())
        if re.search(words, text):
            return text
    raise AssertionError(f"{words!r} did not come:\n{text}")


def shell_code(code):
    """The exit code as in a shell: 128 + signal for a killed program."""
    return 128 - code if code < 0 else code


# ---- textproto ------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(r'\s+|#[^\n]*|(?P<word>[A-Za-z_]\w*)|(?P<string>"(?:[^"\\\n]|\\.)*")'
                    r'|(?P<number>-?[0-9.][\w.+-]*)|(?P<mark>[{}\[\]:,;])')


def _tokens(text):
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if not match:
            raise ValueError(f"not textproto at {position}: {text[position:position + 60]!r}")
        position = match.end()
        if match.lastgroup:
            yield match.lastgroup, match.group(match.lastgroup)


def _scalar(kind, token):
    if kind == "number":
        return float(token) if re.search(r"[.eE]", token) and not token.startswith("0x") else int(token, 0)
    if kind == "string":
        raw = token[1:-1].encode()
        return raw.decode("unicode_escape").encode("latin-1").decode("utf-8", "replace")
    return {"true": True, "false": False}.get(token, token)


def parse_textproto(text):
    """A message as {field name: [values]}; sub-messages are such dictionaries again."""
    top = {}
    stack = [top]
    name = None
    in_list = False
    for kind, token in _tokens(text):
        if kind == "mark":
            if token == "{":
                message = {}
                stack[-1].setdefault(name, []).append(message)
                stack.append(message)
                if not in_list:
                    name = None
            elif token == "}":
                stack.pop()
            elif token in "[]":
                in_list = token == "["
                if not in_list:
                    name = None
        elif name is None:
            name = token
        else:
            stack[-1].setdefault(name, []).append(_scalar(kind, token))
            if not in_list:
                name = None
    if len(stack) != 1:
        raise ValueError("textproto ends inside a message")
    return top


def one(message, name, default=None):
    return message.get(name, [default])[-1]


# ---- traces ---------------------------------------------------------------------------------------------------------

class Trace:
    """One process trace, decoded."""

    def __init__(self):
        self.header = {}
        self.footer = None
        self.threads = {}
        self.calls = []
        self.aggregates = []
        self.losses = []
        self.capabilities = []
        self.mappings = []
        self.capture_states = []
        self.clock_samples = []
        self.ops = {}
        self.addresses = {}

    def add(self, packet):
        (kind, (data,)), = packet.items()
        if kind == "interned":
            self.ops.update((one(op, "iid"), op) for op in data.get("op", []))
            first = one(data, "first_address_iid", 0)
            self.addresses.update((first + i, a) for i, a in enumerate(data.get("address", [])))
        elif kind == "reset":
            self.ops, self.addresses = {}, {}
        elif kind == "call_batch":
            self._add_calls(data)
        elif kind == "call_aggregate":
            data["op"] = [self.ops[one(data, "op_iid")]]
            self.aggregates.append(data)
        elif kind == "thread":
            if one(data, "thread_id", 0) != 0:
                self.threads.setdefault(one(data, "thread_id"), {}).update(data)
        elif kind in ("header", "footer"):
            setattr(self, kind, data)
        else:
            plural = {"loss": "losses", "capability": "capabilities", "mapping": "mappings",
                      "capture_state": "capture_states", "clock_sample": "clock_samples"}
            if kind in plural:
                getattr(self, plural[kind]).append(data)

    def _add_calls(self, batch):
        sequence = one(batch, "base_sequence", 0)
        end = one(batch, "base_end_ticks", 0)
        columns = zip(batch["op_iid"], batch["sequence_delta"], batch["end_delta_ticks"],
                      batch["duration"], batch["parent_distance"], strict=True)
        for op, sequence_delta, end_delta, duration, distance in columns:
            sequence += 1 + sequence_delta
            end += end_delta
            self.calls.append(Call(one(batch, "thread_id"), sequence, sequence - distance if distance else None,
                                   self.ops[op], end, duration))

    @property
    def process(self):
        return one(self.header, "process", {})

    @property
    def pid(self):
        return one(self.process, "pid")

    def top_calls(self):
        return [call for call in self.calls if call.parent is None]

    def loss_count(self):
        return sum(one(loss, "calls", 0) for loss in self.losses)

    def known_count(self):
        """The number of calls in the trace: single ones, those in totals, lost ones."""
        return len(self.calls) + sum(one(aggregate, "count") for aggregate in self.aggregates) + self.loss_count()

    def loss_reasons(self):
        return {one(loss, "reason") for loss in self.losses}


class TraceWithOperands(Trace):
    """A trace whose calls also know their operand addresses and their status."""

    def __init__(self):
        super().__init__()
        self.addresses_of = {}  # (thread, sequence) -> [address]
        self.status_of = {}

    def _add_calls(self, batch):
        first = len(self.calls)
        super()._add_calls(batch)
        added = self.calls[first:]
        addresses = iter(batch.get("address_iid", []))
        for call in added:
            count = one(call.op, "address_count", 0)
            self.addresses_of[call[:2]] = [self.addresses.get(next(addresses), 0) for _ in range(count)]
        for index, status in zip(batch.get("status_index", []), batch.get("status", []), strict=True):
            self.status_of[added[index][:2]] = status


def problem(op):
    """A call's op as a short tuple: (function, m, n, k, transposes) for products, (function,) for others."""
    function = one(op, "function")
    for kind in ("gemm", "matrix"):
        if kind in op:
            shape = one(op, kind)
            trans = one(shape, "trans_a", "") + one(shape, "trans_b", "") + one(shape, "trans", "")
            return (function, one(shape, "m", 0), one(shape, "n", 0), one(shape, "k", 0), trans)
    return (function,)


class Run:
    def __init__(self, path):
        self.path = path

    def files(self):
        """The recorded files, except the one by which launchers find each other."""
        return sorted(set(os.listdir(self.path)) - {"dlhook.run"}) if os.path.isdir(self.path) else []

    def report(self, *options):
        result = run([DLHOOK, "report", self.path, "--format", "json", *options])
        if result.code != 0:
            raise AssertionError(f"dlhook report: {result.code}: {result.err.decode()}")
        return json.loads(result.out)

    def table(self, name, *arguments):
        """The rows of a table as dictionaries."""
        (table,) = self.report("--table", name, *arguments)["tables"]
        names = [column["name"] for column in table["columns"]]
        return [dict(zip(names, row, strict=True)) for row in table["rows"]]

    trace_type = Trace

    def traces(self, trace_type=None):
        """All process traces of the run, in the order of the dump; `trace_type` reads more of their packets."""
        result = run([DLHOOK, "dump", self.path])
        if result.code != 0:
            raise AssertionError(f"dlhook dump: {result.code}: {result.err.decode()}")
        traces = []
        for packet in parse_textproto(result.out.decode()).get("packet", []):
            if "header" in packet:
                traces.append((trace_type or self.trace_type)())
            traces[-1].add(packet)
        return traces

    def trace(self):
        traces = self.traces()
        if len(traces) != 1:
            raise AssertionError(f"{len(traces)} process traces instead of one: {self.files()}")
        return traces[0]


class Case(unittest.TestCase):
    """A test with its own folder and a run folder in it."""

    maxDiff = 4000

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="dlhook-e2e-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.run_path = os.path.join(self.folder, "run")

    def fresh_run(self):
        self.run_path = tempfile.mktemp(prefix="run-", dir=self.folder)
        return self.run_path

    def hanging(self, argv, words="but the program is alive", env=None):
        """Starts a program that hangs, records it, and ends it with the test; what dlhook top says, in one line, once it has
        these words."""
        process = start([DLHOOK, "run", "-o", self.fresh_run(), "--", *argv], env=env, cwd=self.folder)
        self.addCleanup(process.communicate)
        self.addCleanup(os.killpg, process.pid, signal.SIGKILL)
        return until_top_says(self.run_path, words)

    def environment(self, host, **extra):
        """The environment in which `host` drains a victim into self.run_path."""
        env = clean_environment(**extra)
        if host != "launcher":
            testing = any(name.startswith("DLHOOK_TESTING_") for name in extra)
            env["LD_PRELOAD"] = TESTING_SHIM if testing else SHIM
            env.setdefault("DLHOOK_OUT", self.run_path)
        if host == "rings":
            env["DLHOOK_DRAIN"] = "none"
        return env

    def command(self, host, argv):
        return [DLHOOK, "run", "-o", self.run_path, "--", *argv] if host == "launcher" else list(argv)

    def under(self, host, argv, stdin=b"", cwd=None, **extra):
        """Runs argv under dlhook with the drain in `host`."""
        return run(self.command(host, argv), env=self.environment(host, **extra),
                   cwd=cwd or self.folder, stdin=stdin)

    def recorded(self, host, argv, expected_code=0, **extra):
        """Runs argv under dlhook in a fresh run folder; the loaded Run."""
        self.fresh_run()
        result = self.under(host, argv, **extra)
        self.assertEqual(shell_code(result.code), shell_code(expected_code), result.err.decode()[-2000:])
        return Run(self.run_path)

    def stack_agreement(self, argv):
        """Native stacks of a fresh run under the testing shim: (all, those equal to a complete walk, those equal to
        libunwind's)."""
        path = os.path.join(self.folder, "agreement")
        self.fresh_run()
        result = self.under("writer", argv, DLHOOK_STACKS="native", DLHOOK_TESTING_STACKS=path)
        self.assertEqual(result.code, 0, result.err)
        with open(path, encoding="ascii") as file:
            (line,) = file
        os.remove(path)
        stacks, whole, libunwind = map(int, line.split()[:3])
        if libunwind < 0:
            self.skipTest("no libunwind.so.8")
        return stacks, whole, libunwind

    def assert_problems(self, calls, expected):
        """`expected`: {problem tuple: number of calls}."""
        self.assertEqual(dict(collections.Counter(problem(call.op) for call in calls)), expected)

    def assert_no_loss(self, trace):
        self.assertEqual([loss for loss in trace.losses], [])

    def assert_same_behaviour(self, plain, other, host):
        """stdout, stderr and exit code; `dlhook run` adds its summary at the end of stderr."""
        self.assertEqual(plain.out, other.out)
        self.assertEqual(shell_code(plain.code), shell_code(other.code))
        if host == "launcher":
            self.assertEqual(plain.err, other.err[:len(plain.err)])
        else:
            self.assertEqual(plain.code, other.code)
            self.assertEqual(plain.err, other.err)


class SkipReporter(unittest.TextTestResult):
    """Prints every skipped test on a line that scripts/test.sh counts."""

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.stream.write(f"\nSKIPPED: {test.id()}: {reason}\n")


def main(at_once=1):
    """`at_once`: for files whose tests mostly wait. So many of them run beside each other, in processes of their own."""
    for name, path in (("DLHOOK_TEST_DLHOOK", DLHOOK), ("DLHOOK_TEST_SHIM", SHIM),
                       ("DLHOOK_TEST_VICTIMS", VICTIMS)):
        if not os.path.exists(path):
            sys.exit(f"{name} is not set to something that exists; run this through ctest or see tests/README.md")
    if at_once > 1 and len(sys.argv) == 1:
        sys.exit(run_at_once(at_once))
    # The victims inherit neither: the same from a shell and from ctest.
    unittest.main(testRunner=unittest.TextTestRunner(verbosity=2, resultclass=SkipReporter))


def run_at_once(number):
    """The exit code of all tests of the program."""
    def names(suite):
        return [name for one in suite for name in (names(one) if isinstance(one, unittest.TestSuite) else [one.id()])]

    def tested(name):
        argv = [sys.executable, "-B", sys.argv[0], name.removeprefix("__main__.")]
        result = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        print(result.stdout.decode(errors="replace"), flush=True)
        return result.returncode

    all_names = names(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]))
    with concurrent.futures.ThreadPoolExecutor(number) as pool:
        return max(pool.map(tested, all_names))
