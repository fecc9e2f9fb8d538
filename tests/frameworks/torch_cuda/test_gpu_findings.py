"""Findings about a GPU in PyTorch's CUDA wheel on the fakes: what is copied from pageable memory, and the same ahead of time."""

import json
import os

import fake_gpu
from fake_gpu import e2e

EXAMPLE = os.path.join(fake_gpu.ROOT, "examples", "06_is_my_gpu_waiting", "train.py")


class GpuFindings(fake_gpu.Case):
    def findings(self, way):
        self.fresh_run()
        argv = [fake_gpu.PYTHON, "-B", EXAMPLE, "--input", way]
        result = self.under("launcher", argv, **self.scenario(), DLHOOK_FAKE_WAITS="1", DLHOOK_FAKE_SLOW="4")
        self.assertEqual(result.code, 0, result.err.decode()[-3000:])
        result = e2e.run([e2e.DLHOOK, "report", self.run_path, "--table", "findings", "--format", "json"])
        self.assertEqual(result.code, 0, result.err.decode())
        table = json.loads(result.out)["tables"][0]
        names = [column["name"] for column in table["columns"]]
        rows = [dict(zip(names, row, strict=True)) for row in table["rows"]]
        return {row["rule"]: row for row in rows}

    def test_pageable_copies(self):
        finding = self.findings("pageable").get("pageable-copies")
        self.assertIsNotNone(finding)
        self.assertRegex(finding["line"] or "", r"^train\.py:\d+$")
        self.assertIn("pin_memory", finding["advice"])
        self.assertNotIn("pageable-copies", self.findings("ahead"))


if __name__ == "__main__":
    e2e.main()
