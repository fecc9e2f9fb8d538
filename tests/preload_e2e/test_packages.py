"""scripts/package.sh packs this build: layout; the same bytes twice; a wheel in a virtual environment, and what of it is left
behind; a tar.gz and a .deb, unpacked anywhere; the Python package in each. (That the product build's packages need only glibc
2.34 is checked by make_wheel.py.)"""

import base64
import glob
import hashlib
import os
import subprocess
import sys
import tarfile
import zipfile

import e2e
import exports

BUILD = os.environ.get("DLHOOK_TEST_BUILD", "")
PIP_PYTHON = os.environ.get("DLHOOK_TEST_EXPORTS_PYTHON", "")  # Debian's own python3 has no pip
PACKAGE = os.path.join(exports.ROOT, "scripts", "package.sh")


class Packages(e2e.Case):
    def packed(self, *kinds, folder="out"):
        """The files, in the order of `kinds`."""
        result = e2e.run([PACKAGE, "--from", BUILD, "--out", folder, *kinds], cwd=self.folder,
                         env=e2e.clean_environment(SOURCE_DATE_EPOCH=1700000000))
        self.assertEqual(result.code, 0, result.err.decode())
        paths = result.out.decode().split()
        for path in paths:
            self.assertLess(os.path.getsize(path), 12 << 20)
        return paths

    def digest(self, path):
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).digest()

    def check_command(self, dlhook, env=None):
        """It records and reports."""
        result = e2e.run([dlhook, "run", "-o", self.fresh_run(), "--", e2e.victim("nested"), "6"], env=env, cwd=self.folder)
        self.assertEqual(result.code, 0, result.err.decode())
        self.assertEqual(len(e2e.Run(self.run_path).trace().top_calls()), 6)

    def read_by(self, python, env):
        """What the module says about the run, and with which command."""
        code = "import dlhook, sys\nprint(len(dlhook.open(sys.argv[1]).read('ops')) > 0, dlhook.command_path())"
        said = e2e.run([python, "-B", "-c", code, self.run_path], env=env)
        self.assertEqual(said.err, b"")
        return said.out.decode().strip()

    def check_record(self, path):
        with zipfile.ZipFile(path) as wheel:
            names = wheel.namelist()
            (record,) = [name for name in names if name.endswith("/RECORD")]
            lines = [line.rsplit(",", 2) for line in wheel.read(record).decode().splitlines()]
            self.assertEqual([line[0] for line in lines], sorted(names, key=lambda name: (name == record, name)))
            for name, digest, size in lines[:-1]:
                data = wheel.read(name)
                expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                self.assertEqual((digest, int(size)), (f"sha256={expected}", len(data)))

    def files_in(self, folder):
        return {os.path.join(place, name) for place, _, names in os.walk(folder) for name in names
                if os.path.isfile(os.path.join(place, name))}

    def test_wheel(self):
        if not os.access(PIP_PYTHON, os.X_OK):
            self.skipTest("no virtual environment: run scripts/setup.sh --test")
        (wheel,) = self.packed("wheel")
        self.assertEqual(self.digest(wheel), self.digest(*self.packed("wheel", folder="again")))
        self.check_record(wheel)
        venv = os.path.join(self.folder, "venv")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        python = os.path.join(venv, "bin", "python")
        before = self.files_in(venv)

        def pip(*words):
            result = e2e.run([PIP_PYTHON, "-m", "pip", "--python", python, *words], env=e2e.clean_environment(PIP_NO_INDEX=1))
            self.assertEqual(result.code, 0, result.err.decode())

        pip("install", wheel)
        self.check_command(os.path.join(venv, "bin", "dlhook"))
        for path in ("man/man1/dlhook.1", "bash-completion/completions/dlhook", "zsh/vendor-completions/_dlhook",
                     "fish/vendor_completions.d/dlhook.fish"):
            self.assertTrue(os.path.exists(os.path.join(venv, "share", path)), path)
        env = e2e.clean_environment()
        env["PATH"] = "/usr/bin:/bin"  # the package finds the command that it came with
        self.assertEqual(self.read_by(python, env), f"True {venv}/bin/dlhook")
        said = e2e.run([python, "-m", "dlhook", "--version"], env=env)
        self.assertEqual(said.out, e2e.run([e2e.DLHOOK, "--version"]).out)
        pip("uninstall", "-y", "dlhook")
        self.assertEqual(self.files_in(venv) - before, set())

    def test_archives(self):
        archive, package = self.packed("tar", "deb")
        self.assertEqual([self.digest(path) for path in self.packed("tar", "deb", folder="again")],
                         [self.digest(archive), self.digest(package)])
        with tarfile.open(archive) as tar:
            self.assertEqual({(entry.uid, entry.gid, entry.mtime) for entry in tar}, {(0, 0, 1700000000)})
            tar.extractall(self.folder)
        (prefix,) = glob.glob(os.path.join(self.folder, "dlhook-*-linux-x86_64"))
        root = os.path.join(self.folder, "root")
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
        for place, man, module in ((prefix, "dlhook.1", "share/dlhook/python"),
                                   (os.path.join(root, "usr"), "dlhook.1.gz", "lib/python3/dist-packages")):
            self.check_command(os.path.join(place, "bin", "dlhook"))
            for path in (f"man/man1/{man}", "bash-completion/completions/dlhook", "zsh/vendor-completions/_dlhook",
                         "fish/vendor_completions.d/dlhook.fish", "doc/dlhook/README.md"):
                self.assertGreater(os.path.getsize(os.path.join(place, "share", path)), 100, path)
            env = e2e.clean_environment(PYTHONPATH=os.path.join(place, module), PATH=os.path.join(place, "bin") + ":/usr/bin:/bin")
            self.assertEqual(self.read_by(sys.executable, env), f"True {place}/bin/dlhook")
        control = e2e.run(["dpkg-deb", "-f", package, "Package", "Version", "Depends"]).out.decode()
        version = e2e.run([e2e.DLHOOK, "--version"]).out.decode().split()[1]
        self.assertIn(f"Package: dlhook\nVersion: {version}\n", control)
        self.assertIn("libc6 (>= 2.34)", control)
        control = os.path.join(self.folder, "control")
        subprocess.run(["dpkg-deb", "-e", package, control], check=True)
        self.assertEqual(e2e.run(["md5sum", "--quiet", "-c", os.path.join(control, "md5sums")], cwd=root).code, 0)
        # Debian's Python compiles the modules, and would leave that behind.
        commands = os.path.join(self.folder, "commands")
        os.mkdir(commands)
        for command in ("py3compile", "py3clean"):
            with open(os.path.join(commands, command), "w", encoding="utf-8") as file:
                os.fchmod(file.fileno(), 0o755)
                file.write(f'#!/bin/sh\necho {command} "$@"\n')
        for script, called in (("postinst", b"py3compile -p dlhook\n"), ("prerm", b"py3clean -p dlhook\n")):
            result = e2e.run([os.path.join(control, script), "configure"], env={"PATH": f"{commands}:/usr/bin:/bin"})
            self.assertEqual((result.code, result.out, result.err), (0, called, b""))


if __name__ == "__main__":
    e2e.main()
