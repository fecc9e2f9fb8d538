"""`dlhook export` of a PyTorch training: totals by each format's own readers; the stack of a convolution is the
program's; layers, directions and phases are the network's."""

import collections
import os
import shutil
import tempfile
import unittest

import frameworks
from frameworks import e2e

import databases  # pylint: disable=wrong-import-position,wrong-import-order
import exports  # pylint: disable=wrong-import-order
import timelines  # pylint: disable=wrong-import-order

STEPS = 3
PROGRAM = frameworks.program("train_model", "lenet", STEPS)


class Export(frameworks.Case):
    @classmethod
    def setUpClass(cls):
        """One training for all tests: it takes seconds."""
        if not os.access(frameworks.PYTHON, os.X_OK):
            raise unittest.SkipTest(frameworks.MISSING)
        cls.shared = tempfile.mkdtemp(prefix="dlhook-e2e-")
        cls.addClassCleanup(shutil.rmtree, cls.shared)
        path = os.path.join(cls.shared, "run")
        result = e2e.run([e2e.DLHOOK, "run", "-o", path, "--", *PROGRAM],
                         env=e2e.clean_environment(DLHOOK_STACKS="all", OMP_NUM_THREADS=1))
        if result.code != 0:
            raise AssertionError(result.err.decode())
        cls.training = e2e.Run(path)

    def test_totals(self):
        exports.check_totals(self, self.training)
        databases.check(self, self.training)
        exports.check_totals(self, self.training, "--frames", "process,thread,layer,python,scopes")

    def test_stack_of_a_convolution(self):
        """As in the program's source, with the framework's operators or its functions inside."""
        python = ["<module>", "main", "Module._wrapped_call_impl", "Module._call_impl", "LeNet.forward"]
        for frames, inside in ((["python", "scopes"], ["aten::conv2d", "aten::convolution"]),
                               (["python", "native"], ["at::_ops::conv2d::call", "at::native::mkldnn_convolution"])):
            stacks = exports.folded(self.training, "--only", "library", "--frames", ",".join(frames), "--layer", "conv1")
            stacks = [stack for stack in stacks if "convolution" in stack[-1] and "forward" in stack[-1]]
            self.assertTrue(stacks, frames)
            for stack in stacks:
                places = iter(stack)
                for name in python + inside:
                    self.assertTrue(any(name in frame for frame in places), (name, stack))

    def test_timeline(self):
        """Arrows lead from each convolution to its backward node."""
        timeline = timelines.check(self, self.training)
        names = collections.defaultdict(set)  # of what begins at a time
        for one in timeline.slices:
            names[one.track, one.start_ns].add(one.name)
        arrows = [names[start] for (start,), (end,) in timeline.flows.values()
                  if any("ConvolutionBackward0" in name for name in names[end])]  # fmt: skip
        self.assertEqual(len(arrows), 2 * STEPS)
        for begun in arrows:
            self.assertTrue(any(name.startswith("aten::") and "conv" in name for name in begun), begun)

    def test_labels(self):
        """Each convolution runs forward in each step and once before; calls of the backward phase are backward."""
        profile = exports.Profile(exports.pprof(self, self.training, "--only", "library"))
        forward, directions = collections.Counter(), collections.defaultdict(set)
        for _stack, values, labels in profile.samples:
            if labels["op"] == "convolution" and labels["direction"] == "forward":
                forward[labels["layer"]] += values[profile.types.index("calls")]
            directions[labels.get("phase")].add(labels.get("direction", "")[:8])
            self.assertEqual(labels["process"].split(" (")[0], os.path.basename(PROGRAM[0]) + " train_model.py")
        self.assertEqual(forward, {"conv1": STEPS + 1, "conv2": STEPS + 1})
        self.assertEqual(directions["backward"], {"backward"})
        self.assertIn("forward", directions["forward"])

    def test_addresses_lie_in_the_libraries_named(self):
        profile = exports.Profile(exports.pprof(self, self.training))
        found = collections.Counter()
        for place in profile.locations.values():
            if "address" not in place:
                continue
            mapping = profile.mappings[e2e.one(place, "mapping_id")]
            start, end = e2e.one(mapping, "memory_start"), e2e.one(mapping, "memory_limit")
            self.assertTrue(start <= e2e.one(place, "address") < end)
            found[os.path.basename(profile.texts[e2e.one(mapping, "filename")])] += 1
        self.assertGreater(found["libtorch_cpu.so"], 20, found)


if __name__ == "__main__":
    e2e.main()
