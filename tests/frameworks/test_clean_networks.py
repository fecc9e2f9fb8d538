"""Networks in the settings that PyTorch's guides recommend: the rules that judge a program by its work, not by its
times, find nothing."""

import json
import os

import frameworks
from frameworks import e2e, program

# Findings of these rules follow from the calls of a step, on any machine.
RULES = {"debug-switch", "faster-form", "float64", "input-gradient", "instruction-set", "layout-conversions",
         "optimizer-per-tensor", "preparing-in-steps", "recompilations", "reference-implementation", "repeated-work",
         "slow-products", "unfused-ops"}
STEPS = 6


class CleanNetworks(frameworks.Case):
    def assert_clean(self, *names):
        for name in names:
            with self.subTest(name):
                path = os.path.join(self.folder, name)
                command = [e2e.DLHOOK, "run", "-o", path, "--", *program("clean_networks", name, STEPS)]
                result = e2e.run(command, env=self.environment("launcher"), cwd=self.folder)
                self.assertEqual(result.code, 0, result.err.decode())
                self.assertRegex(result.err.decode(), r"PyTorch\s2\.\d")
                result = e2e.run([e2e.DLHOOK, "report", path, "--table", "findings", "--format", "json"])
                self.assertEqual(result.code, 0, result.err.decode())
                rows = json.loads(result.out)["tables"][0]["rows"]
                self.assertEqual([row for row in rows if row[0] in RULES], [])

    def test_convolutions(self):
        self.assert_clean("cnn", "mobile", "unet", "resnet_inference")

    def test_attention(self):
        self.assert_clean("vit", "bert_inference")

    def test_several_networks_in_a_step(self):
        self.assert_clean("gan")

    def test_layers_of_products(self):
        self.assert_clean("mlp", "autoencoder", "loader", "lstm")


if __name__ == "__main__":
    e2e.main()
