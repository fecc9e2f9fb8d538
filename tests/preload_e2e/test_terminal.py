"""Output on terminals only: colour, and lines of the terminal's width. A pseudo-terminal is the witness."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import unicodedata

import e2e

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def columns_of(line):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def on_terminal(argv, width=80, **extra):
    """The output of argv on a terminal of that width, both of its streams."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = e2e.clean_environment(**{"TERM": "xterm-256color", **extra})
    environment.pop("NO_COLOR", None)
    environment.update({name: value for name, value in extra.items() if name == "NO_COLOR"})
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        text = b""
        while True:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # Linux: the other side was closed
                piece = b""
            if not piece:
                break
            text += piece
        process.wait(60)
    os.close(ours)
    return text.decode().replace("\r\n", "\n")


class Terminal(e2e.Case):
    def setUp(self):
        super().setUp()
        self.recorded("launcher", [e2e.victim("nested"), "50"])
        self.argv = [e2e.DLHOOK, "report", self.run_path]

    def plain(self, width=80):
        result = e2e.run(self.argv, env=e2e.clean_environment(COLUMNS=width))
        self.assertEqual(result.code, 0, result.err)
        return result.out.decode()

    def test_colour_only_there(self):
        self.assertNotRegex(self.plain(), "\x1b")
        text = on_terminal(self.argv)
        self.assertRegex(text, ESCAPE)
        self.assertEqual(ESCAPE.sub("", text), self.plain(), "colour changes no width")

    def test_colour_can_be_declined(self):
        self.assertNotRegex(on_terminal(self.argv, NO_COLOR="1"), "\x1b")
        self.assertRegex(on_terminal(self.argv, NO_COLOR=""), "\x1b")  # no-color.org: only if not empty
        self.assertNotRegex(on_terminal(self.argv, TERM="dumb"), "\x1b")
        self.assertNotRegex(on_terminal([*self.argv, "--color", "never"]), "\x1b")
        self.assertRegex(on_terminal([*self.argv, "--color", "always"], NO_COLOR="1"), "\x1b")
        self.assertNotRegex(on_terminal([*self.argv, "--format", "csv"]), "\x1b")
        self.assertNotRegex(on_terminal([*self.argv, "--format", "json"]), "\x1b")

    def test_lines_fit(self):
        for width in (60, 80, 120, 200):
            text = on_terminal(self.argv, width)
            self.assertEqual(ESCAPE.sub("", text), self.plain(width))
            for line in ESCAPE.sub("", text).split("\n"):
                self.assertLessEqual(columns_of(line), width, line)
        self.assertGreater(max(columns_of(line) for line in self.plain(200).split("\n")), 80)

    def test_summary_of_a_run(self):
        """The summary goes to stderr: it depends on whether that is a terminal."""
        text = on_terminal(self.command("launcher", [e2e.victim("nested"), "5"])[:2] +
                           ["-o", self.fresh_run(), "--", e2e.victim("nested"), "5"])
        self.assertRegex(text, ESCAPE)
        result = self.under("launcher", [e2e.victim("nested"), "5"])
        self.assertNotIn(b"\x1b", result.out + result.err)

    def test_glossary(self):
        argv = [e2e.DLHOOK, "report", "--explain", "all"]
        plain = e2e.run(argv).out.decode()
        self.assertNotRegex(plain, "\x1b")
        self.assertEqual(ESCAPE.sub("", on_terminal(argv)), plain)
        for line in plain.split("\n"):
            self.assertLessEqual(columns_of(line), 80, line)


if __name__ == "__main__":
    e2e.main()
