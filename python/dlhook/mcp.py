"""`python -m dlhook.mcp`: dlhook for assistants, by the Model Context Protocol over stdio. It needs the package mcp: pip install
"dlhook[mcp]".

It writes nothing but the folder of a run that it is told to record, and starts nothing but dlhook and that program."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Any, Callable, Optional

from dlhook import _command, _run

MOST_OUTPUT = 4000  # characters of a program's output: its end
MOST_LINES = 200
NAMED = re.compile(r"([^\s\"'/:,()]+\.\w+):\d+")  # "train.py:42"
NAMING = ("findings", "layers", "callers", "hotspots")  # the tables that have lines of the program


def run(program: list[str], output: Optional[str] = None, variables: Optional[dict[str, str]] = None) -> str:
    """Records a program (its words: ["python", "train.py"]) into the folder `output`, or `output`-2 if that holds a run, and waits until it
    ends. Returns its exit code, the end of what it printed, and the run's folder: call report on it. variables: what is recorded,
    {"DLHOOK_STACKS": "all"}."""
    with tempfile.TemporaryFile() as printed:
        recorded: Optional[_run.Run]
        try:
            recorded, code = _run.profile(program, output, variables=variables, stdin=subprocess.DEVNULL, stdout=printed,
                                          stderr=subprocess.STDOUT), 0
        except _command.ProgramFailed as error:
            recorded, code = error.run, error.exit_code
        printed.seek(max(0, printed.seek(0, os.SEEK_END) - 4 * MOST_OUTPUT))
        text = printed.read().decode("utf-8", "replace")[-MOST_OUTPUT:]
    return _json({"run": recorded.path if recorded else None, "exit_code": code, "printed": text})


def report(run: str) -> str:
    """What is slow in a run, why, and what to do: where a step's time goes, findings with evidence, file and line, the heaviest layers.
    JSON (schema dlhook-report), times in ns."""
    return _json(_run.Run(run).report)


def table(run: str, name: str, limit: int = 20, sort: Optional[str] = None, by: Optional[str] = None) -> str:
    """Rows of one table of a run (layers, work, findings, accounting, phases, gemm, kernels, gpu_idle, copies …; an unknown name is
    answered with all of them). JSON: columns with unit and explanation, rows, notes. sort: a column; by: how rows of layers are grouped."""
    found = _run.Run(run).read(name, limit=limit, sort=sort, by=by)
    columns = [{"name": column.name, "unit": column.unit, "explanation": column.explanation} for column in found.columns]
    return _json({"name": found.name, "title": found.title, "columns": columns, "rows": found.rows, "notes": found.notes})


def diff(base: str, new: str) -> str:
    """Compares two runs: the verdict (faster, slower, or no difference beyond noise), what the runs ran on differently, and the causes,
    which add up to the difference. JSON."""
    found = _run.diff(base, new)
    return _json({"verdict": found.verdict, "environment": found.environment, "causes": list(found.read("causes"))[:20],
                  "findings": list(found.read("findings"))[:20]})


def source_lines(run: str, file: str, line: int, around: int = 10) -> str:
    """Lines of a file of the program around `line`. Only files that the run names ("train.py:42"), below the folder in which this server
    was started."""
    name = os.path.basename(file)
    recorded = _run.Run(run)
    named = {process["script"] for process in recorded.facts["processes"]}
    for table_name in NAMING:
        named.update(NAMED.findall(json.dumps(recorded.read(table_name).rows, ensure_ascii=False)))
    if name not in named:
        raise ValueError(f"{file}: the run names no such file; it names {', '.join(sorted(filter(None, named))) or 'none'}")
    root = pathlib.Path.cwd().resolve()
    found = sorted({path.resolve() for path in ([root / file] if os.path.dirname(file) else root.rglob(name)) if path.is_file()})
    found = [path for path in found if root in path.parents and path.name == name]
    if len(found) != 1:
        places = ", ".join(str(path.relative_to(root)) for path in found[:20])
        raise ValueError(f"{file}: {f'several are below {root}, name one: {places}' if found else f'not below {root}'}")
    lines = found[0].read_text("utf-8", "replace").splitlines()
    first = max(1, line - min(around, MOST_LINES // 2))
    shown = lines[first - 1:line + min(around, MOST_LINES // 2)]
    return "\n".join(f"{number}: {text}" for number, text in enumerate(shown, first))


def _json(answer: Any) -> str:
    return json.dumps(answer, ensure_ascii=False)


def main() -> None:
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError:
        sys.exit('dlhook.mcp: the package mcp (2 or newer) is not installed here: pip install "dlhook[mcp]"')

    def told(tool: Callable[..., str]) -> Callable[..., str]:
        @functools.wraps(tool)
        def call(**words: Any) -> str:
            try:
                return tool(**words)
            except (_command.Error, OSError, ValueError) as error:
                raise ToolError(str(error)) from error  # other errors reach the assistant without their words
        return call

    server = MCPServer("dlhook", instructions=_command.start(["skill"])[1])
    for tool in (run, report, table, diff, source_lines):
        server.tool(structured_output=False)(told(tool))
    server.run("stdio")


if __name__ == "__main__":
    main()
