"""`dlhook doctor`: its report on a program agrees with a run of it, and every way to bypass dlhook is found.

Witness: the calls in the trace of an ordinary `dlhook run` of the same command.
"""

import glob
import json
import os
import shutil
import sys
import unittest

import e2e


class Case(e2e.Case):
    def setUp(self):
        super().setUp()
        self.scratch = os.path.join(self.folder, "scratch")
        self.here = os.path.join(self.folder, "here")
        os.mkdir(self.scratch)
        os.mkdir(self.here)

    def doctor(self, *words, **extra):
        """Runs `dlhook doctor WORDS`; it must leave nothing behind but a run, if something was recorded."""
        for run in getattr(self, "runs", []):
            shutil.rmtree(run)
        result = e2e.run([e2e.DLHOOK, "doctor", *words], cwd=self.here,
                         env=e2e.clean_environment(TMPDIR=self.scratch, **extra))
        self.runs = [os.path.join(self.here, name) for name in os.listdir(self.here)]
        self.assertEqual(os.listdir(self.scratch) + self.rings() + self.runs[1:], [])
        return result

    def rings(self):
        """Rings of runs in the test's folder (their header names the trace) whose process has ended. Others come and go
        meanwhile."""
        ours = []
        for path in glob.glob("/dev/shm/dlhook-*"):
            try:
                with open(path, "rb") as file:
                    is_ours = self.folder.encode() in file.read(1 << 16)
                if is_ours and not os.path.exists(f"/proc/{path.split('-')[2]}"):
                    ours.append(path)
            except OSError:
                continue
        return ours

    def report(self, argv, *flags, **extra):
        result = self.doctor("--format", "json", *flags, "--", *argv, **extra)
        report = json.loads(result.out)
        self.assertEqual(result.code, 1 if report["warnings_and_problems"] else 0, result.err)
        self.stderr = result.err
        # True for everything here: no victim reports layers, hardly one computes long enough. WhoComputes tests these.
        program = report["program"]
        self.assertEqual([program["run"]] if program["run"] else [], self.runs)
        self.assertEqual(bool(program["run"]), bool(program["recorded"]))
        self.general = {finding["id"]: finding for finding in program["findings"]
                        if finding["id"] in ("no-layer-names", "cpu-time")}
        program["findings"] = [finding for finding in program["findings"] if finding["id"] not in self.general]
        return program

    def findings(self, argv, *flags, **extra):
        """{id: level}"""
        return {finding["id"]: finding["level"] for finding in self.report(argv, *flags, **extra)["findings"]}

    @staticmethod
    def library(program, name):
        (found,) = [library for library in program["libraries"] if os.path.basename(library["path"]).startswith(name)]
        return found

    @staticmethod
    def states(program):
        return {os.path.basename(library["path"]): library["state"] for library in program["libraries"]}


def host(mode, *plugins):
    return [e2e.victim("plugin_host"), mode, *(e2e.library("plugin_" + plugin) for plugin in plugins)]


class Machine(Case):
    def test_text(self):
        result = self.doctor()
        self.assertIn(result.code, (0, 1))
        self.assertEqual(result.err, b"")
        lines = result.out.decode().splitlines()
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertIn("ok       version:", result.out.decode())

    def test_json(self):
        machine = {check["id"]: check for check in json.loads(self.doctor("--format=json").out)["machine"]}
        for check in ("shim", "version", "clock", "rings", "preloaders", "confinement", "gpu", "counters"):
            self.assertIn(check, machine)
        self.assertEqual((machine["shim"]["level"], machine["version"]["level"]), ("ok", "ok"))
        self.assertEqual(machine["shim"]["subject"], os.path.realpath(e2e.SHIM))

    def test_clock_is_the_shims_own(self):
        trace = self.recorded("launcher", [e2e.victim("nested"), "5"]).trace()
        kind = e2e.one(e2e.one(trace.header, "clock"), "kind")
        machine = {check["id"]: check for check in json.loads(self.doctor("--format=json").out)["machine"]}
        self.assertEqual("time-stamp" in machine["clock"]["text"], kind == "TSC")

    def installed(self):
        """A copy of dlhook in its installed form: bin/dlhook, lib/libdlhook.so."""
        for folder, file in (("bin", e2e.DLHOOK), ("lib", e2e.SHIM)):
            os.makedirs(os.path.join(self.folder, "prefix", folder))
            shutil.copy(file, os.path.join(self.folder, "prefix", folder))
        return os.path.join(self.folder, "prefix")

    def broken(self, prefix):
        result = e2e.run([os.path.join(prefix, "bin", "dlhook"), "doctor", "--format=json"], cwd=self.here)
        (shim,) = [check for check in json.loads(result.out)["machine"] if check["id"] == "shim"]
        self.assertEqual((result.code, shim["level"]), (1, "problem"), shim)
        self.assertTrue(shim["advice"])
        return shim["text"]

    def test_shim_is_gone(self):
        prefix = self.installed()
        os.remove(os.path.join(prefix, "lib", "libdlhook.so"))
        self.assertIn("libdlhook.so is not there", self.broken(prefix))

    def test_shim_is_another_file(self):
        prefix = self.installed()
        with open(os.path.join(prefix, "lib", "libdlhook.so"), "wb") as file:
            file.write(b"no library")
        self.assertIn("did not load it", self.broken(prefix))

    def test_others_are_preloaded(self):
        result = self.doctor("--format=json", LD_PRELOAD=e2e.library("preloader"))
        machine = {check["id"]: check for check in json.loads(result.out)["machine"]}
        self.assertEqual(machine["preloaders"]["level"], "note")
        self.assertIn("preloader", machine["preloaders"]["text"])


class Seen(Case):
    """Programs that are recorded completely."""

    def compare_with_run(self, argv, **extra):
        """Library by library and in total, the trial recorded the same as a run. Returns the doctor's report."""
        program = self.report(argv, **extra)
        self.fresh_run()
        self.under("launcher", argv, **extra)
        traces = e2e.Run(self.run_path).traces()
        calls = sum(len(trace.calls) for trace in traces)
        self.assertGreater(calls, 0)
        self.assertEqual(sum(program["recorded"].values()), calls)
        hooked = {library["path"] for library in program["libraries"] if library["recorded_calls"]}
        self.assertEqual(hooked, {os.path.realpath(e2e.one(mapping, "path")) for trace in traces
                                  for mapping in trace.mappings if e2e.one(mapping, "role") == "LIBRARY"})
        self.assertEqual(sum(library["recorded_calls"] or 0 for library in program["libraries"]), calls)
        return program

    def test_linked(self):
        program = self.compare_with_run([e2e.victim("linked"), "2", "3"])
        openblas = self.library(program, "libopenblas")
        self.assertEqual((openblas["state"], openblas["recorded_calls"]), ("hooked", 24))
        self.assertEqual(self.states(program)["victim_linked"], "caller")
        self.assertEqual(program["end"], "exit code 3")

    def test_looked_up(self):
        program = self.compare_with_run([e2e.victim("opened"), "5"])
        self.assertEqual(self.library(program, "libopenblas")["state"], "hooked")

    def test_rpath_and_runpath(self):
        for name in ("nested", "nested_rpath"):
            program = self.compare_with_run([e2e.victim(name), "5"])
            self.assertEqual(self.states(program)["libvictim_nested_blas.so"], "hooked", name)
            self.assertEqual(program["findings"], [], name)

    def test_plugin(self):
        program = self.compare_with_run(host("local", "plain"))
        self.assertEqual(program["findings"], [])
        self.assertEqual(self.library(program, "libvictim_plugin_plain")["bound_to_dlhook"], 1)

    def test_own_functions(self):
        program = self.compare_with_run(host("local", "own"))
        self.assertEqual(self.states(program), {"libvictim_plugin_own.so": "hooked"})
        self.assertEqual(program["findings"], [])

    def test_children(self):
        """Two processes under a shell, one of which runs another program in its place."""
        linked = e2e.victim("linked")
        program = self.compare_with_run(["/bin/sh", "-c", f"{linked} 1 2; exec {linked} 1 3"])
        self.assertEqual((program["processes_looked_into"], program["processes_recorded"]), (2, 2))
        self.assertEqual(program["recorded"], {"blas": 15, "blas2": 5})

    def test_leaves_by_exit_without_destructors(self):
        script = ("import ctypes, os; blas = ctypes.CDLL('libopenblas.so.0'); a = (ctypes.c_double * 4)(1, 1, 1, 1); "
                  "blas.cblas_dgemv(102, 111, 2, 2, ctypes.c_double(1), a, 2, a, 1, ctypes.c_double(0), "
                  "(ctypes.c_double * 2)(), 1); os._exit(0)")
        program = self.compare_with_run(["python3", "-c", script])
        self.assertEqual(self.library(program, "libopenblas")["state"], "hooked")

    def test_tapped(self):
        program = self.report([e2e.victim("onednn"), "3"])
        dnnl = self.library(program, "libdnnl")
        self.assertEqual(dnnl["state"], "tapped", dnnl)
        self.assertEqual([(tap["name"], tap["state"]) for tap in dnnl["taps"]], [("onednn-tap", "on")])
        self.assertGreater(program["recorded"]["onednn"], 0)

    def test_tap_is_off(self):
        findings = self.findings([e2e.victim("onednn"), "3"], DLHOOK_ONEDNN="off")
        self.assertEqual(findings, {"onednn-tap-off": "note", "no-calls": "problem"})


class WhoComputes(Case):
    """CPU time by library. A checksum of zeros computes in sha256sum or its libcrypto."""

    def test_share(self):
        script = "head -c 400000000 /dev/zero | sha256sum"
        program = self.report(["/bin/sh", "-c", script])
        found = {finding["id"]: finding for finding in program["findings"]}
        self.assertIn("% in others", self.general["cpu-time"]["text"])
        self.assertNotIn("no-layer-names", self.general)
        self.assertRegex(os.path.basename(found["computes-unseen"]["subject"]), "^(sha256sum|libcrypto)")
        heaviest = program["cpu_time"][0]
        self.assertEqual((heaviest["path"], heaviest["kind"]), (found["computes-unseen"]["subject"], "unseen"))
        self.assertGreater(heaviest["samples"], sum(entry["samples"] for entry in program["cpu_time"]) / 2)

    def test_layers_have_no_names(self):
        self.report([e2e.victim("nested"), "5"])
        self.assertEqual(self.general["no-layer-names"]["level"], "note")

    def test_python(self):
        program = self.report([sys.executable, "-c", "sum(i * i for i in range(12_000_000))"])
        self.assertEqual(program["cpu_time"][0]["kind"], "python")


class NotSeen(Case):
    """Every way to bypass dlhook. Each is reported, and a run confirms it."""

    def past(self, argv, **findings):
        expected = {name.replace("_", "-"): level for name, level in findings.items()}
        self.assertEqual(self.findings(argv), expected)

    def unrecorded(self, argv):
        self.fresh_run()
        self.under("launcher", argv)
        self.assertEqual(e2e.Run(self.run_path).files(), [])

    def test_deepbind(self):
        for plugin in ("plain", "own"):
            self.unrecorded(host("deepbind", plugin))
            self.past(host("deepbind", plugin), deepbind="warning", no_calls="problem")
        for mode in ("deepbind", "namespace"):
            library = self.library(self.report(host(mode, "plain")), "libvictim_plugin_plain")
            self.assertEqual((library["state"], library["bound_past_dlhook"]), ("not seen", ["sgemm_"]), mode)

    def test_deepbind_beside_a_plain_plugin(self):
        """A part of the program is recorded, another is not."""
        program = self.report(host("deepbind", "plain") + host("local", "own")[2:])
        self.assertEqual({finding["subject"] for finding in program["findings"] if finding["id"] == "deepbind"}
                         & {e2e.library("plugin_plain"), e2e.library("plugin_own")},
                         {e2e.library("plugin_plain"), e2e.library("plugin_own")})

    def test_namespace(self):
        self.unrecorded(host("namespace", "plain"))
        self.past(host("namespace", "plain"), other_namespace="warning", no_calls="problem")

    def test_executable_definition(self):
        argv = [e2e.victim("plugin_host_gemm"), *host("local", "plain")[1:]]
        self.unrecorded(argv)
        self.past(argv, executable_definition="warning", no_calls="problem")

    def test_weak_reference(self):
        argv = host("local", "weak")
        self.assertEqual(e2e.run(argv).out, b"no sgemm_\n")
        self.past(argv, weak_reference="warning", no_calls="problem")
        self.assertEqual(self.stderr, b"sgemm_ is there\n")  # its own output

    def test_weak_reference_with_a_library(self):
        """Another library defines it: as without dlhook."""
        self.assertNotIn("weak-reference", self.findings(host("local", "weak", "plain")))

    def test_symbolic(self):
        for plugin in ("symbolic", "protected"):
            self.unrecorded(host("local", plugin))
            self.past(host("local", plugin), symbolic="warning", no_calls="problem")

    def test_preloader_behind(self):
        argv = ["/bin/sh", "-c", f"{e2e.victim('linked')} 1 3; exit 0"]
        program = self.report(argv, LD_PRELOAD=e2e.library("preloader"))
        self.assertEqual([finding["id"] for finding in program["findings"]], ["preloader-chained"])
        self.assertEqual(program["recorded"], {"blas": 9, "blas2": 3})  # each once

    def test_preloader_before(self):
        before = f"LD_PRELOAD={e2e.library('preloader')}:$LD_PRELOAD"
        argv = ["/bin/sh", "-c", f"{before} {e2e.victim('linked')} 1 3; exit 0"]
        program = self.report(argv)
        past = {os.path.basename(finding["subject"]): finding["level"] for finding in program["findings"]
                if finding["id"] == "other-preloader"}
        self.assertEqual(past.get("victim_linked"), "warning", program["findings"])

    def test_environment_cleared(self):
        argv = ["/usr/bin/env", "-i", e2e.victim("nested"), "5"]
        self.unrecorded(argv)
        self.past(argv, environment_cleared="warning", no_calls="problem")

    def test_static(self):
        self.past([e2e.victim("static")], static_binary="problem")

    def test_static_child(self):
        findings = self.findings(["/bin/sh", "-c", f"{e2e.victim('nested')} 5; {e2e.victim('static')}; exit 0"])
        self.assertEqual(findings, {"static-binary": "note"})

    @unittest.skipUnless(os.geteuid() == 0, "needs root to make a program of another user set-uid")
    def test_set_uid(self):
        path = os.path.join(self.folder, "set-uid")
        shutil.copy(e2e.victim("nested"), path)
        os.chmod(self.folder, 0o755)
        os.chown(path, 65534, 65534)
        os.chmod(path, 0o4755)
        self.past([path, "5"], set_uid="problem")

    def test_other_architecture(self):
        path = os.path.join(self.folder, "other")
        with open(e2e.victim("nested"), "rb") as file:
            image = bytearray(file.read())
        image[18:20] = (183).to_bytes(2, "little")  # e_machine: AArch64
        with open(path, "wb") as file:
            file.write(image)
        os.chmod(path, 0o755)
        self.past([path], other_architecture="problem")

    def test_program_fails(self):
        self.past(["/bin/sh", "-c", f"{e2e.victim('nested')} 5; kill -9 $$"], program_failed="warning")

    def test_nothing_to_see(self):
        self.past(["/bin/true"], no_calls="problem")


class Refused(Case):
    def refused(self, *words):
        result = self.doctor("--", *words)
        self.assertEqual((result.code, result.out, self.runs), (2, b"", []))
        self.assertLessEqual(result.err.count(b"\n"), 1)
        return result.err.decode()

    def test_no_such_program(self):
        self.assertIn("/no/such/program", self.refused("/no/such/program"))
        self.assertIn("no-such-program", self.refused("no-such-program"))

    def test_not_executable(self):
        path = os.path.join(self.folder, "plain-file")
        with open(path, "w", encoding="ascii") as file:
            file.write("#!/no/such/interpreter\n")
        self.assertIn("not executable", self.refused(path))
        os.chmod(path, 0o755)
        self.assertIn("/no/such/interpreter", self.refused(path))

    def test_bad_flags(self):
        for words in (["--format", "xml"], ["--seconds", "0"], ["--seconds", "soon"], ["--no-such-flag"]):
            result = self.doctor(*words)
            self.assertEqual((result.code, result.out), (2, b""), words)


class Behaviour(Case):
    """The program behaves as without the doctor."""

    def test_output_and_code(self):
        for argv in ([e2e.victim("linked"), "1", "2"], [e2e.victim("nested"), "5"],
                     ["/bin/sh", "-c", "echo hello; exit 7"]):
            plain = e2e.run(argv)
            program = self.report(argv)
            self.assertEqual(program["end"], f"exit code {plain.code}")
            self.assertEqual(sorted(self.stderr.splitlines()), sorted((plain.out + plain.err).splitlines()))

    def test_signals(self):
        script = ("trap 'echo got it' USR1; kill -USR1 $$; (sleep 0.2; kill -CONT $$) & kill -STOP $$; wait; "
                  "(trap '' TERM; kill -TERM $(exec sh -c 'echo $PPID'); echo ignored); kill -SEGV $$")
        self.assertEqual(e2e.shell_code(e2e.run(["/bin/sh", "-c", script]).code), 139)
        program = self.report(["/bin/sh", "-c", script])
        self.assertEqual(program["end"], "signal 11")
        self.assertEqual(self.stderr, b"got it\nignored\n")

    def test_standard_input(self):
        result = e2e.run([e2e.DLHOOK, "doctor", "--format=json", "--", "/bin/cat"], stdin=b"some\nlines\n")
        self.assertEqual(result.err, b"some\nlines\n")

    def test_threads_and_forks(self):
        program = self.report(["python3", "-c", "import threading, subprocess as s\n"
                               "def f(): s.check_call(['/bin/true'])\n"
                               "t = [threading.Thread(target=f) for _ in range(8)]\n"
                               "[x.start() for x in t]; [x.join() for x in t]; print('all')"])
        self.assertEqual((program["end"], program["processes_looked_into"], self.stderr), ("exit code 0", 9, b"all\n"))

    def test_seconds(self):
        """Ended with all processes that it started, and still reported."""
        mark = f"sleep 98{os.getpid()}"
        program = self.report(["/bin/sh", "-c", f"{e2e.victim('nested')} 5; {mark} & {mark}"], "--seconds", "2")
        self.assertTrue(program["end"].startswith("by dlhook doctor after 2 s"), program["end"])
        self.assertEqual(self.states(program)["libvictim_nested_blas.so"], "hooked")
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                with open(path, "rb") as file:
                    self.assertNotEqual(file.read().replace(b"\0", b" ").strip(), mark.encode())
            except OSError:
                continue  # it has ended

    def test_its_recording_is_a_run(self):
        program = self.report([e2e.victim("linked"), "1", "2"])
        calls = sum(len(trace.calls) for trace in e2e.Run(program["run"]).traces())
        self.assertEqual(calls, sum(program["recorded"].values()))
        text = self.doctor("--", e2e.victim("linked"), "1", "2").out.decode()
        self.assertIn(f"next: dlhook report {self.runs[0]}", text.replace("\n           ", " "))

    def test_threads_that_a_signal_ends(self):
        """The look at their process is not replaced by one at what is left of it."""
        spin = "import threading\ndef f():\n  while True: pass\n[threading.Thread(target=f).start() for _ in range(8)]; f()"
        program = self.report([sys.executable, "-c", spin], "--seconds", "1")
        self.assertEqual([finding["id"] for finding in program["findings"]], ["no-calls"])
        self.assertEqual(program["processes_looked_into"], 1)
        self.assertEqual([time for time in program["cpu_time"] if time["path"] == "" and time["samples"] > 3], [])

    def test_the_first_thread_ends_first(self):
        """What is loaded after that is found by another thread."""
        script = ("import ctypes, os, threading, time\n"
                  f"def f(): time.sleep(0.3); ctypes.CDLL({e2e.library('nested_blas')!r}); os._exit(0)\n"
                  "threading.Thread(target=f).start(); ctypes.CDLL(None).syscall(60, 0)")
        program = self.report([sys.executable, "-c", script])
        self.assertEqual(self.states(program)["libvictim_nested_blas.so"], "not called")

    def test_what_the_program_leaves_running(self):
        """It continues, and is not stopped after being traced."""
        done = os.path.join(self.folder, "done")
        self.report(["/bin/sh", "-c", f"(sleep 1; echo > {done}) >/dev/null 2>&1 & {e2e.victim('nested')} 5"])
        e2e.run(["/bin/sh", "-c", f"for i in 1 2 3 4 5 6 7 8 9 10; do test -e {done} && exit; sleep 1; done"])
        self.assertTrue(os.path.exists(done))


if __name__ == "__main__":
    e2e.main()
