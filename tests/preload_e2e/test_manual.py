"""The man page, `dlhook help` and docs/environment.md agree: every command, flag, table, format and variable is in each
of them that should have it, and roff's own checkers have no complaint about the page."""

import os
import re
import shutil
import sys

import e2e

PAGE = ("docs", "environment.md")
ROOT = os.path.dirname(os.path.dirname(e2e.HERE))


def text_of(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def output(*words):
    result = e2e.run([e2e.DLHOOK, *words])
    assert result.code == 0, result
    return result.out.decode()


class Manual(e2e.Case):
    def setUp(self):
        super().setUp()
        self.roff = output("help", "--man")
        # As displayed: escapes resolved, fonts dropped.
        self.page = re.sub(r"\\f[BIR]|\\&", "", self.roff).replace("\\-", "-").replace("\\e", "\\")

    def test_has_what_the_help_has(self):
        commands = re.findall(r"^  (\w+) ", output("help").split("commands:\n")[1].split("\n\n")[0], re.MULTILINE)
        self.assertGreaterEqual(len(commands), 6)
        for command in commands[:-1]:  # the last one is help itself
            help_text = output("help", command)
            self.assertIn(f".SS dlhook {command}\n", self.page)
            flags = re.findall(r"--[a-z-]+", help_text.split("flags:\n")[1].split("examples:\n")[0])
            section = self.page.split(f".SS dlhook {command}\n")[1].split("\n.S")[0]
            for flag in set(flags) - {"--help"}:
                self.assertIn(f"{flag}", section, command)
            examples = help_text.split("examples:\n")[1].split("\n\n")[0]
            for example in re.findall(r"^  (\S.*)$", examples, re.MULTILINE):
                self.assertIn(example, self.page)
        report = output("report", self.run_of_a_victim(), "--table", "all", "--format", "json")
        for table in re.findall(r'"name": "(\w+)", "title"', report):
            self.assertRegex(self.page, rf"(?m)^ +{table} +\S")
        for name in ("text", "csv", "json"):
            self.assertRegex(self.page, rf"(?m)^ +{name} +\S")
        for code in ("0", "1", "2", "126", "127"):
            self.assertIn(f".TP\n{code}\n", self.page.split(".SH EXIT STATUS\n")[1])

    def run_of_a_victim(self):
        self.recorded("launcher", [e2e.victim("nested"), "3"])
        return self.run_path

    def test_completions_have_what_the_help_has(self):
        for command in re.findall(r"^\.SS dlhook (\w+)$", self.page, re.MULTILINE):
            flags = set(re.findall(r"--[a-z-]+", output("help", command).split("flags:\n")[1].split("examples:\n")[0]))
            told = {line.split("\t")[0] for line in output("help", "--complete", command, "-").splitlines()}
            self.assertEqual(flags - told, set(), command)

    def test_scripts_of_shells(self):
        for shell in ("bash", "zsh", "fish"):
            text = output("help", "--completion", shell)
            if shutil.which(shell):
                result = e2e.run([shell, "-n"], stdin=text.encode())
                self.assertEqual((result.code, result.err), (0, b""), shell)
            else:
                print(f"SKIPPED: test_manual.py: no {shell}")

    def test_bash_completes(self):
        text = output("help", "--completion", "bash")
        cases = {("dlhook", "repo"): ["report"], ("dlhook", "help", "var"): ["variables"], ("dlhook", "report", "--ta"): ["--table"],
                 ("dlhook", "report", "--limit", ""): [], ("dlhook", "report", "--table", "ops,lay"): ["ops,layers", "ops,layout"],
                 ("dlhook", "report", "--sort", "wall_s"): ["wall_share"], ("dlhook", "report", "--by", "ph"): ["phase"],
                 ("dlhook", "export", "RUN", "--format", "pp"): ["pprof"], ("dlhook", "diff", "A", "B", "--table", "algo"): ["algorithms"],
                 ("dlhook", "report", "--format", "=", "cs"): ["csv"], ("dlhook", "report", "--color", "="): ["auto", "always", "never"],
                 ("dlhook", "report", "--format=cs"): ["--format=csv"],  # as zsh and fish give it
                 ("dlhook", "run", "--stacks", "n"): ["native"], ("dlhook", "run", "--capture", "blas,one"): ["blas,onednn"],
                 ("dlhook", "run", "--", "python", "-"): [], ("dlhook", "report", ""): [],
                 ("dlhook", "report", ".", ""): [], ("dlhook", "report", "", "--ta"): ["--table"], ("dlhook", "report", "xo", ""): [],
                 ("dlhook", "run", "--sample", "--cap"): ["--capture"]}  # its value is optional
        path = os.path.dirname(e2e.DLHOOK) + ":" + os.environ["PATH"]
        for words, expected in cases.items():
            said = e2e.run(["bash", "-c", f"{text}COMP_WORDS=(\"$@\") COMP_CWORD={len(words) - 1}\n_dlhook\n"
                            'printf "%s\\n" "${COMPREPLY[@]}"', "bash", *words], env=e2e.clean_environment(PATH=path))
            self.assertEqual((said.out.decode().split(), said.err), (expected, b""), words)

    def test_is_good_roff(self):
        path = os.path.join(self.folder, "dlhook.1")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.roff)
        checkers = {"man": ["man", "--warnings", "-l", path], "groff": ["groff", "-man", "-ww", "-z", path],
                    "mandoc": ["mandoc", "-T", "lint", "-W", "warning", path]}
        found = [argv for name, argv in checkers.items() if shutil.which(name)]
        if not found:
            self.skipTest("no man, groff or mandoc")
        for argv in found:
            result = e2e.run(argv, env=e2e.clean_environment(MANPAGER="cat", LC_ALL="C.UTF-8"))
            words = result.err.decode() + (result.out.decode() if argv[0] == "mandoc" else "")
            self.assertEqual((result.code, words), (0, ""), argv)


def rows_of_the_page():
    """The table of docs/environment.md, from the lines from which the shim's reader and the help are generated."""
    lines = re.findall(r'^DLHOOK(?:_REPORT)?_VARIABLE\((".*?")\)\n(?=DLHOOK|\n)', text_of("preload", "format", "variables.inc"),
                       re.MULTILINE | re.DOTALL)
    rows = []
    for line in lines:
        name, *texts = re.findall(r'"((?:[^"]|"\s*")*)"(?=,|$)', line)
        cells = [re.sub(r'"\s*"', "", text) for text in texts]
        rows.append(f"| `{name}` | " + " | ".join(cells) + " |\n")
    return rows


def update_the_page():
    before, _, after = re.fullmatch(r"(.*?)((?:\| `DLHOOK_[^\n]*\n)+)(.*)", text_of(*PAGE), re.DOTALL).groups()
    with open(os.path.join(ROOT, *PAGE), "w", encoding="utf-8") as file:
        file.write(before + "".join(rows_of_the_page()) + after)


class Variables(e2e.Case):
    def told(self):
        """{name: (values, default, meaning)} of the help."""
        text = output("help", "variables")
        blocks = re.findall(r"^(DLHOOK_\w+)\n((?:    .*\n)+)", text, re.MULTILINE)
        told = {}
        for name, block in blocks:
            sentence = " ".join(line.strip() for line in block.splitlines())
            told[name] = re.fullmatch(r"(.*) values: (.*) \(default: (.*)\)", sentence).group(2, 3, 1)
        return told

    def test_the_page_has_the_same_table(self):
        table = rows_of_the_page()
        self.assertEqual(re.findall(r"^\| `DLHOOK_.*\n", text_of(*PAGE), re.MULTILINE), table, "test_manual.py --update writes it")
        plain = [row.replace("`", "")[2:-3].split(" | ") for row in table]
        self.assertEqual({name: (values, default, meaning) for name, values, default, meaning in plain}, self.told())

    def test_man_page_has_them(self):
        page = output("help", "--man").split(".SH ENVIRONMENT\n")[1]
        self.assertEqual(set(re.findall(r"^\\fB(DLHOOK_\w+)\\fR$", page, re.MULTILINE)), set(self.told()))

    def test_families_are_those_of_the_page(self):
        text = " ".join(output("help", "variables").split())
        families = re.search(r"Families: (.*?); off by default: (.*?)\.", text)
        names = set(families[1].split(", ")) | set(families[2].split(", "))
        page = text_of(*PAGE).split("\nFamilies: ")[1].split("\n\n")[0]
        self.assertLessEqual(names, set(re.findall(r"`(\w+)`", page)))
        off = page.split("Off by default: ")[1]
        self.assertLessEqual(set(families[2].split(", ")), set(re.findall(r"`(\w+)`", off)))


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        update_the_page()
    else:
        e2e.main()
