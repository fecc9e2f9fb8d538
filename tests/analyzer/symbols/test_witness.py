#!/usr/bin/env python3
"""Compares names, inlined functions and lines with those of binutils' addr2line, on every byte of a small library and
on samples of a large one.

    test_witness.py NAME_ADDRESSES VICTIM

Also with the same library stripped, with its symbols in a separate file (debuglink), in .gnu_debugdata, on a debuginfod
server; replaced; truncated anywhere. Files are made with objcopy; tools that a machine lacks are skipped and reported.
"""
import glob
import http.server
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

NAME_ADDRESSES, VICTIM = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
# Suffixes added by compilers: binutils prefers DWARF's name.
CLONE = re.compile(r" \[clone [^]]*\]|\.(cold|part\.\d+|isra\.\d+|constprop\.\d+|localalias)")


def output(*command, stdin=None, env=None):
    return subprocess.run(command, input=stdin, stdout=subprocess.PIPE, check=True, text=True, env=env).stdout


def text_range(path):
    section = re.search(r"\] \.text\s+\S+\s+([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+)", output("readelf", "-SW", path))
    start, size = int(section[1], 16), int(section[2], 16)
    return range(start, start + size)


class Ours:
    """Frames of addresses as found by dlhook: address -> [(function, offset, file:line)], innermost first."""

    def __init__(self, path, addresses, *options, env=None):
        lines = "".join(f"{address:x}\n" for address in addresses)
        done = subprocess.run([NAME_ADDRESSES, *options, path], input=lines, capture_output=True, text=True,
                              errors="replace", timeout=120,
                              env={**os.environ, "DEBUGINFOD_URLS": "", **(env or {})})
        self.exit_code, self.messages = done.returncode, done.stderr
        self.frames = {}
        at = None
        for line in done.stdout.split("\n"):
            words = line.split("\t")
            if len(words) == 4:
                self.frames[at].append((words[1], int(words[2], 16), words[3]))
            elif re.fullmatch("[0-9a-f]+", line):  # names in damaged files may contain anything
                at = int(line, 16)
                self.frames[at] = []

    def function(self, address):
        frames = self.frames.get(address)
        return frames[-1][0] if frames else None


def addr2line(path, addresses):
    """address -> [(function, file:line)] from binutils."""
    questions = "".join(f"{address:x}\n" for address in addresses)
    lines = output("addr2line", "-aCfi", "-e", path, stdin=questions).splitlines()
    frames, i = {}, 0
    while i < len(lines):
        if re.fullmatch("0x[0-9a-f]+", lines[i]):
            at = int(lines[i], 16)
            frames[at] = []
            i += 1
        else:
            frames[at].append((lines[i], lines[i + 1].split(" (discriminator")[0]))
            i += 2
    return frames


def symbols_of(path):
    """name -> (start, size) of functions with a size, from nm."""
    found = {}
    for line in output("nm", "-S", path).splitlines():
        words = line.split()
        if len(words) == 4 and words[2] in "tTwW":
            found[words[3]] = (int(words[0], 16), int(words[1], 16))
    return found


def in_some_symbol(path):
    """A predicate: whether an address is in a symbol with a size. Elsewhere binutils uses the previous symbol."""
    ranges = sorted(symbols_of(path).values())
    covered = set()
    for start, size in ranges:
        covered.update(range(start, start + size))
    return covered.__contains__


def plain(function):
    return CLONE.sub("", function)


class Witness(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def file(self, name):
        return os.path.join(self.folder, name)

    def derived(self, name, *options, source=VICTIM):
        output("objcopy", *options, source, self.file(name))
        return self.file(name)

    def test_every_byte_of_the_victim(self):
        addresses = list(text_range(VICTIM))
        ours, theirs, covered = Ours(VICTIM, addresses), addr2line(VICTIM, addresses), in_some_symbol(VICTIM)
        compared = inlined = 0
        for address in addresses:
            if not covered(address):
                continue
            mine = [(plain(function), place) for function, _, place in ours.frames[address]]
            with_lines = theirs[address][0][1].rsplit(":", 1)[0] not in ("??", "crtstuff.c")
            if with_lines:
                self.assertEqual(mine, [(plain(function), place) for function, place in theirs[address]], hex(address))
                compared += 1
                inlined += len(mine) > 2
            else:
                self.assertEqual([function for function, _ in mine], [plain(theirs[address][0][0])], hex(address))
        self.assertGreater(compared, 500)
        self.assertGreater(inlined, 50)

    def test_offsets_and_ends(self):
        symbols = symbols_of(VICTIM)
        start, size = symbols["victim_with_size"]
        bare = int(re.search(r"([0-9a-f]+) T victim_without_size", output("nm", VICTIM))[1], 16)
        ours = Ours(VICTIM, [bare, bare + 2, start, start + 1, start + size])
        self.assertEqual([frames[-1][:2] if frames else None for frames in ours.frames.values()],
                         [("victim_without_size", 0), ("victim_without_size", 2),
                          ("victim_with_size", 0), ("victim_with_size", 1), None])

    def test_stripped_has_exported_names_only(self):
        start, _ = symbols_of(VICTIM)["VictimEntry"]
        hidden = next(at for name, (at, _) in symbols_of(VICTIM).items() if "Hidden" in name)
        ours = Ours(self.derived("stripped.so", "--strip-all"), [start + 4, hidden + 4])
        self.assertEqual(ours.frames, {start + 4: [("VictimEntry", 4, ":0")], hidden + 4: []})

    def check_same_as_victim(self, path, **more):
        addresses = [address for address in text_range(VICTIM)]
        self.assertEqual(Ours(path, addresses, **more).frames, Ours(VICTIM, addresses).frames)

    def test_debuglink(self):
        debug = self.derived("victim.debug", "--only-keep-debug")
        stripped = self.derived("linked.so", "--strip-all", f"--add-gnu-debuglink={debug}")
        self.check_same_as_victim(stripped)
        os.mkdir(self.file(".debug"))
        os.rename(debug, self.file(".debug/victim.debug"))
        self.check_same_as_victim(stripped)

    def test_gnu_debugdata(self):
        if shutil.which("xz") is None:
            print("SKIPPED: gnu_debugdata: no xz here", flush=True)
            return
        small = self.derived("small", "--strip-debug", "--only-keep-debug")
        output("xz", "-f", small)
        stripped = self.derived("stripped.so", "--strip-all", f"--add-section=.gnu_debugdata={small}.xz")
        text = text_range(VICTIM)
        addresses = [start + 1 for start, size in symbols_of(VICTIM).values() if size > 1 and start in text]
        ours, theirs = Ours(stripped, addresses), Ours(VICTIM, addresses)
        for address in addresses:
            self.assertEqual(ours.function(address), theirs.function(address))
        self.assertTrue(all(ours.function(address) for address in addresses))

    def test_debuginfod_only_when_asked_for(self):
        if not glob.glob("/usr/lib/*/libdebuginfod.so.1"):
            print("SKIPPED: debuginfod: no libdebuginfod here", flush=True)
            return
        asked = []
        with open(self.derived("victim.debug", "--only-keep-debug"), "rb") as file:
            debug = file.read()
        build_id = re.search("Build ID: ([0-9a-f]+)", output("readelf", "-n", VICTIM))[1]

        class Server(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                asked.append(self.path)
                found = self.path == f"/buildid/{build_id}/debuginfo"
                self.send_response(200 if found else 404)
                self.send_header("Content-Length", str(len(debug) if found else 0))
                self.end_headers()
                self.wfile.write(debug if found else b"")

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        stripped = self.derived("stripped.so", "--strip-all")
        hidden = next(start for name, (start, _) in symbols_of(VICTIM).items() if "Hidden" in name)
        options = ["--cache", self.file("cache")]
        self.assertIsNone(Ours(stripped, [hidden], *options).function(hidden))
        self.assertEqual(asked, [])
        env = {"DEBUGINFOD_URLS": f"http://127.0.0.1:{server.server_port}",
               "DEBUGINFOD_CACHE_PATH": self.file("client")}
        # Cache entries made without the server are not used any more.
        self.assertIn("Hidden", Ours(stripped, [hidden], *options, env=env).function(hidden))
        self.assertIn(f"/buildid/{build_id}/debuginfo", asked)

    def test_debug_information_that_appears_later(self):
        debug = self.derived("victim.debug", "--only-keep-debug")
        stripped = self.derived("linked.so", "--strip-all", f"--add-gnu-debuglink={debug}")
        os.rename(self.file("victim.debug"), self.file("away"))
        hidden = next(start for name, (start, _) in symbols_of(VICTIM).items() if "Hidden" in name)
        options = ["--cache", self.file("cache")]
        for _ in range(2):
            self.assertIsNone(Ours(stripped, [hidden], *options).function(hidden))
        os.rename(self.file("away"), self.file("victim.debug"))
        for _ in range(2):
            self.assertIn("Hidden", Ours(stripped, [hidden], *options).function(hidden))

    def test_cached_without_build_id_until_it_changes(self):
        path = self.derived("no_id.so", "--remove-section=.note.gnu.build-id")
        start, _ = symbols_of(VICTIM)["VictimEntry"]
        options = ["--cache", self.file("cache")]
        self.assertEqual(Ours(path, [start], *options).function(start), "VictimEntry")
        self.assertEqual([name[:5] for name in os.listdir(self.file("cache"))], ["path-"])
        os.replace(self.derived("other.so", "--redefine-sym=VictimEntry=VictimRenamed",
                                "--remove-section=.note.gnu.build-id"), path)
        self.assertEqual(Ours(path, [start], *options).function(start), "VictimRenamed")

    def test_another_build_is_refused(self):
        start, _ = symbols_of(VICTIM)["VictimEntry"]
        build_id = re.search("Build ID: ([0-9a-f]+)", output("readelf", "-n", VICTIM))[1]
        self.assertEqual(Ours(VICTIM, [start], "--build-id", build_id).function(start), "VictimEntry")
        other = "00" + build_id[2:]
        ours = Ours(VICTIM, [start], "--build-id", other)
        self.assertEqual((ours.exit_code, ours.frames), (1, {}))
        self.assertIn(f"its build-id is {build_id}, that of the run is {other}", ours.messages)
        stripped = self.derived("no_id.so", "--remove-section=.note.gnu.build-id")
        self.assertIn("it has no build-id", Ours(stripped, [start], "--build-id", build_id).messages)

    def test_cut_off_and_scribbled_over(self):
        with open(VICTIM, "rb") as file:
            whole = file.read()
        addresses = list(text_range(VICTIM))[::7]
        chance = random.Random(7)
        for i in range(60):
            damaged = bytearray(whole[:chance.randrange(len(whole))] if i % 2 else whole)
            for _ in range(chance.choice((0, 1, 8, 64))):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            with open(self.file("damaged.so"), "wb") as file:
                file.write(damaged)
            ours = Ours(self.file("damaged.so"), addresses)
            self.assertIn(ours.exit_code, (0, 1, -6, -7, -11), ours.messages)  # libdw may fail on it: isolated.h

    def check_large(self, path, count):
        """Compares `count` bytes of code with binutils; for bytes in no symbol binutils uses the previous one."""
        addresses = sorted(random.Random(7).sample(text_range(path), count))
        ours, theirs, covered = Ours(path, addresses), addr2line(path, addresses), in_some_symbol(path)
        compared = 0
        for address in addresses:
            if not covered(address):
                continue
            compared += 1
            mine = [plain(function) for function, _, _ in ours.frames[address]]
            self.assertEqual(mine, [plain(function) for function, _ in theirs[address]], hex(address))
        self.assertGreater(compared, count // 2)

    def test_python_with_dwarf(self):
        found = [path for path in glob.glob(os.path.expanduser("~/.pyenv/versions/3.1*/lib/libpython3.1?.so.1.0"))
                 if ".debug_info" in output("readelf", "-SW", path)]
        if not found:
            print("SKIPPED: python_with_dwarf: no Python built with -g here", flush=True)
            return
        self.check_large(found[0], 2000)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
