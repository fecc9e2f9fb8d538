"""Who called a product: tables `callers` and `stacks` of PyTorch against the C library's backtrace() in the same call of
the same program (victims/who_asked.c), and NumPy's products by their lines."""

import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import frameworks  # pylint: disable=wrong-import-position
from frameworks import e2e  # pylint: disable=wrong-import-position

STEPS = 2
INTERPRETER = ("_Py", "Py")  # the interpreter's functions that dlhook leaves out
PLAIN_NAME = re.compile(r"[\w:~]+$")
WHITENED = os.path.join(HERE, "..", "..", "examples", "04_who_called_this_gemm", "whiten.py")


def plain(name):
    """Without arguments and templates, in simple cases: "" for lambdas, operators, conversions."""
    name = name.replace("(anonymous namespace)", "").split("(")[0]
    while re.search(r"<[^<>]*>", name):
        name = re.sub(r"<[^<>]*>", "", name)
    name = name.split(" ")[-1]
    return name if PLAIN_NAME.match(name) and "operator" not in name else ""


def witnessed(output):
    """The distinct stacks of products, innermost first, up to the interpreter: names known to the C library."""
    stacks = set()
    for block in re.findall(r"SYMBOLS begin\n(.*?)SYMBOLS end", output, re.DOTALL):
        names = [re.search(r"\(([^()+]*)\+?", line) for line in block.splitlines()]
        names = [match.group(1) if match else "" for match in names]
        ends = [i for i, name in enumerate(names) if name.startswith("_PyEval_EvalFrame")]
        stacks.add(tuple(names[:ends[0]] if ends else names))
    mangled = "\n".join("\n".join(stack) + "\n--" for stack in stacks)
    filtered = subprocess.run(["c++filt"], input=mangled, text=True, check=True, stdout=subprocess.PIPE).stdout
    named = ([plain(name) for name in stack.splitlines()] for stack in filtered.split("\n--")[:-1])
    return [[name for name in stack if name and not name.startswith(INTERPRETER)] for stack in named]


def recorded(stack):
    """From a cell of `stacks`: the native functions up to the first line of Python."""
    words = stack.split(" < ")[1:]
    python = [i for i, word in enumerate(words) if re.search(r"\.py:\d+\)$", word)]
    return [plain(word) for word in (words[:python[0]] if python else words)]


def is_within(part, whole):
    rest = iter(whole)
    return all(name in rest for name in part)


class Callers(frameworks.Case):
    def test_torch_against_backtrace(self):
        program = frameworks.program("linear", STEPS)
        plain_run = e2e.run(program, env=e2e.clean_environment(LD_PRELOAD=e2e.library("who_asked")))
        self.assertEqual(plain_run.code, 0)
        expected = witnessed(plain_run.err.decode())
        self.assertEqual(plain_run.err.count(b"SYMBOLS begin"), 3 * STEPS + 1)
        self.assertEqual(len(expected), 2)  # forward, backward
        run = self.recorded("writer", program, DLHOOK_STACKS="all")
        stacks = [recorded(row["stack"]) for row in run.table("stacks", "--only", "library") if row["stack"].startswith("sgemm_ < ")]
        for stack in expected:
            self.assertGreater(len(stack), 4, stack)
            self.assertTrue(any(is_within(stack, other) for other in stacks), (stack, stacks))

    def test_torch_by_function_line_and_direction(self):
        run = self.recorded("writer", frameworks.program("linear", STEPS), DLHOOK_STACKS="all")
        rows = [row for row in run.table("callers") if "sgemm_" in row["functions"]]
        found = {(row["asked_by"], row["line"], row["calls"]) for row in rows}
        addmm, mm = "at::native::structured_addmm_out_cpu", "at::native::structured_mm_out_cpu"
        self.assertEqual(found, {(addmm, "linear.py:11", STEPS), (mm, "linear.py:11", STEPS), (addmm, "linear.py:13", 1)})
        self.assertEqual(sum(row["calls"] for row in rows), 3 * STEPS + 1)

    def test_numpy_and_torch_in_one_program(self):
        run = self.recorded("writer", [frameworks.PYTHON, WHITENED], DLHOOK_STACKS="all")
        lines = {}
        for row in run.table("callers"):
            lines.setdefault(row["line"], []).append((row["kind"], row["asked_by"], row["calls"]))
        with open(WHITENED, encoding="utf-8") as file:
            code = file.read().splitlines()
        asked = {code[int(line.split(":")[1]) - 1].strip(): rows for line, rows in lines.items()}
        (covariance,) = asked["covariance = np.dot(centered.T, centered) / len(images)"]
        (whitening,) = asked["return np.dot(vectors / np.sqrt(values), vectors.T).astype(np.float32)"]
        self.assertEqual((covariance[2], whitening[2]), (20, 20))
        for row in (covariance, whitening):
            self.assertNotIn("gemm", row[1])
            self.assertRegex(row[1], "(?i)product|multiarray")
        self.assertEqual(asked["x = torch.relu(self.hidden(x))"], [("gemm", "at::native::structured_addmm_out_cpu", 20)])


if __name__ == "__main__":
    e2e.main()
