"""Native stacks of real trainings: each equals one that was walked completely, and libunwind's (the testing shim)."""

import frameworks
from frameworks import e2e, program


class Agreement(frameworks.Case):
    def agreement(self, argv):
        """Of `stack_agreement`, and the trace."""
        return self.stack_agreement(argv), e2e.Run(self.run_path).trace()

    def test_torch(self):
        (stacks, whole, libunwind), trace = self.agreement(program("cnn", 60, 2))
        self.assertEqual((whole, libunwind), (stacks, stacks))
        self.assertEqual(stacks, len(trace.calls))
        self.assertGreater(stacks, 1000)
        code = {e2e.one(m, "path", "").rsplit("/", 1)[-1] for m in trace.mappings if e2e.one(m, "role") == "CODE"}
        self.assertIn("libtorch_cpu.so", code)

    def test_numpy(self):
        (stacks, whole, libunwind), trace = self.agreement(program("numpy_products", 200))
        self.assertEqual((whole, libunwind), (stacks, stacks))
        self.assertEqual(stacks, len(trace.calls))


if __name__ == "__main__":
    e2e.main()
