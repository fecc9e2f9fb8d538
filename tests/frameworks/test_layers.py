#!/usr/bin/env python3
"""Layers of PyTorch networks on the unmodified wheel: the table `layers`, and the pairing of backward nodes with
layers.

The witness is the network itself (programs/train_model.py): named_modules() and forward hooks, in a run of the same
program without dlhook, show which modules are called in which order, and the numbers of autograd's nodes created by
each call.
"""

import collections
import json
import os
import re

import frameworks
from frameworks import e2e, program

PLACES = os.environ.get("DLHOOK_TEST_LAYER_PLACES", "")
STEPS = 6
NETWORKS = ("lenet", "alexnet", "vgg11", "resnet18", "inception", "grouped", "lstm", "transformer", "siamese", "checkpoint",
            "checkpoint_reentrant")
OF_NO_LAYER = ("[other framework ops]", "[other library calls]", "[not seen: native code or Python]",
               "[data loading]", "[waiting]", "[unattributed]")
# A view between layers belongs to the next layer, which needs it; so does the node of such an op.
VIEWS = re.compile(r"(View|Reshape|ReshapeAlias|UnsafeView|Transpose|Permute|T|Unsqueeze|Squeeze|Select|Slice|Expand|"
                   r"AsStrided|Clone|Alias|Unbind|SplitWithSizes)Backward\d")


class Layers(frameworks.Case):
    def witness_of(self, network):
        result = self.plain(program("train_model", network, STEPS, "WITNESS"), OMP_NUM_THREADS=1)
        self.assertEqual(result.code, 0, result.err.decode()[-2000:])
        return json.loads(result.out)

    def record(self, network, **environment):
        return self.recorded("launcher", program("train_model", network, STEPS), OMP_NUM_THREADS=1, **environment)

    def layers_of(self, run):
        """Rows of modules and functional ops, without the loss, the optimizer, and work that is not visible or outside
        of layers."""
        rows = run.table("layers")
        return [row for row in rows
                if row["layer"] not in OF_NO_LAYER and row["type"] not in ("optimizer", "loss", "native code or Python")]

    def check_order(self, network, rows, witness):
        """Every called module once, in the order of the calls; rows between them are functional ops of other modules."""
        modules = [[row["layer"], row["module_type"]] for row in rows if ":" not in row["layer"]]
        self.assertEqual(modules, witness["called"], network)

    def check_directions(self, network, rows):
        """All have a forward pass; all have a backward pass except inactive dropouts, which create no node."""
        for row in rows:
            self.assertIsNotNone(row["forward"], (network, row["layer"]))
            if row["module_type"] != "Dropout" or network == "alexnet":
                self.assertIsNotNone(row["backward"], (network, row["layer"]))
                self.assertEqual(row["matched_by"], "framework", (network, row["layer"]))

    def printed_places(self, run):
        result = e2e.run([PLACES, run.path])
        self.assertEqual(result.code, 0, result.err.decode()[-2000:])
        return [line.split("\t") for line in result.out.decode().splitlines()]

    def places_of(self, run):
        return [(int(line[0]), *line[1:]) for line in self.printed_places(run) if line[0] != "product"]

    def check_pairing(self, network, run, witness):
        """Each backward node against the innermost module whose call made a node of its number."""
        kinds = collections.Counter()
        whole = {path for path, _ in witness["called"]} | {"loss"}
        for number, name, module, layer in self.places_of(run):
            if number < 0:
                continue
            around = [(last - first, path) for path, first, last in witness["numbers"] if first <= number < last]
            expected = min(around)[1] if around else None
            if expected is None or (VIEWS.fullmatch(name) and expected not in whole):
                kinds["not told"] += 1
                continue
            # Ops on the network's own lines are named after its class.
            own = expected == "" and ":" in layer
            expected = "CrossEntropyLoss" if expected == "loss" else expected
            self.assertTrue(own or module == expected, (network, number, name, module, layer, expected))
            kinds["checked"] += 1
        self.assertGreaterEqual(kinds["checked"], STEPS * len(witness["called"]) // 2)

    def check_recomputation(self, network, rows):
        recomputed = {row["layer"] for row in rows if row["recompute"] is not None}
        expected = {"inner.0", "inner.1", "inner.2"} if network.startswith("checkpoint") else set()
        self.assertEqual(recomputed, expected, network)

    def check_network(self, network):
        run, witness = self.record(network), self.witness_of(network)
        rows = self.layers_of(run)
        self.check_order(network, rows, witness)
        self.check_directions(network, rows)
        self.check_recomputation(network, rows)
        if PLACES:
            self.check_pairing(network, run, witness)

    def test_layers_and_pairing(self):
        for network in NETWORKS:
            with self.subTest(network=network):
                self.check_network(network)

    def test_weighted_layers_have_gradients_of_data_and_weights(self):
        rows = self.layers_of(self.record("lenet"))
        for row in rows:
            if row["type"] not in ("convolution", "linear"):
                continue
            self.assertIsNotNone(row["backward_weights"], row["layer"])
            # The input of the network needs no gradient.
            self.assertEqual(row["backward_data"] is None, row["layer"] == "conv1", row["layer"])

    def test_products_of_gradients(self):
        """Gradients of inputs read the weights, those of weights do not: whatever the node's order, with equal sizes."""
        if not PLACES:
            self.skipTest("no layer_places")
        self.fresh_run()
        result = self.under("launcher", program("product_gradients", STEPS))
        self.assertEqual(result.code, 0, result.err.decode()[-2000:])
        run, address = e2e.Run(self.run_path), json.loads(result.out)
        found = collections.defaultdict(collections.Counter)
        for kind, *line in self.printed_places(run):
            if kind == "product":
                module, direction, *operands = line
                found[module][direction, str(address[module]) in operands] += 1
        data, weights = ("backward-data", True), ("backward-weights", False)
        for module in address:
            expected = {data: STEPS} if module.endswith("_frozen") else {weights: STEPS} if module.endswith("_first") else {
                data: STEPS, weights: STEPS}
            if module == "scores":  # of two activations
                expected = {("backward-data", False): 2 * STEPS}
            backward = {key: count for key, count in found[module].items() if key[0] != "forward"}
            self.assertEqual(backward, expected, module)

    def test_shares_add_up_to_the_steps(self):
        run = self.record("lenet")
        (table,) = run.report("--table", "layers")["tables"]
        share = [column["name"] for column in table["columns"]].index("wall_share")
        percent = [column["name"] for column in table["columns"]].index("time_percent")
        steps = int(re.search(r"Mean of (\d+) steady training step", table["notes"][0]).group(1))
        self.assertGreaterEqual(steps, 2)
        total = sum(row[share] for row in table["rows"])
        self.assertAlmostEqual(sum(row[percent] for row in table["rows"]), 100.0, places=6)
        for row in table["rows"]:
            self.assertAlmostEqual(row[percent], 100.0 * row[share] / total, places=6)


if __name__ == "__main__":
    e2e.main()
