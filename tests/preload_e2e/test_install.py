"""`cmake --install` into an empty prefix, used from there. The shim's dependencies are checked in tests/abi."""

import os
import re
import subprocess

import e2e

BUILD = os.environ.get("DLHOOK_TEST_BUILD", "")


class Installed(e2e.Case):
    def test_from_another_prefix(self):
        prefix = os.path.join(self.folder, "prefix")
        subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, capture_output=True)
        for path in ("bin/dlhook", "lib/libdlhook.so", "share/doc/dlhook/LICENSE", "share/man/man1/dlhook.1"):
            self.assertTrue(os.path.exists(os.path.join(prefix, path)), path)
        documents = os.path.join(prefix, "share", "doc", "dlhook")
        with open(os.path.join(documents, "README.md"), encoding="utf-8") as readme:
            links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", readme.read())
        self.assertIn("docs/README.md", links)
        for link in links:
            self.assertTrue(os.path.exists(os.path.join(documents, link)), link)
        moved = prefix + "-moved"  # the installation must be relocatable
        os.rename(prefix, moved)
        dlhook = os.path.join(moved, "bin", "dlhook")
        run_path = os.path.join(self.folder, "run")
        result = e2e.run([dlhook, "run", "-o", run_path, "--", e2e.victim("nested"), "6"])
        self.assertEqual(result.code, 0, result.err.decode())
        self.assertEqual(len(e2e.Run(run_path).trace().top_calls()), 6)
        # Without the launcher.
        self.fresh_run()
        env = e2e.clean_environment(LD_PRELOAD=os.path.join(moved, "lib", "libdlhook.so"), DLHOOK_OUT=self.run_path)
        self.assertEqual(e2e.run([e2e.victim("nested"), "6"], env=env).code, 0)
        self.assertEqual(len(e2e.Run(self.run_path).trace().top_calls()), 6)


if __name__ == "__main__":
    e2e.main()
