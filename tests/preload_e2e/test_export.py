"""`dlhook export`: each format, as read by its own readers, adds up to the tables; data that can't be exported is
reported."""

import csv
import io
import os
import re

import e2e
import exports


OUTER = "cblas_sgemm m8 n9 k10 NT f32 row-major"
INNER = "sgemm_ m9 n8 k10 TN f32"


class Export(e2e.Case):
    def test_formats(self):
        run = self.recorded("launcher", [e2e.victim("nested"), "40"])
        profile = exports.check_totals(self, run)
        self.assertEqual({stack for stack, _, _ in profile.samples},
                         {(OUTER,), (OUTER, INNER)})
        self.assertEqual({labels["op"] for _, _, labels in profile.samples}, {"gemm"})
        # The inner call does the outer one's work: it counts only once.
        self.assertEqual(profile.sum("flops"), 40 * 2 * 8 * 9 * 10)
        inner = exports.folded(run, "--only", "library", "--function", "sgemm_", "--weight", "calls")
        self.assertEqual(inner, {(INNER,): 40})

    def test_totals_without_calls_of_their_own(self):
        """A trace of the maximum size contains totals of later calls."""
        run = self.recorded("writer", [e2e.victim("nested"), "20000"], DLHOOK_MAX_BYTES=65536)
        self.assertTrue(run.trace().aggregates)
        exports.check_totals(self, run, "--frames", "process,thread,native,python")
        kept = sum(weight for stack, weight in exports.folded(run, "--only", "library", "--weight", "calls").items()
                   if stack[0] != "[no stack kept]")
        self.assertEqual(kept, len(run.trace().calls))

    def test_hostile_names(self):
        """Readers of each format find the totals, and names with escaped special characters."""
        run = self.recorded("launcher", [e2e.victim("nested"), "40"])
        hostile = "\x1b]0;x\x07\u009b31m\n\r\t\u202e;=1\"&#27;\\"
        spelled = "\\x1b]0;x\\x07\\u009b31m\\n\\x0d\\t\\u202e;=1\"&#27;\\"
        folder = os.path.join(self.folder, "run" + hostile)
        os.mkdir(folder)
        escaped = "".join(f"\\{byte:03o}" for byte in hostile.encode())
        text = e2e.run([e2e.DLHOOK, "dump", run.path]).out.decode()
        text = re.sub(r'(\b(?:program|function|path|name): "[^"]+)', lambda match: match[1] + escaped, text)
        with open(os.path.join(folder, f"1{hostile}.dlh"), "wb") as file:
            file.write(exports.encoded(text.encode()))
        renamed = e2e.Run(folder)
        profile = exports.check_totals(self, renamed)
        self.assertEqual({stack[0].split(" ")[0] for stack, _, _ in profile.samples}, {"cblas_sgemm" + spelled})
        self.assertEqual([table["name"] for table in renamed.report("--table", "ops")["tables"]], ["ops"])
        rows = list(csv.DictReader(io.StringIO(e2e.run(
            [e2e.DLHOOK, "report", folder, "--table", "ops", "--format", "csv"]).out.decode()), strict=True))
        self.assertIn(f"cblas_sgemm{spelled}, sgemm_{spelled}", {row["functions"] for row in rows})

    def test_mistakes(self):
        run = self.recorded("launcher", [e2e.victim("nested"), "3"])

        def error(*options):
            return exports.export(run, *options, expected_code=2)

        self.assertIn("unknown format 'pporf'; did you mean pprof? Expected one of: folded, pprof, callgrind, perfetto",
                      error("--format", "pporf"))
        self.assertIn("unknown weight 'tiem'; did you mean time?", error("--weight", "tiem"))
        self.assertIn("unknown frames 'pythn'; did you mean python?", error("--frames", "native,pythn"))
        self.assertIn("unknown --only 'libary'; did you mean library?", error("--only", "libary"))
        self.assertIn("unknown function 'sgem_'; did you mean sgemm_?", error("--function", "sgem_"))
        self.assertIn("unknown layer 'conv9'", error("--layer", "conv9"))
        missing = os.path.join(self.folder, "none", "file")
        self.assertIn(f"cannot write {missing}: No such file or directory", error("--out", missing))
        self.assertIn("cannot write /dev/full: No space left on device", error("--out", "/dev/full"))

    def test_a_run_without_calls(self):
        header = b'packet { header { schema_major: 1 process { pid: 7 } clock { kind: MONOTONIC } } }'
        path = os.path.join(self.folder, "1.dlh")
        with open(path, "wb") as file:
            file.write(exports.encoded(header))
        self.assertIn("1.dlh: neither calls nor operations were recorded, so there is nothing to export",
                      exports.export(e2e.Run(path), expected_code=2))


if __name__ == "__main__":
    e2e.main()
