"""scripts/check_odr.py finds two meanings of one C++ name if they are planted, and no others."""

import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "scripts"))
import check_odr

PASS = "struct Pass {\n  std::string name;\n};\n"


def room(name, text):
    return f"namespace dlhook::{name} {{\n{text}}}  // namespace\n"


class Odr(unittest.TestCase):
    def found(self, **files):
        """{name: its files} in a repository with these files: analyzer__a__h is analyzer/a.h."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                *parts, suffix = name.split("__")
                path = pathlib.Path(folder, *parts).with_suffix("." + suffix)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return {name: sorted(map(str, places)) for name, places in check_odr.violations(pathlib.Path(folder))}

    def test_two_types_of_one_name(self):
        for kind in ("struct Pass {", "class Pass final : public Base<int> {", "enum class Pass : int {", "union Pass {",
                     "struct alignas(64) Pass {", "template <typename T>\nstruct Pass {"):
            with self.subTest(kind):
                other = room("analyzer", PASS.replace("struct Pass {", kind))
                found = self.found(analyzer__layers__pass__h=room("analyzer", PASS), analyzer__passes__pass__cc=other)
                self.assertEqual(found, {"dlhook::analyzer::Pass": ["analyzer/layers/pass.h", "analyzer/passes/pass.cc"]})

    def test_namespaces_that_are_inline(self):
        files = {"analyzer__a__h": room("inline a", PASS), "analyzer__b__h": room("inline a", PASS),
                 "analyzer__c__h": room("inline b", PASS)}
        self.assertEqual(self.found(**files), {"dlhook::a::Pass": ["analyzer/a.h", "analyzer/b.h"]})

    def test_types_in_types(self):
        text = "struct Pass {\n  struct Row { int x; };\n};\n"
        self.assertEqual(len(self.found(analyzer__a__h=room("a", text), analyzer__b__h=room("a", text))), 2)

    def test_inline_functions(self):
        text = "inline int Length(const Pass& pass) { return 1; }\n"
        self.assertEqual(set(self.found(analyzer__a__h=room("a", text), preload__b__h=room("a", text))),
                         {"dlhook::a::Length(const Pass& pass)"})
        other = text.replace("const Pass&", "int")  # an overload
        self.assertEqual(self.found(analyzer__a__h=room("a", text), preload__b__h=room("a", other)), {})

    def test_a_tests_own_types(self):
        files = {"tests__analyzer__a_test__cc": room("a", PASS), "tests__analyzer__b_test__cc": room("a", PASS)}
        self.assertEqual(self.found(**files), {})  # separate programs
        self.assertEqual(len(self.found(analyzer__a__h=room("a", PASS), **files)), 1)

    def test_private_types_may_share_a_name(self):
        hidden = "namespace {\n" + PASS + "}\nvoid Use() {\n  " + PASS + "}\n"
        text = "// struct Pass {\nstruct Pass;\nconst char* kText = \"struct Pass {\";\nPass Make(Pass pass) { return pass; }\n"
        self.assertEqual(self.found(analyzer__a__cc=room("a", hidden), analyzer__b__cc=room("a", hidden),
                                    analyzer__c__h=room("b", PASS), analyzer__d__cc=room("a", text), analyzer__e__h=room("a", PASS)), {})


if __name__ == "__main__":
    unittest.main()
