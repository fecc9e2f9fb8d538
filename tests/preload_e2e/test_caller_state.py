"""State that a call must preserve: the pending dlerror(), errno, the floating-point environment. Every function that
the shim exports is called with a library in which all of them do nothing. And the loader's information about functions:
the same as without dlhook.
"""

import os
import re

import e2e

# Functions of the C library, which loader_errors calls, and entries of the shim that others call.
NOT_IN_A_LIBRARY = {"dlsym", "dlvsym", "dladdr", "dladdr1", "dlclose", "getenv", "printf", "__printf_chk", "fflush",
                    "unshare", "setns", "_exit", "_Exit", "pthread_create", "fork", "sigaction", "signal",
                    "InitializeInjection", "InitializeInjectionNvtx2", "stdin", "__libc_start_main"}

# Their decoders read arrays whose length is an argument: these arguments are all one address.
ARRAYS = re.compile(r"batch|grouped|^gemm_s", re.IGNORECASE)


def exported():
    lines = e2e.run(["nm", "-D", "--defined-only", e2e.SHIM]).out.decode().splitlines()
    return sorted(name for name in {line.split()[-1] for line in lines} - NOT_IN_A_LIBRARY if not ARRAYS.search(name))


class CallerState(e2e.Case):
    def check_under_all_hosts(self, argv, **variables):
        plain = e2e.run(argv, env=e2e.clean_environment(**variables))
        self.assertEqual(plain.code, 0, plain)
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.fresh_run()
                self.assert_same_behaviour(plain, self.under(host, argv, **variables), host)
        return plain

    def test_every_exported_function(self):
        names = exported()
        self.assertGreater(len(names), 1000)
        source = os.path.join(self.folder, "nothing.s")
        library = os.path.join(self.folder, "libnothing.so")
        with open(source, "w", encoding="utf-8") as file:
            for name in names:
                file.write(f".globl {name}\n.type {name}, @function\n{name}: xorl %eax, %eax\nret\n.size {name}, .-{name}\n")
            file.write('.section .note.GNU-stack,"",@progbits\n')
        built = e2e.run(["cc", "-shared", "-o", library, source])
        self.assertEqual(built.code, 0, built.err)
        for capture in ("all", "none"):
            plain = self.check_under_all_hosts([e2e.victim("caller_state"), library, *names], DLHOOK_CAPTURE=capture)
            self.assertEqual(plain.out.decode(), f"{len(names)} functions\n")

    def test_loader_errors(self):
        for library, symbol in ((e2e.library("tiny_blas"), "cblas_sgemm"), ("libblas.so.3", "sgemm_"), ("libdnnl.so.2", "sgemm_")):
            self.check_under_all_hosts([e2e.victim("loader_errors"), library, symbol])
        self.check_under_all_hosts([e2e.victim("loader_errors"), e2e.library("tiny_blas"), "sgemm_"], LD_BIND_NOW="1")

    def test_where_functions_come_from(self):
        """R's extSoftVersion() and others print their BLAS this way."""
        for library in ([], ["libopenblas.so.0"], [e2e.library("versioned_blas")]):
            plain = self.check_under_all_hosts([e2e.victim("where_from"), *library])
            self.assertEqual(plain.out.count(b"libvictim_tiny_blas.so"), 9 if library else 12, plain.out)


if __name__ == "__main__":
    e2e.main()
