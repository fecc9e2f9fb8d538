"""dlhook top: a run that grows, hangs, is killed, is cut off; on a pseudo-terminal that is resized and left as it was."""

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time

import e2e

PATIENCE = 120  # seconds until a test gives up waiting for what must come
ENTER, LEAVE, HOME = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[H"


class Terminal:
    """A program on a pseudo-terminal of its own."""

    def __init__(self, argv, width=100, height=30, cwd=None):
        self.ours, self.theirs = pty.openpty()
        self.resize(width, height)
        self.before = termios.tcgetattr(self.theirs)
        self.text = b""
        self.process = subprocess.Popen(
            argv, stdin=self.theirs, stdout=self.theirs, stderr=self.theirs, cwd=cwd, start_new_session=True,
            env=e2e.clean_environment(TERM="xterm-256color", LC_ALL="C.UTF-8"),
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, width, height):
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def read(self, seconds=0.1):
        if select.select([self.ours], [], [], seconds)[0]:
            self.text += os.read(self.ours, 1 << 16)

    def frames(self):
        """What whole screens show, without control sequences."""
        return [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n", re.sub(r"\x1b\[[0-9;]*m", "", frame.decode(errors="replace")))
                for frame in self.text.split(HOME)[1:-1]]

    def wait_for(self, words, after=0):
        """The first screen from number `after` on with these words."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for frame in self.frames()[after:]:
                if words in frame:
                    return frame
            self.read()
        raise AssertionError(f"{words!r} did not come:\n{self.text[-3000:].decode(errors='replace')}")

    def press(self, key):
        os.write(self.ours, key)

    def ends(self):
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < end:
            self.read()
        self.read()
        return self.process.wait(1)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)


class Top(e2e.Case):
    def start(self):
        run = self.fresh_run()
        process = e2e.start([e2e.DLHOOK, "run", "-o", run, "--", e2e.victim("stepwise")])
        self.addCleanup(lambda: (process.kill(), process.communicate()))
        return run, process

    def calls(self, process, number):
        process.stdin.write(b"%d\n" % number)
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), b"%d done\n" % number)

    def once(self, run, code=0):
        result = e2e.run([e2e.DLHOOK, "top", run, "--once"])
        self.assertEqual(result.code, code, result.err)
        return (result.out + result.err).decode()

    def pid_of(self, run):
        return int(re.search(r"-(\d+)\.dlh", " ".join(os.listdir(run))).group(1))

    def test_grows_hangs_and_is_killed(self):
        run, process = self.start()
        self.calls(process, 100)
        e2e.until_top_says(run, " 100 calls and ranges recorded")
        self.calls(process, 50)
        e2e.until_top_says(run, " 150 calls and ranges recorded")
        text = e2e.until_top_says(run, "but the program is alive")
        self.assertRegex(text, r"process \d+, thread \d+ sleeps.*: last cblas_sgemm \(gemm\), .* ago")
        os.kill(self.pid_of(run), signal.SIGKILL)
        e2e.until_top_says(run, "The process was killed")
        self.assertIn("150 calls", self.once(run))

    def test_hangs_in_a_call(self):
        text = self.hanging([e2e.victim("hangs")])
        self.assertRegex(text, r"thread \d+ sleeps.*: in cblas_sgemm for [\d.]+ s\. Stack: .*pause < Sleep < cblas_sgemm < .*main")
        self.assertIn(" 1 calls and ranges recorded", text)

    def test_ends(self):
        run, process = self.start()
        self.calls(process, 100)
        process.communicate()
        self.assertIn("The process has ended.", self.once(run))

    def test_is_cut_off_anywhere(self):
        run, process = self.start()
        self.calls(process, 500)
        process.communicate()
        name = [name for name in os.listdir(run) if name.endswith(".dlh")][0]
        with open(os.path.join(run, name), "rb") as file:
            whole = file.read()
        cut = self.fresh_run()
        os.mkdir(cut)
        for size in range(0, len(whole), max(1, len(whole) // 15)):
            for rest in (b"", b"\x0a", b"garbage"):
                with open(os.path.join(cut, name), "wb") as file:
                    file.write(whole[:size] + rest)
                result = e2e.run([e2e.DLHOOK, "top", cut, "--once"])
                self.assertIn(result.code, (0, 2), result.err)
                told = re.search(rb"(\d+) calls and", result.out)
                self.assertLessEqual(int(told.group(1)) if told else 0, 500)

    def test_words(self):
        self.assertIn("no such file or folder", self.once("/nonexistent/run", 2))
        result = e2e.run([e2e.DLHOOK, "top", "/nonexistent/run"])
        self.assertEqual(result.code, 2)
        self.assertIn(b"needs a terminal", result.err)

    def test_terminal(self):
        """Shown before there is a run, while it grows, in a window that gets smaller, after it was removed and replaced."""
        run = self.fresh_run()
        terminal = Terminal([e2e.DLHOOK, "top", run])
        self.addCleanup(terminal.close)
        terminal.wait_for("Waiting for it")
        process = e2e.start([e2e.DLHOOK, "run", "-o", run, "--", e2e.victim("stepwise")])
        self.addCleanup(lambda: (process.kill(), process.communicate()))
        self.calls(process, 100)
        terminal.wait_for("100 calls and ranges")
        seen = len(terminal.frames())
        terminal.resize(60, 12)
        self.calls(process, 20)
        terminal.wait_for("120 calls and ranges", seen)
        frame = terminal.wait_for("120 calls and ranges", len(terminal.frames()))
        lines = [line for line in frame.replace("\r", "").split("\n") if line]
        self.assertLessEqual(len(lines), 12)
        self.assertLessEqual(max(len(line) for line in lines), 60)
        self.assertFalse(termios.tcgetattr(terminal.theirs)[3] & termios.ECHO)
        process.communicate()
        terminal.wait_for("the run is over")
        shutil.rmtree(run)
        terminal.wait_for("Waiting for it", len(terminal.frames()))
        terminal.press(b"q")
        self.assertEqual(terminal.ends(), 0)
        self.assertEqual(termios.tcgetattr(terminal.theirs), terminal.before)
        self.assertEqual((terminal.text.count(ENTER), terminal.text.count(LEAVE)), (1, 1))

    def test_starts_a_program(self):
        """Its output does not disturb the screen, and its exit code is top's."""
        terminal = Terminal([e2e.DLHOOK, "top", "--", "sh", "-c", "echo loud; exit 3"], cwd=self.folder)
        self.addCleanup(terminal.close)
        terminal.wait_for("has ended with exit code 3")
        terminal.press(b"q")
        self.assertEqual(terminal.ends(), 3)
        self.assertNotIn(b"loud", terminal.text)
        folder, = [name for name in os.listdir(self.folder) if name.startswith("dlhook-sh-")]
        with open(os.path.join(self.folder, folder, "output.txt"), encoding="utf-8") as file:
            self.assertIn("loud", file.read())

    def test_starts_a_program_into_a_named_folder(self):
        run = self.fresh_run()
        terminal = Terminal([e2e.DLHOOK, "top", "-o", run, "--", "sh", "-c", f"echo 5 | {e2e.victim('stepwise')}"])
        self.addCleanup(terminal.close)
        terminal.wait_for("has ended with exit code 0")
        terminal.press(b"q")
        self.assertEqual(terminal.ends(), 0)
        self.assertIn("output.txt", os.listdir(run))
        self.assertTrue([name for name in os.listdir(run) if name.endswith(".dlh")])
        again = Terminal([e2e.DLHOOK, "top", "-o", run, "--", "true"])
        self.addCleanup(again.close)
        again.wait_for(f"{run}-2")
        again.press(b"q")
        again.ends()
        self.assertIn("output.txt", os.listdir(f"{run}-2"))
        without = e2e.run([e2e.DLHOOK, "top", "-o", run, "--once"])
        self.assertEqual(without.code, 2)
        self.assertIn(b"comes after --", without.err)

    def test_ctrl_c_and_signals_restore_the_terminal(self):
        for how in (lambda t: t.press(b"\x03"), lambda t: t.process.send_signal(signal.SIGTERM)):
            run, process = self.start()
            self.calls(process, 10)
            terminal = Terminal([e2e.DLHOOK, "top", run])
            self.addCleanup(terminal.close)
            terminal.wait_for("10 calls and ranges")
            how(terminal)
            terminal.ends()
            self.assertEqual(termios.tcgetattr(terminal.theirs), terminal.before)
            self.assertEqual(terminal.text.count(LEAVE), 1)
            self.assertIsNone(process.poll(), "the program goes on")


if __name__ == "__main__":
    e2e.main(at_once=4)
