"""A C++ framework without scopes: layers by the functions above their calls, in native stacks."""

import e2e

# Calls in a step, counted by hand: three images; the first convolution needs no gradient of its input.
CALLS = {"conv1": 3 + 3, "conv2": 3 + 3 + 3, "fc1": 3, "fc2": 3}
STEPS = 6


class LayerFunctions(e2e.Case):
    def test_layers_of_a_framework_that_tells_nothing(self):
        run = self.recorded("writer", [e2e.victim("layered"), str(STEPS)], DLHOOK_STACKS="native")
        layers = {row["layer"]: row for row in run.table("layers") if row["matched_by"]}
        self.assertEqual({name: row["calls"] for name, row in layers.items()}, CALLS)
        self.assertEqual([row["module_type"] for row in layers.values()],
                         ["caffe::ConvolutionLayer<float>"] * 2 + ["caffe::InnerProductLayer<float>"] * 2)
        self.assertEqual([row["type"] for row in layers.values()], ["convolution", "convolution", "linear", "linear"])
        self.assertIsNone(layers["conv1"]["backward_data"])
        for name in ("conv2", "fc1", "fc2"):
            for column in ("forward", "backward_data", "backward_weights"):
                self.assertGreater(layers[name][column], 0, (name, column))

    def test_one_step_is_enough(self):
        run = self.recorded("writer", [e2e.victim("layered"), "1"], DLHOOK_STACKS="native")
        calls = {}
        for row in run.table("callers"):
            key = (row["layer"], row["direction"])
            calls[key] = calls.get(key, 0) + row["calls"]
        forward = {layer: count for (layer, direction), count in calls.items() if direction == "forward"}
        self.assertEqual(forward, {"conv1": 3, "conv2": 3, "fc1": 1, "fc2": 1})
        self.assertEqual({row["asked_by"] for row in run.table("callers")},
                         {f"caffe::{layer}Layer<float>::{direction}_cpu" for layer in ("Convolution", "InnerProduct")
                          for direction in ("Forward", "Backward")})

    def test_without_stacks_as_before(self):
        run = self.recorded("writer", [e2e.victim("layered"), str(STEPS)])
        self.assertNotIn("function", {row["matched_by"] for row in run.table("layers")})
        self.assertIn("DLHOOK_STACKS=all", str(run.report("--table", "callers")["tables"][0]["notes"]))


if __name__ == "__main__":
    e2e.main()
