"""GPU findings in PyTorch's CUDA wheel on the fakes: each planted loss, and the same work without it."""

import json
import os

import fake_gpu
from fake_gpu import e2e, program

EXAMPLE = os.path.join(fake_gpu.ROOT, "examples", "06_is_my_gpu_waiting", "train.py")


class GpuFindings(fake_gpu.Case):
    def findings(self, argv, slow=4):
        """{rule: row} of a run whose program really waits for its GPU."""
        self.fresh_run()
        result = self.under("launcher", argv, **self.scenario(), DLHOOK_FAKE_WAITS="1", DLHOOK_FAKE_SLOW=str(slow))
        self.assertEqual(result.code, 0, result.err.decode()[-3000:])
        result = e2e.run([e2e.DLHOOK, "report", self.run_path, "--table", "findings", "--format", "json"])
        self.assertEqual(result.code, 0, result.err.decode())
        table = json.loads(result.out)["tables"][0]
        names = [column["name"] for column in table["columns"]]
        rows = [dict(zip(names, row, strict=True)) for row in table["rows"]]
        return {(row["rule"], row["evidence"]): row for row in rows}

    def assert_line(self, finding, file, words):
        name, number = finding["line"].split(":")
        self.assertEqual(name, os.path.basename(file))
        with open(file, encoding="utf-8") as lines:
            self.assertIn(words, lines.read().splitlines()[int(number) - 1])

    def rules(self, findings):
        return {rule for rule, _ in findings}

    def test_pageable_copies(self):
        findings = self.findings([fake_gpu.PYTHON, "-B", EXAMPLE, "--input", "pageable"])
        (finding,) = (row for (rule, _), row in findings.items() if rule == "pageable-copies")
        self.assert_line(finding, EXAMPLE, "images.cuda()")
        self.assertIn("pin_memory", finding["advice"])
        wait = findings.get(("gpu-idle", "table gpu_idle, cause synchronization"))
        if wait:  # for that copy: no advice to keep values on the GPU
            self.assertIn("non_blocking", wait["advice"])
        ahead = self.findings([fake_gpu.PYTHON, "-B", EXAMPLE, "--input", "ahead"])
        self.assertNotIn("pageable-copies", self.rules(ahead))

    def test_a_value_that_is_read_each_step(self):
        argv = program("findings", "item", 30)
        # By a GPU so slow that the program waits for it, and not so slow that what lies between is nothing on a fast machine.
        (finding,) = (row for (_, evidence), row in self.findings(argv, slow=12).items() if "cause synchronization" in evidence)
        self.assert_line(finding, argv[2], "loss.item()")

    def one(self, rule, cause, slow=4):
        """The rule's finding in the program with this cause; its line is the cause's."""
        argv = program("findings", cause, 30)
        (finding,) = (row for (name, _), row in self.findings(argv, slow).items() if name == rule)
        return finding, argv[2]

    def test_many_small_copies(self):
        finding, path = self.one("small-copies", "small-copies", slow=400)
        self.assert_line(finding, path, "value.cuda(")
        self.assertRegex(finding["finding"], "^(38|39|40) copies")  # the first step's can't be told from weights
        self.assertIn("torch.stack", finding["advice"])
        few = self.findings(program("findings", "large-copies", 30), slow=400)
        self.assertNotIn("small-copies", self.rules(few))

    def test_the_same_contents_again(self):
        finding, path = self.one("copied-again", "copied-again")
        self.assert_line(finding, path, "value.cuda(")
        self.assertIn("x.to(device)", finding["advice"])
        self.assertEqual(finding["confidence"], "medium")
        changing = self.findings(program("findings", "copied-new", 30))
        self.assertNotIn("copied-again", self.rules(changing))

    def test_memory_that_is_given_back_in_each_step(self):
        finding, path = self.one("gpu-allocations", "empty-cache")
        self.assert_line(finding, path, "empty_cache()")
        self.assertIn("empty_cache()", finding["advice"])
        once = self.findings(program("findings", "empty-once", 30))
        self.assertNotIn("gpu-allocations", self.rules(once))

    def test_none_of_these(self):
        findings = self.findings(program("findings", "quiet", 30))
        self.assertNotIn(("gpu-idle", "table gpu_idle, cause synchronization"), findings)
        self.assertFalse(self.rules(findings) & {"pageable-copies", "small-copies", "gpu-allocations"}, findings)


if __name__ == "__main__":
    e2e.main()
