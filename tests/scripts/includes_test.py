"""scripts/check_includes.py finds uses of what is not included if they are planted, and no others."""

import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "scripts"))
import check_includes

KIND = "enum class Kind : int { kOne };\nint CountOf(Kind kind);\n"


class Includes(unittest.TestCase):
    def found(self, user, **headers):
        """{name} that analyzer/b/user.cc uses without its header; a header `kind` is analyzer/a/kind.h."""
        with tempfile.TemporaryDirectory() as folder:
            files = {"b/user.cc": user, **{f"a/{name}.h": text for name, text in headers.items()}}
            for name, text in files.items():
                path = pathlib.Path(folder, "analyzer", name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return {violation.split(": uses ")[1].split()[0] for violation in check_includes.Tree(pathlib.Path(folder)).violations()}

    def test_a_header_that_is_missing(self):
        use = "int Use() {\n  return CountOf(Kind::kOne);\n}\n"
        self.assertEqual(self.found(use, kind=KIND), {"Kind", "CountOf"})
        for include in ("kind", "other"):
            with self.subTest(include):
                found = self.found(f'#include "analyzer/a/{include}.h"\n{use}', kind=KIND, other='#include "analyzer/a/kind.h"\n')
                self.assertEqual(found, set())

    def test_what_has_only_the_same_name(self):
        for text in ("enum class Kind { kOne };\nint a = Kind::kOne;", "struct Mine {\n  int CountOf(int);\n};\nint a = CountOf(1);",
                     "int a = other.CountOf(1);", "int a = other->CountOf(1);", "int a = other::Kind::kOne;", "// Kind::kOne CountOf()",
                     'const char* a = "Kind::kOne";', "template <typename Kind>\nint a = Kind::kOne;"):
            with self.subTest(text):
                self.assertEqual(self.found(text, kind=KIND), set())


if __name__ == "__main__":
    unittest.main()
