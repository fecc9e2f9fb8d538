"""libdlhook.so keeps its promises to the processes it is loaded into (docs/design.md, "Rules of the shim"): exports are
exactly the hooked names, unversioned; NEEDED is libc; TLS is initial-exec and small; no C++ runtime; an old enough
glibc suffices."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

SHIM = os.environ["DLHOOK_SHIM"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
NEWEST_GLIBC = (2, 34)
# Exported beside the tables' names: link/dlsym.*, sample/, process/, base/other_loaders.S, taps, CUPTI.
BY_HAND = set("""
dlsym dlvsym dladdr dladdr1 dlclose getenv unshare setns _exit _Exit fork pthread_create sigaction signal stdin __libc_start_main
printf __printf_chk fflush dnnl_set_verbose mkldnn_set_verbose _ZN5torch7verbose19_mkldnn_set_verboseEi
InitializeInjection InitializeInjectionNvtx2
_ZN3tsl8profiler15TraceMeRecorder6RecordEONS1_5EventE _ZN3tsl8profiler15TraceMeRecorder4StopEv
_ZN3tsl8profiler15TraceMeRecorder5StartEi _ZN3tsl8profiler15TraceMeRecorder5StartEim _ZN3tsl8profiler15TraceMeRecorder5StartEimb
_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE
_ZN2at14RecordFunction6beforeESt7variantIJSt17basic_string_viewIcSt11char_traitsIcEESt17reference_wrapperIKN3c1014FunctionSchemaEEEEl
_ZN2at14RecordFunction6beforeESt17reference_wrapperIKN3c1014FunctionSchemaEEl _ZN2at14RecordFunction6beforeEPKcl
_ZN2at14RecordFunction6beforeENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEl _ZN2at14RecordFunction6beforeESsl
_ZN3c109alloc_cpuEm _ZN3c108free_cpuEPv _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
""".split())


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
        tables = sorted(map(str, (ROOT / "preload/api").glob("*.api")))
        hooks = run(sys.executable, "-B", str(ROOT / "scripts/gen_hooks.py"), "--list", *tables).splitlines()
        cupti = re.findall(r"^  X\((\w+),", (ROOT / "preload/gpu/cupti_hooks.cc").read_text(), re.M)
        wanted = {line.split()[0] for line in hooks} | BY_HAND | set(cupti)
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
