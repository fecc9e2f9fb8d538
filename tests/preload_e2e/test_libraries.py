"""Several libraries that define the same names: each caller must get its own (docs/design.md, "The real function")."""

import collections
import re

import e2e
from test_stacks import TraceWithStacks


class OwnFunctions(e2e.Case):
    def check(self, libraries, expected_line):
        argv = [e2e.victim("two_libraries"), "20", *[e2e.library(name) for name in libraries]]
        plain = e2e.run(argv)
        self.assertEqual(plain.out.decode().splitlines()[:len(libraries)], expected_line)
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.fresh_run()
                self.assert_same_behaviour(plain, self.under(host, argv), host)
        return e2e.Run(self.run_path)

    def test_two_local_libraries(self):
        run = self.check(["own_a", "own_b"], ["0: 1024.0 1210.5", "1: 2024.0 2210.5"])
        self.assert_problems(run.trace().calls, {("sgemm_", 2, 3, 4, "NT"): 40, ("sgemm_64_", 5, 6, 7, "TN"): 40})

    def test_callers_are_told_apart(self):
        argv = [e2e.victim("two_libraries"), "20", e2e.library("own_a"), e2e.library("own_b")]
        (trace,) = self.recorded("writer", argv, DLHOOK_STACKS="native").traces(TraceWithStacks)
        callers = collections.Counter(stack[0][0] for stack in trace.stack_of.values())
        self.assertEqual(sorted(callers.values()), [20] * 4)
        mapped = [(e2e.one(m, "start"), e2e.one(m, "end"), e2e.one(m, "path")) for m in trace.mappings
                  if e2e.one(m, "role") == "CALLER"]
        owners = {path for address in callers for start, end, path in mapped if start <= address < end}
        self.assertEqual(owners, {e2e.library("own_a"), e2e.library("own_b")})

    def test_64_bit_integers_under_the_32_bit_name(self):
        # The ILP64 copy passes pointers to 64-bit sizes: it must get its own function. Reading its sizes through the
        # 32-bit table entry is no crash and no wrong call, and the low halves are right.
        self.check(["own_a", "own_ilp64", "own_b"],
                   ["0: 1024.0 1210.5", self.ilp64_line(), "2: 2024.0 2210.5"])

    def ilp64_line(self):
        out = e2e.run([e2e.victim("two_libraries"), "1", e2e.library("own_ilp64")]).out.decode()
        self.assertTrue(out.startswith("0: 3024.0 3210.5"))
        return "1" + out.splitlines()[0][1:]


class Entries(e2e.Case):
    """preload/base/entry.h: a wrapper reads what a thunk left in r10 before it calls anything, and never uses r10 itself."""

    def test_register_is_read_first(self):
        code = e2e.run(["objdump", "-d", "--no-show-raw-insn", e2e.SHIM]).out.decode()
        bodies = re.findall(r"^[0-9a-f]+ <(dlhook_body_\w+)>:\n((?:.+\n)+)", code, re.M)
        self.assertGreater(len(bodies), 3000)
        for name, text in bodies:
            first = re.search(r".*(?:%r10|\bcall\b).*", text)
            self.assertRegex(first[0] if first else "", r"mov +%r10,", name)
            self.assertEqual(len(re.findall(r"%r10", text)), 1, name)


class WeakReferences(e2e.Case):
    """mpi4py asks by weak references which functions the MPI library has, and calls those."""

    def test_what_nobody_defines_is_absent(self):
        for plugin in ("asks", "asks_lazily"):
            argv = [e2e.victim("plugin_host"), "local", e2e.library(f"plugin_{plugin}")]
            plain = e2e.run(argv)
            self.assertEqual((plain.code, plain.out), (0, b"asked\n"))
            for host in e2e.HOSTS:
                with self.subTest(plugin=plugin, host=host):
                    self.fresh_run()
                    self.assert_same_behaviour(plain, self.under(host, argv), host)
                    self.assert_problems(e2e.Run(self.run_path).trace().calls, {("cblas_sgemm", 2, 3, 4, "NT"): 1})

    def test_what_a_library_defines_is_there(self):
        argv = [e2e.victim("plugin_host"), "local", e2e.library("plugin_asks")]
        plain = e2e.run(argv, env=e2e.clean_environment(LD_PRELOAD=e2e.library("own_a")))
        self.assertEqual((plain.code, plain.out), (0, b"sgemm_ is there\nasked\n"))
        found = e2e.run(argv, env=e2e.clean_environment(LD_PRELOAD=f"{e2e.SHIM}:{e2e.library('own_a')}", DLHOOK_OUT=self.run_path))
        self.assert_same_behaviour(plain, found, "preloaded")

    def test_what_lies_beside_the_object_is_there(self):
        argv = [e2e.victim("plugin_host"), "local", e2e.library("plugin_group")]
        plain = e2e.run(argv)
        self.assertEqual((plain.code, plain.out), (0, b"sgemm_ is there\nasked\n"))
        self.assert_same_behaviour(plain, self.under("launcher", argv), "launcher")


class Reload(e2e.Case):
    def test_another_plugin_at_the_same_address(self):
        argv = [e2e.victim("reload"), "25", e2e.library("own_a"), e2e.library("own_b")]
        plain = e2e.run(argv)
        self.assertEqual(plain.code, 0, "the loader did not reuse the address: the test proves nothing")
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.fresh_run()
                self.assert_same_behaviour(plain, self.under(host, argv), host)
                self.assert_problems(e2e.Run(self.run_path).trace().calls, {("sgemm_", 2, 3, 4, "NT"): 50})


if __name__ == "__main__":
    e2e.main()
