"""Run by test_python.py in an environment with the package mcp: mcp_client.py RUN OTHER_RUN PROGRAM. Asks python -m dlhook.mcp over stdio
for what an assistant would."""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters


async def main():
    run, other, program = sys.argv[1:]
    server = StdioServerParameters(command=sys.executable, args=["-B", "-m", "dlhook.mcp"], env=dict(os.environ), cwd=os.getcwd())
    async with Client(server) as client:

        async def ask(tool, **words):
            answer = await client.call_tool(tool, words)
            (content,) = answer.content
            return answer.is_error, content.text

        async def told(tool, **words):
            is_error, text = await ask(tool, **words)
            assert not is_error, text
            return json.loads(text)

        async def refused(expected, tool, **words):
            is_error, text = await ask(tool, **words)
            assert is_error and expected in text, text

        assert [tool.name for tool in (await client.list_tools()).tools] == ["run", "report", "table", "diff", "source_lines"]
        assert (await told("report", run=run))["schema"] == "dlhook-report"
        ops = await told("table", run=run, name="ops", limit=2)
        assert len(ops["rows"]) == 2 and "ns" in [column["unit"] for column in ops["columns"]], ops
        difference = await told("diff", base=run, new=other)
        assert difference["verdict"] and difference["causes"], difference
        await refused("no such file or folder", "report", run="missing")
        await refused("did you mean ops", "table", run=run, name="op")
        assert os.listdir() == [], "reading writes nothing"

        # Files of the program are found by the names that the run has, and no others.
        for folder, text in (("src", "import os\nprint(os)\n"), ("secret", "key\n")):
            os.mkdir(folder)
            with open(os.path.join(folder, "train.py" if folder == "src" else "other.py"), "w", encoding="utf-8") as file:
                file.write(text)
        assert await ask("source_lines", run=run, file="train.py", line=2, around=1) == (False, "1: import os\n2: print(os)")
        await refused("the run names no such file; it names", "source_lines", run=run, file="secret/other.py", line=1)
        await refused("not below", "source_lines", run=run, file="../train.py", line=1)
        with open(os.path.join("secret", "train.py"), "w", encoding="utf-8") as file:
            file.write("another\n")
        await refused("several are below", "source_lines", run=run, file="train.py", line=1)
        assert await ask("source_lines", run=run, file="secret/train.py", line=1) == (False, "1: another")

        done = await told("run", program=[program, "5"], output="RUN")
        assert (done["run"], done["exit_code"]) == ("RUN", 0), done
        assert sorted(os.listdir()) == ["RUN", "secret", "src"]
        done = await told("run", program=["sh", "-c", "echo why; exit 7"], output="FAILED")
        assert done["exit_code"] == 7 and "why" in done["printed"], done
    print("as expected")


asyncio.run(main())
