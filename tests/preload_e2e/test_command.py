"""Command lines of `dlhook`: exit codes and one sentence each."""

import os
import shutil
import signal
import struct
import unittest

import e2e


class RunCommand(e2e.Case):
    def refused(self, argv, code, *words):
        result = e2e.run([e2e.DLHOOK, "run", "-o", self.run_path, "--", *argv], cwd=self.folder)
        self.assertEqual(result.code, code, result.err.decode())
        self.assertEqual(result.out, b"")
        error = result.err.decode()
        for word in words:
            self.assertIn(word, error)
        self.assertLessEqual(error.count("\n"), 2, error)
        self.assertFalse(os.path.exists(self.run_path) and os.listdir(self.run_path))

    def test_not_found(self):
        self.refused(["/no/such/program"], 127, "/no/such/program")
        self.refused(["no-such-program-in-the-path"], 127, "no-such-program-in-the-path")

    def test_not_executable(self):
        path = os.path.join(self.folder, "plain-file")
        with open(path, "w", encoding="ascii") as file:
            file.write("text")
        self.refused([path], 126, path)
        self.refused([self.folder], 126, self.folder)

    def test_static(self):
        self.refused([e2e.victim("static")], 2, "static")

    @unittest.skipUnless(os.geteuid() == 0, "needs root to make a program of another user set-uid")
    def test_set_uid(self):
        path = os.path.join(self.folder, "set-uid")
        shutil.copy("/bin/true", path)
        os.chmod(self.folder, 0o755)
        os.chown(path, 65534, 65534)
        os.chmod(path, 0o4755)
        self.refused([path], 2, "set-uid")
        os.chown(path, 0, 65534)
        os.chmod(path, 0o2755)
        self.refused([path], 2, "set-gid")

    @unittest.skipUnless(os.geteuid() == 0, "needs root to give a program capabilities")
    def test_capabilities(self):
        path = os.path.join(self.folder, "capable")
        shutil.copy("/bin/true", path)
        os.chmod(path, 0o755)
        os.chmod(self.folder, 0o777)
        try:  # cap_net_raw, like ping: VFS_CAP_REVISION_2 with the effective bit, permitted, inheritable
            os.setxattr(path, "security.capability", struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0))
        except OSError as error:
            self.skipTest(f"no file capabilities here: {error.strerror}")
        nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        command = [e2e.DLHOOK, "run", "-o", self.run_path, "--", path]
        result = e2e.run([*nobody, *command], cwd=self.folder)
        self.assertEqual((result.code, result.out), (2, b""), result.err)
        self.assertIn("capabilities", result.err.decode())
        # Root gains nothing from them, and no user does under no_new_privs.
        for who in ([], [*nobody, "--no-new-privs"]):
            result = e2e.run([*who, *command], cwd=self.folder)
            self.assertEqual(result.code, 0, result.err)
            shutil.rmtree(self.run_path)

    def test_the_variable_names_the_folder_as_the_option_does(self):
        command = [e2e.DLHOOK, "run", "--", e2e.victim("nested"), "5"]
        env = e2e.clean_environment(DLHOOK_OUT="named")
        result = e2e.run(command, env=env, cwd=self.folder)
        self.assertEqual(result.code, 0, result.err.decode())
        self.assertTrue([name for name in os.listdir(os.path.join(self.folder, "named")) if name.endswith(".dlh")])
        again = e2e.run(command, env=env, cwd=self.folder)
        self.assertEqual(again.code, 0)
        named = os.path.join(self.folder, "named")
        self.assertIn(f"DLHOOK_OUT={named} holds a run already, so this one goes to {named}-2\n", again.err.decode())
        self.assertIn(f"next: dlhook report {named}-2\n", again.err.decode())
        # Inside of another `dlhook run` the variable belongs to that one: the inner one has its own folder.
        inner = e2e.run([e2e.DLHOOK, "run", "-o", "outer", "--", "/bin/sh", "-c", " ".join(command)],
                        env=e2e.clean_environment(), cwd=self.folder)
        self.assertEqual(inner.code, 0, inner.err.decode())

    def test_a_second_run(self):
        def run(*flags):
            result = e2e.run([e2e.DLHOOK, "run", *flags, "--", e2e.victim("nested"), "5"], cwd=self.folder)
            self.assertEqual(result.code, 0, result.err.decode())

        def traces():
            return {folder: sorted(set(os.listdir(os.path.join(self.folder, folder))) - {"dlhook.run", "kept"})
                    for folder in os.listdir(self.folder)}

        run("-o", "a/")
        run("-o", "a/")
        run("-o", "a")
        before = traces()
        self.assertEqual({folder: len(names) for folder, names in before.items()}, {"a": 1, "a-2": 1, "a-3": 1})
        os.close(os.open(os.path.join(self.folder, "a-2", "kept"), os.O_CREAT))
        run("-o", "a-2", "--replace")
        after = traces()
        self.assertEqual(set(after), set(before))
        self.assertEqual([folder for folder in before if before[folder] != after[folder]], ["a-2"])
        self.assertTrue(os.path.exists(os.path.join(self.folder, "a-2", "kept")))

    def test_two_runs_of_one_script(self):
        """They are of one process group, as ranks that a script starts are: one run, unless the second is to replace the first."""
        for flag, count in (("", 2), ("--replace", 1)):
            name = f"a{flag}"
            script = f"for i in 1 2; do {e2e.DLHOOK} run {flag} -o {name} -- {e2e.victim('nested')} 5 || exit 1; done"
            result = e2e.run(["/bin/sh", "-c", script], cwd=self.folder)
            self.assertEqual(result.code, 0, result.err.decode())
            traces = [file for file in os.listdir(os.path.join(self.folder, name)) if file.endswith(".dlh")]
            self.assertEqual(len(traces), count, traces)

    def test_how_it_failed(self):
        for script, end in (("exit 3", "ended with code 3"), ("kill -9 $$", "was ended by signal 9 (Killed)")):
            with self.subTest(script):
                run = self.fresh_run()
                said = e2e.run([e2e.DLHOOK, "run", "-o", run, "--", "sh", "-c", script]).err.decode()
                self.assertEqual(said, f"dlhook: the program {end} before any recorded call, so nothing was recorded\n")
                said = e2e.run([e2e.DLHOOK, "report", run]).err.decode()
                self.assertEqual(said, f"dlhook: report: {run}: its program, sh, {end} before any recorded call, so nothing was recorded\n")
                run = self.fresh_run()
                said = e2e.run([e2e.DLHOOK, "run", "-o", run, "--", "sh", "-c", f"{e2e.victim('nested')} 5; {script}"]).err.decode()
                self.assertIn(f"; the program {end}; next: dlhook report {run}\n", said)
                base = self.fresh_run()
                e2e.run([e2e.DLHOOK, "run", "-o", base, "--", e2e.victim("nested"), "5"])
                said = e2e.run([e2e.DLHOOK, "diff", base, run]).out.decode()
                self.assertIn(f"verdict: NEW {end}, behind ", " ".join(said.split()))

    def test_containers(self):
        path = os.path.join(self.folder, "docker")
        shutil.copy(e2e.victim("static"), path)
        self.refused([path, "run", "image"], 2, "statically linked", "runs in a container", "docs/launchers.md")
        shutil.copy("/bin/true", path)
        said = e2e.run([e2e.DLHOOK, "run", "-o", self.run_path, "--", path, "run", "image"]).err.decode()
        self.assertIn("runs in a container", said)

    def test_variables_and_flags_are_checked(self):
        def said(*flags, **variables):
            result = e2e.run([e2e.DLHOOK, "run", "-o", self.run_path, *flags, "--", "echo", "started"], cwd=self.folder,
                             env=e2e.clean_environment(**variables))
            self.assertEqual((result.code, result.out), (2, b""), (flags, variables))
            self.assertFalse(os.path.exists(self.run_path))
            return result.err.decode()

        self.assertIn("DLHOOK_STACK is not a variable of dlhook; did you mean DLHOOK_STACKS?", said(DLHOOK_STACK="all"))
        for name, value, words in (("stacks", "yes", "off, native or all"), ("sample", "fast", "whole number"),
                                   ("capture", "blas,blass", "did you mean blas?"), ("capture", "-nvtxx", "did you mean nvtx?"),
                                   ("counters", "cyles", "did you mean cycles?"), ("gpu", "cuptii", "did you mean cupti?"),
                                   ("budget", "200", "from 0.01% to 100%"), ("ring-kib", "many", "whole number"), ("verbose", "yes", "1")):
            variable = f"DLHOOK_{name.upper().replace('-', '_')}"
            self.assertRegex(said(**{variable: value}), rf"run: {variable}=\S+ is not understood, expected .*{words}")
            self.assertRegex(said(f"--{name}={value}"), rf"run: --{name}=\S+ is not understood, expected .*{words}")
        self.assertIn("did you mean --stacks?", said("--stack", "all"))
        # A flag counts more than the variable, which is then not read.
        result = e2e.run([e2e.DLHOOK, "run", "-o", self.run_path, "--stacks", "all", "--memory=off", "--", "sh", "-c",
                          "echo $DLHOOK_STACKS $DLHOOK_MEMORY"], env=e2e.clean_environment(DLHOOK_STACKS="yes"))
        self.assertEqual((result.code, result.out), (0, b"all off\n"))

    def test_the_report_tells_what_the_shim_did_not_understand(self):
        for variables, words in (({"DLHOOK_STACKS": "yes"}, "DLHOOK_STACKS=yes is not understood, expected off, native or all"),
                                 ({"DLHOOK_STACK": "all"}, "DLHOOK_STACK is not a variable of dlhook")):
            run = self.fresh_run()
            result = e2e.run([e2e.victim("nested"), "5"], env=e2e.clean_environment(LD_PRELOAD=e2e.SHIM, DLHOOK_OUT=run, **variables))
            self.assertEqual((result.code, result.err), (0, b""))
            told = [row["note"] for row in e2e.Run(run).table("capabilities") if row["name"] == "variables"]
            self.assertEqual(told, [words])
            self.assertIn(f"refused: variables: {words.split(',')[0]}", " ".join(e2e.run([e2e.DLHOOK, "report", run]).out.decode().split()))

    def test_script_without_calls(self):
        path = os.path.join(self.folder, "script")
        with open(path, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\necho hello\n")
        os.chmod(path, 0o700)
        result = e2e.run([e2e.DLHOOK, "run", "-o", self.run_path, "--", path, "SECRET"])
        with open(os.path.join(self.run_path, "dlhook.run"), encoding="ascii") as file:
            self.assertNotIn("SECRET", file.read())
        self.assertEqual((result.code, result.out), (0, b"hello\n"))
        # The run reports it, and does not block the next.
        for command in ("report", "dump"):
            said = e2e.run([e2e.DLHOOK, command, self.run_path])
            self.assertEqual((said.code, said.out), (2, b""))
            self.assertIn(f"made no call that dlhook sees, so nothing was recorded; why: dlhook doctor -- {path} ...; "
                          f"whose code computes: dlhook run --sample -- {path} ...", said.err.decode())
        self.assertEqual(len(self.recorded("launcher", [e2e.victim("nested"), "5"]).traces()), 1)

    def test_no_program(self):
        result = e2e.run([e2e.DLHOOK, "run", "--"])
        self.assertEqual((result.code, result.out), (2, b""))
        self.assertTrue(result.err)

    def test_program_codes_pass(self):
        for code in (0, 1, 2, 126, 127, 255):
            result = e2e.run([e2e.DLHOOK, "run", "-o", self.fresh_run(), "--", "/bin/sh", "-c", f"exit {code}"])
            self.assertEqual(result.code, code)

    def test_summary_is_on_stderr(self):
        result = self.under("launcher", [e2e.victim("nested"), "5"])
        self.assertEqual(result.out, e2e.run([e2e.victim("nested"), "5"]).out)
        self.assertIn(self.run_path.encode(), result.err)


class OtherCommands(e2e.Case):
    def bad(self, *argv):
        result = e2e.run([e2e.DLHOOK, *argv], cwd=self.folder)
        self.assertEqual(result.code, 2, (argv, result))
        self.assertEqual(result.out, b"", argv)
        self.assertTrue(result.err.strip(), argv)
        return result.err.decode()

    def test_usage(self):
        self.bad()
        self.bad("no-such-command")
        self.bad("report")
        self.assertIn("no-such-run", self.bad("report", "no-such-run"))
        self.assertIn("no-such-run", self.bad("dump", "no-such-run"))

    def test_empty_words(self):
        for command in (["report", ""], ["export", ""], ["dump", ""], ["diff", "", "b"], ["scaling", "a", ""], ["import", ""],
                        ["ctl", "start", ""], ["run", "--", ""]):
            self.assertIn("found an empty word", self.bad(*command))
        for command in (["run", "-o", "", "true"], ["report", "--table="], ["report", "--html", ""], ["export", "run", "-o", ""]):
            self.assertIn("found an empty one", self.bad(*command))

    def test_report_options(self):
        run = self.recorded("launcher", [e2e.victim("nested"), "5"])
        self.assertIn("no-such-table", self.bad("report", run.path, "--table", "no-such-table"))
        self.bad("report", run.path, "--format", "no-such-format")
        self.bad("report", run.path, "--no-such-flag")
        self.bad("report", run.path, "--table", "ops", "--sort", "no-such-column")
        said = self.bad("report", run.path, "--sort", "tim")
        self.assertRegex(said, r"unknown column 'tim' to sort by; did you mean time\? Expected one of: .*time.*, \d+ others")
        self.assertLess(len(said), 500)
        text = e2e.run([e2e.DLHOOK, "report", run.path, "--table", "kernels,copies,layers"]).out.decode()
        self.assertEqual(text.count("(no rows)"), text.count("No GPU work was recorded") + text.count("No layers were found"), text)
        self.assertIn(b"<html", e2e.run([e2e.DLHOOK, "report", run.path, "--html", "-"], cwd=self.folder).out)
        self.assertEqual([name for name in os.listdir(self.folder) if name == "-"], [])
        self.bad("report", run.path, "--limit", "many")
        report = run.report("--table", "all")
        self.assertEqual(set(report) & {"tables", "run"}, {"tables", "run"})
        for table in report["tables"]:
            self.assertTrue(all(len(row) == len(table["columns"]) for row in table["rows"]), table["name"])
            self.assertTrue(table["rows"] or table["notes"], table["name"])  # why there are none
        names = [table["name"] for table in report["tables"]]
        for name in ("summary", "ops", "algorithms", "layout", "gemm", "steps"):
            self.assertIn(name, names)

    def test_without_proc(self):
        result = e2e.run(["unshare", "-m", "sh", "-c", f"mount -t tmpfs none /proc && exec {e2e.DLHOOK} run -o RUN -- true"])
        if b"dlhook: " not in result.err:
            self.skipTest("no right to mount")
        self.assertIn(b"/proc is not mounted here", result.err)

    def test_help(self):
        for argv in (["--help"], ["run", "--help"], ["report", "--help"]):
            result = e2e.run([e2e.DLHOOK, *argv])
            self.assertEqual(result.code, 0, argv)
            self.assertTrue(result.out)
            self.assertNotRegex(result.out.decode(), r"(?m)^  --\S+ \S*[;,]( |$)")  # values without what follows them


class End(e2e.Case):
    """The end of a program does not wait for its answer."""

    PROGRAM = [e2e.victim("last_thread"), "main_leaves"]  # two calls, exit code 3

    def setUp(self):
        super().setUp()
        self.mark = os.path.join(self.folder, "mark")
        self.env = e2e.clean_environment(LD_PRELOAD=e2e.library("slow_fork"), SLOW_FORK=self.mark)
        self.command = [e2e.DLHOOK, "run", "-o", self.run_path, "--", *self.PROGRAM]

    def check(self, code, error, why):
        self.assertEqual(code, 3, error)
        self.assertEqual(error.decode(), f"dlhook: the analysis {why}; the program ended with code 3; "
                         f"next: dlhook report {self.run_path}\n")
        self.assertEqual(e2e.Run(self.run_path).trace().known_count(), 2)

    def test_limit(self):
        result = e2e.run(self.command, env=self.env, cwd=self.folder)
        self.check(result.code, result.err, "takes longer than 2 s")

    def test_signals(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(signal=number):
                process = e2e.start(self.command, env=self.env, cwd=self.folder)
                while not os.path.exists(self.mark):
                    self.assertIsNone(process.poll())
                process.send_signal(number)
                error = process.communicate(timeout=60)[1]
                self.check(process.returncode, error, "was ended by a signal")
                os.remove(self.mark)
                shutil.rmtree(self.run_path)

    def test_no_file_may_have_a_byte(self):
        command = f"(ulimit -f 0; exec {e2e.DLHOOK} run -o {self.run_path} -- {' '.join(self.PROGRAM)}) 2>&1 | cat"
        out = e2e.run(["/bin/sh", "-c", command]).out.decode()
        self.assertIn("0 calls recorded; files may have at most 0 bytes here (ulimit -f); the program ended with code 3; next", out)
        self.assertIn("or could write nothing (a full disk; ulimit -f)",
                      e2e.run([e2e.DLHOOK, "report", self.run_path]).err.decode())


if __name__ == "__main__":
    e2e.main()
