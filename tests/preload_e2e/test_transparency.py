"""stdout, stderr and exit code of every victim are byte for byte the same as without dlhook."""

import os
import shutil
import sys

import e2e

V = e2e.victim


class Transparency(e2e.Case):
    def commands(self):
        own = [e2e.library(name) for name in ("own_a", "own_b", "own_ilp64")]
        yield "linked", [V("linked"), "2", "20"], b""
        yield "opened", [V("opened"), "20"], b""
        yield "probe", [V("probe"), "20"], b""
        yield "two libraries", [V("two_libraries"), "5", *own], b""
        yield "reload", [V("reload"), "5", *own[:2]], b""
        yield "nested", [V("nested"), "20"], b""
        yield "churn", [V("churn"), "100", "10", "2"], b""
        yield "another BLAS", [V("linked_blas"), "2", "20"], b""
        yield "products", [V("products"), "libopenblas.so.0"], b""
        yield "primitives", [V("primitives")], b""
        for release in "0123":
            yield f"older oneDNN {release}", [V("mkldnn_user"), release], b""
        yield "stepwise", [V("stepwise")], b"5\n7\n"
        for mode in ("none", "return", "abort", "segv", "kill", "term", "_exit", "quick_exit", "fork",
                     "fork_exit", "exec", "exec_other"):
            yield f"lifecycle {mode}", [V("lifecycle"), mode, "10"], b""
        if os.path.exists(V("lapack")):
            yield "lapack", [V("lapack")], b""
        yield "shell", ["/bin/sh", "-c", f"{V('nested')} 2; echo $?; cat; echo e >&2; exit 42"], b"in\n"
        yield "environment", ["/bin/sh", "-c", "env | grep -c ONEDNN; printf '%s %d\\n' word 7"], b""
        yield "python", [sys.executable, "-c", PYTHON], b"input"
        if shutil.which("bash"):
            yield "bash", ["bash", "-c", "x=$(printf '%05d' 42); echo $x $FOO; kill -9 $$"], b""

    def test_every_victim(self):
        for name, argv, stdin in self.commands():
            plain = e2e.run(argv, stdin=stdin)
            for host in e2e.HOSTS:
                with self.subTest(victim=name, host=host):
                    self.fresh_run()
                    self.assert_same_behaviour(plain, self.under(host, argv, stdin=stdin), host)

    def test_command_in_the_path_and_arguments_with_dashes(self):
        argv = ["echo", "-o", "x", "--", "--help"]
        self.assert_same_behaviour(e2e.run(argv), self.under("launcher", argv), "launcher")


PYTHON = """
import os, subprocess, sys, ctypes
sys.stdout.write(sys.stdin.read())
print(sorted(k for k in os.environ if 'DNNL' in k), flush=True)
child = os.fork()
if child == 0:
    os._exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
libc = ctypes.CDLL(None)
libc.printf(b"%s %d %.2f\\n", b"onednn_verbose,not really", 5, ctypes.c_double(1.5))
libc.printf(b"onednn_verbose,v1,primitive,exec,cpu,by hand\\n")
libc.fflush(None)
subprocess.run(["sh", "-c", "echo sub >&2"])
sys.exit(17)
"""

if __name__ == "__main__":
    e2e.main()
