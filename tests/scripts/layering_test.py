"""scripts/check_layering.py finds includes that go the wrong way if they are planted, and no others."""

import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "scripts"))
import check_layering

PROTOBUF = "proto/trace.pb.h"


class Layering(unittest.TestCase):
    def found(self, files):
        """Places of the violations in a repository with these files: {path: what it includes}."""
        with tempfile.TemporaryDirectory() as folder:
            for name, targets in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("".join(f'#include "{target}"\n' for target in targets), encoding="utf-8")
            return [violation.partition(": ")[0] for violation in check_layering.violations(pathlib.Path(folder))]

    def test_no_room_uses_one_above_it(self):
        self.assertEqual(self.found({"analyzer/model/a.cc": ["analyzer/model/b.h", "analyzer/reader/c.h"],
                                     "analyzer/reader/a.cc": ["analyzer/ops/b.h", "analyzer/model/b.h"],
                                     "preload/format/a.h": ["preload/base/b.h", "preload/drain/c.h"]}),
                         ["analyzer/model/a.cc:2", "preload/format/a.h:2"])

    def test_rooms_that_judge_by_the_same_facts(self):
        self.assertEqual(self.found({"analyzer/findings/a.cc": ["analyzer/work/b.h", "analyzer/diff/c.h"],
                                     "analyzer/diff/a.cc": ["analyzer/findings/b.h"]}),
                         ["analyzer/diff/a.cc:1", "analyzer/findings/a.cc:2"])

    def test_shim_and_analyzer(self):
        self.assertEqual(self.found({"analyzer/io/a.cc": ["preload/drain/b.h", "preload/tap/c.h"],
                                     "preload/tap/a.cc": ["preload/format/b.h", "analyzer/model/b.h", "absl/strings/match.h", PROTOBUF]}),
                         ["analyzer/io/a.cc:2", "preload/tap/a.cc:2", "preload/tap/a.cc:3", "preload/tap/a.cc:4"])

    def test_a_folder_without_a_place(self):
        self.assertEqual(self.found({"analyzer/cellar/a.h": []}), ["analyzer/cellar/a.h:1"])

    def test_libprotobuf_outside_its_rooms(self):
        for target in (PROTOBUF, "google/protobuf/message_lite.h"):
            with self.subTest(target):
                names = "cli/a.h", "cli/dump.cc", "model/a.cc", "ops/a.h", "reader/a.cc"
                self.assertEqual(self.found({f"analyzer/{name}": [target] for name in names}),
                                 ["analyzer/cli/a.h:1", "analyzer/model/a.cc:1"])
        generated = "analyzer/export/third_party/pprof/profile.pb.h"
        self.assertEqual(self.found({"analyzer/export/pprof.cc": [generated], "analyzer/export/folded.cc": [generated]}),
                         ["analyzer/export/folded.cc:1"])

    def test_headers_that_lead_other_rooms_to_libprotobuf(self):
        for room, is_found in (("ops", False), ("reader", True), ("cli", True)):
            with self.subTest(room):
                found = self.found({"analyzer/ops/a.h": ["analyzer/ops/b.h"], "analyzer/ops/b.h": [PROTOBUF],
                                    f"analyzer/{room}/a.cc": ["analyzer/ops/a.h"]})
                self.assertEqual(found, [f"analyzer/{room}/a.cc:1"] if is_found else [])


if __name__ == "__main__":
    unittest.main()
