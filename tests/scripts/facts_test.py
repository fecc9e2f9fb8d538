"""scripts/check_facts.py finds decisions by displayed text if they are planted, and nothing else."""

import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "scripts"))
import check_facts

ROLES = '    {Where::kBegins, "Optimizer.step#", ScopeRole::kOptimizerStep},\n    {Where::kBegins, "XLA ", ScopeRole::kXla},\n'


class Facts(unittest.TestCase):
    def found(self, files):
        """Places of the violations in a repository with these files: {path: text}."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**files, "analyzer/model/scope_role.cc": ROLES}.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return [violation.partition(": ")[0] for violation in check_facts.violations(pathlib.Path(folder))]

    def check(self, text, *places):
        """The text is a violation in these files, and in none of some others."""
        others = ("analyzer/ops/a.cc", "analyzer/tables/run/a.cc", "analyzer/findings/a.cc", "analyzer/layers/a.cc")
        self.assertEqual(self.found({place: "\n" + text for place in others}), [f"{place}:2" for place in sorted(places)], text)

    def test_cells_of_tables(self):
        for text in ('facts.MakeRunTable("gpu_idle");', 'MakeTable(kind, model, options)', 'TextOf(*table, row, "late")',
                     'NumberOf(table, *last, name)', 'row.Text("types", true)', 'FindColumn(table, "layer")'):
            self.check(text, "analyzer/findings/a.cc", "analyzer/layers/a.cc", "analyzer/ops/a.cc")
        self.check('NumberOf(*numbers, "mb", 1)')

    def test_kinds(self):
        for text in ('op.kind == "matmul"', 'if (item.op->kind != "rnn")', 'return "gemm" == op.kind',
                     'IsOneOf(op.kind, {"copy", "free"})'):
            self.check(text, "analyzer/tables/run/a.cc", "analyzer/findings/a.cc", "analyzer/layers/a.cc")
        self.check('absl::StrCat(op.kind, ":", op.subject)')
        self.check('// op.kind == "matmul"')

    def test_roles(self):
        everywhere = ("analyzer/ops/a.cc", "analyzer/tables/run/a.cc", "analyzer/findings/a.cc", "analyzer/layers/a.cc")
        self.check('absl::StartsWith(name, "Optimizer.step#SGD")', *everywhere)
        self.check('absl::StrCat("XLA compiles ", program)')

    def test_labels(self):
        for text in ('absl::StartsWith(layer, "[data")', 'absl::StartsWith(place.first, "optimizer (")', 'label.find(":[")',
                     "absl::StrContains(name, '[')"):
            self.check(text, "analyzer/findings/a.cc")

    def test_parts_of_a_step(self):
        self.assertEqual(self.found({"web/src/a.js": 'COLORS[part.kind]\npart.name.endsWith("(framework)")\nNOT_WORK[part.name]\n'}),
                         ["web/src/a.js:2", "web/src/a.js:3"])

    def test_what_is_kept(self):
        name = "analyzer/xla/hlo_layers.cc"
        kept = 'return kind == "kLoop";\n'
        self.assertEqual(self.found({name: kept}), [])
        self.assertEqual(self.found({name: 2 * kept}), [name + ":1", name + ":2"])
        self.assertEqual(self.found({name: ""}), [name + ":1"])


if __name__ == "__main__":
    unittest.main()
