"""The genuine libcudnn without a device: dlhook's record of each executed plan equals the library's own description of
that plan. The library plans for the device of device_h100.json; executing fails, and that is recorded."""

import collections

import genuine
from genuine import TYPES, e2e, graph_number

# The operation in the library's text -> in dlhook, with its operands: inputs, outputs.
OPERANDS = {
    "CONVOLUTION_FORWARD": ("convolution_forward", ("X", "W"), ("Y",)),
    "CONVOLUTION_BACKWARD_DATA": ("convolution_backward_data", ("dY", "W"), ("dX",)),
    "CONVOLUTION_BACKWARD_FILTER": ("convolution_backward_weights", ("X", "dY"), ("dW",)),
    "POINTWISE": ("pointwise", ("X", "B"), ("Y",)),
    "MATMUL": ("matmul", ("matA", "matB"), ("matC",)),
    "REDUCTION": ("reduction", ("X",), ("Y",)),
    "RESAMPLE_FWD": ("resample_forward", ("X",), ("Y",)),
    "SDPA_FWD": ("attention_forward", ("Q", "K", "V", "scale"), ("O", "stats")),
    "NORM_BACKWARD": ("normalization_backward", ("DY", "X", "Mean", "InvVariance", "Scale"), ("DScale", "DBias", "DX")),
    "NORM_FORWARD": ("normalization_forward",
                     ("X", "Scale", "Bias", "epsilonDesc", "expavgfactorDesc", "InRunningMean", "InRunningVar"),
                     ("Y", "Mean", "InvVariance", "OutRunningMean", "OutRunningVar")),
}
GRAPHS = ("fused", "dilated", "uneven", "volume", "matmul", "matmul fused", "reduction", "pooling", "layer norm",
          "batch norm", "norm backward", "attention", "attention of parts", "matmul of relu", "by number",
          "text convolution", "text fused", "text matmul", "tuned")
MODES = ("pointwiseMode", "reductionOp")  # and "mode" of normalizations and resampling


def name_of(node):
    return OPERANDS[node["operation"].removeprefix("CUDNN_BACKEND_OPERATION_").removesuffix("_DESCRIPTOR")]


# The operands whose addresses an execution records: two inputs, one output.
ADDRESSED = {
    "convolution_forward": ("X", "W", "Y"), "convolution_backward_data": ("dY", "W", "dX"),
    "convolution_backward_weights": ("X", "dY", "dW"), "attention_forward": ("Q", "K", "O"),
    "matmul": ("matA", "matB", "matC"), "resample_forward": ("X", "X", "Y"),
    "normalization_forward": ("X", "Scale", "Y"), "normalization_backward": ("X", "DY", "DX"),
}


def main_of(graph):
    """The operation that names the graph: the costliest kind."""
    names = [name_of(node)[0] for node in graph["nodes"]]
    first = next((names.index(name) for name in ADDRESSED if name in names), 0)
    return graph["nodes"][first]


def addresses_of(graph):
    """By the victim's variant pack (AddressOf in plans.cc). A tensor between fused operations has no address: the input
    or output of their chain stands for it."""
    virtual = {tensor["name"] for tensor in graph["tensors"] if tensor["isVirtual"]}
    producers = {node[port]: node for node in graph["nodes"] for port in name_of(node)[2] if port in node}
    consumers = {node[port]: node for node in graph["nodes"] for port in name_of(node)[1] if port in node}
    main = main_of(graph)
    ports = ADDRESSED.get(name_of(main)[0])
    if ports is None:
        return [0, 0, 0]
    *inputs, output = [main[port] for port in ports]
    while output in virtual:
        output = consumers[output][name_of(consumers[output])[2][0]]
    inputs = [producers[uid]["X"] if uid in virtual else uid for uid in inputs]
    return [0x7fc000000000 + (int(uid) & 0xffff) * 4096 for uid in (*inputs, output)]


def whole(fractions):
    """Resampling states its numbers as fractions."""
    return [numerator // denominator for numerator, denominator in fractions]


def window_of(node):
    """Pads before and after, strides, dilations (a pooling's window)."""
    if "windowDim" in node:
        return tuple(whole(node[name]) for name in ("prePad", "postPad", "stride", "windowDim"))
    if "dilation" not in node:
        return ([], [], [], [])
    pad = node.get("pad")
    return (node.get("pad_lower", pad), node.get("pad_upper", pad), node["stride"], node["dilation"])


def recorded_window(message):
    return tuple(message.get(name, []) for name in ("pad", "post_pad", "stride", "dilation"))


class Plans(genuine.Case):
    def compare(self, said, call):
        """One executed plan."""
        self.assertEqual(call.status, said["status"])
        self.assertNotEqual(call.status, 0, "there is no device")
        cudnn = e2e.one(call.op, "cudnn")
        plan = e2e.one(cudnn, "plan")
        self.check_fields(cudnn, {"workspace_bytes": said["workspace"], "pack_seen_before": said["seen_before"],
                                  "algorithm": -1, "math_type": -1, "mode": -1})
        self.check_fields(plan, {
            "engine": said["engine"], "chooser": said["chooser"], "heuristic_mode": said["mode"],
            "heuristic_rank": said["rank"], "heuristic_requested": said["requested"],
            "heuristic_results": said["returned"], "failed_before": said["failed_before"]})
        self.assertEqual(plan.get("numerical_note", []), said["numerical"])
        self.assertEqual(plan.get("behavior_note", []), said["behavior"])
        knobs = [[e2e.one(knob, "type", 0), e2e.one(knob, "value", 0)] for knob in plan.get("knob", [])]
        self.assertEqual(knobs, said["knobs"])
        engine = said["plan"]["engine"]
        self.assertEqual(said["engine"], engine["engineId"])
        chosen = {graph_number(name): value for name, value in engine["knobChoices"].items() if value != -1}
        self.assertEqual({type: value for type, value in knobs if value != -1}, chosen)
        if said["chooser"] == "CACHED":
            self.assertEqual(call.addresses, [0, 0, 0])
        else:
            graph = said["plan"]["operationGraph"]
            self.compare_graph(graph, cudnn, plan)
            self.assertEqual(call.addresses, addresses_of(graph))
        self.assertGreater(e2e.one(plan, "build_ticks", 0), 0)

    def compare_graph(self, graph, cudnn, plan):
        ours = {e2e.one(t, "uid", 0): (e2e.one(t, "type"), t["dim"], t["stride"], e2e.one(t, "is_virtual", False),
                                       e2e.one(t, "by_value", False)) for t in cudnn["tensor"]}
        theirs = {int(t["name"]): (TYPES[t["dataType"]], t["dim"], t["stride"], t["isVirtual"], t["isByValue"])
                  for t in graph["tensors"]}
        self.assertEqual(ours, theirs)
        self.assertEqual(len(ours), len(cudnn["tensor"]), "a tensor twice")
        # The library sorts the operations by their dependencies: here by their outputs.
        ours = sorted(plan["node"], key=lambda node: min(node["output_uid"]))
        theirs = sorted(graph["nodes"], key=lambda node: min(int(node[p]) for p in name_of(node)[2] if p in node))
        self.assertEqual(len(ours), len(theirs))
        for pair in zip(ours, theirs, strict=True):
            self.compare_node(*pair)
        main = main_of(graph)
        self.assertEqual(e2e.one(cudnn, "operation"), name_of(main)[0])
        if "dilation" in main:
            self.assertEqual(recorded_window(cudnn), window_of(main))
            self.check_fields(cudnn, {"groups": main.get("groupCount", 1), "compute_type": TYPES[main["mathPrec"]],
                                      "convolution_mode": graph_number(main["mode"])})

    def compare_node(self, ours, theirs):
        name, inputs, outputs = name_of(theirs)
        self.assertEqual(e2e.one(ours, "operation"), name)
        for field, ports in (("input_uid", inputs), ("output_uid", outputs)):
            self.assertEqual(sorted(ours[field]), sorted(int(theirs[port]) for port in ports if port in theirs), name)
        self.assertEqual(recorded_window(ours), window_of(theirs), name)
        if "mathPrec" in theirs or "compType" in theirs:
            self.assertEqual(e2e.one(ours, "compute_type"), TYPES[theirs.get("mathPrec", theirs.get("compType"))])
        if name.startswith("convolution"):
            self.assertEqual(e2e.one(ours, "convolution_mode", 0), graph_number(theirs["mode"]))
            return
        modes = [theirs[port] for port in (*MODES, "mode") if port in theirs]
        self.assertEqual(ours.get("mode", []), [str(graph_number(mode)) for mode in modes], name)

    def compare_all(self, pairs):
        for said, call in pairs:
            with self.subTest(plan=said["name"], rank=said["rank"]):
                self.compare(said, call)
        numbers = [e2e.one(e2e.one(e2e.one(call.op, "cudnn"), "plan"), "number") for _, call in pairs]
        self.assertEqual(numbers, sorted(numbers), "plans are numbered as they are made")

    def check_networks(self, host, step):
        pairs = self.said_and_recorded(host, "cudnnBackendExecute".__eq__, "plans", genuine.cudnn(), genuine.DEVICE,
                                       self.out, str(step))
        self.compare_all(pairs)
        return pairs

    def test_networks(self):
        """The convolutions of AlexNet, VGG-16, ResNet-50 and MobileNet: all directions, types, orders, modes."""
        pairs = self.check_networks("launcher", 1)
        self.assertGreaterEqual(len(pairs), 1000)
        words = collections.Counter(word for said, _ in pairs for word in said["name"].split()[1:])
        for word in ("forward", "backward_data", "backward_filter", "f32", "f16", "bf16", "nchw", "nhwc"):
            self.assertGreater(words[word], 200, word)
        for network in ("alexnet", "vgg16", "resnet50", "mobilenet"):
            self.assertGreater(sum(said["name"].startswith(network) for said, _ in pairs), 100, network)
        modes = collections.Counter(said["mode"] for said, _ in pairs)
        self.assertEqual(set(modes), {0, 1, 2, 3})
        self.assertGreater(len({said["engine"] for said, _ in pairs}), 10)

    def test_preloaded(self):
        """The library reports the same to the program with dlhook and without."""
        self.assertGreater(len(self.check_networks("writer", 5)), 200)
        recorded = self.lines()
        argv = [genuine.VICTIM, "plans", genuine.cudnn(), genuine.DEVICE, self.out, "5"]
        self.assertEqual(e2e.run(argv, env=e2e.clean_environment()).code, 0)
        self.assertEqual(self.lines(), recorded)

    def test_graphs(self):
        """Other graphs, engines compiled at run time (hence a driver), other ways to get a plan."""
        pairs = self.said_and_recorded("launcher", "cudnnBackendExecute".__eq__, "graphs", genuine.cudnn(),
                                       genuine.DEVICE, self.out, LD_LIBRARY_PATH=genuine.DRIVER)
        self.compare_all(pairs)
        self.assertEqual({said["name"] for said, _ in pairs}, set(GRAPHS))
        self.assertTrue(any(said["failed_before"] > 0 for said, _ in pairs))
        self.check_report(e2e.Run(self.run_path).table("ops"))

    def check_report(self, rows):
        """Plans from text are read like those from descriptors, attention in one piece has the same cost as in parts."""
        calls = collections.Counter()
        for row in rows:
            calls[row["kind"], row["problem"]] += row["calls"] or 0
        # fused 3, by number 1, text convolution 2, text fused 2
        self.assertEqual(calls["convolution", "mb32_ic64oc64_ih56oh56kh3sh1dh0ph1_iw56ow56kw3sw1dw0pw1"], 8)
        self.assertEqual(calls["matmul", "12x128x64:12x64x96"], 6)  # plain 2, fused 2, text 2
        flops = {row["flops"] for row in rows if row["kind"] == "attention"}
        self.assertEqual(flops, {4 * (4 * 12 * 256 * 64) * 256})


if __name__ == "__main__":
    e2e.main()
