"""libdlhook.so keeps its promises to the processes it is loaded into (docs/design.md, "Rules of the shim"): exports are
exactly the hooked names, unversioned; NEEDED is libc; TLS is initial-exec and small; no C++ runtime; an old enough
glibc suffices."""

import os
import re
import subprocess
import unittest

SHIM = os.environ["DLHOOK_SHIM"]
EXPORTS_MAP = os.environ["DLHOOK_EXPORTS_MAP"]
NEWEST_GLIBC = (2, 34)


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def undefined_symbols():
    """(name, version or "", is weak) of each symbol that the shim imports."""
    symbols = []
    for line in run("nm", "-D", "--undefined-only", SHIM).splitlines():
        kind, name = line.split()[-2:]
        name, _, version = name.partition("@")
        symbols.append((name, version.lstrip("@"), kind in "wv"))
    return symbols


class ShimTest(unittest.TestCase):
    def test_exports_are_the_hooked_names(self):
        with open(EXPORTS_MAP, encoding="utf-8") as file:
            text = file.read()
        wanted = set(re.findall(r"^\s+(\w+);$", text.split("local:")[0], re.M))
        self.assertGreater(len(wanted), 900)
        exported = {line.split()[-1] for line in run("nm", "-D", "--defined-only", SHIM).splitlines()}
        self.assertEqual(exported, wanted)

    def test_names_for_musl_are_hidden_from_glibc(self):
        hidden = re.findall(r"GLOBAL HIDDEN +\d+ (\w+)$", run("readelf", "--dyn-syms", "-W", SHIM), re.M)
        self.assertEqual(set(hidden), {"stdin", "__libc_start_main"})

    def test_exports_have_no_version_node(self):
        # A named node silently disables hooks of versioned symbols (hooking.md 0.1).
        self.assertNotIn("@", run("nm", "-D", "--defined-only", "--with-symbol-versions", SHIM))

    def test_needs_libc_only(self):
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", SHIM))
        self.assertEqual(set(needed) - {"ld-linux-x86-64.so.2"}, {"libc.so.6"})

    def test_no_cxx_runtime(self):
        foreign = [name for name, _, weak in undefined_symbols() if name.startswith(("_Z", "__cxa", "__gxx"))
                   and name != "__cxa_finalize"]
        self.assertEqual(foreign, [])

    def test_calls_the_c_library_itself(self):
        """Functions are bound by preload/base/libc_functions.S, whatever comes first in the search order; only data is
        left to the loader. A new function must be added there."""
        data = {"__environ", "environ", "__progname", "__progname_full", "program_invocation_name",
                "program_invocation_short_name", "_r_debug", "stdout"}
        strong = {name for name, _, weak in undefined_symbols() if not weak}
        self.assertEqual(strong - data, {"closefrom"})  # only its version counts: preload/base/other_loaders.S
        weak = {name for name, _, weak in undefined_symbols() if weak}
        self.assertEqual(weak - {"_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__gmon_start__", "__cxa_finalize"}, set())

    def test_thread_local_storage_is_initial_exec_and_small(self):
        self.assertNotIn("__tls_get_addr", {name for name, _, _ in undefined_symbols()})
        self.assertIn("STATIC_TLS", run("readelf", "-dW", SHIM))
        sizes = re.findall(r"^\s+TLS\s+\S+\s+\S+\s+\S+\s+\S+\s+(0x[0-9a-f]+)", run("readelf", "-lW", SHIM), re.M)
        self.assertEqual(len(sizes), 1)
        self.assertLess(int(sizes[0], 16), 256)

    def test_glibc_floor(self):
        # All versions that the loader checks, including weak references.
        needed = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", run("readelf", "-VW", SHIM))
        self.assertEqual(max((int(major), int(minor)) for major, minor in needed), NEWEST_GLIBC)

    def test_calls_to_itself_go_through_no_other_library(self):
        # The table of wrappers must be RELATIVE relocations: a symbolic one could bind to another preload.
        relocations = run("readelf", "-rW", SHIM)
        self.assertNotRegex(relocations, r"R_X86_64_(64|GLOB_DAT|JUMP_SLO\w*) .*\b(sgemm_|cblas_sgemm)\b")


if __name__ == "__main__":
    unittest.main()
