"""The TraceMe tap: scopes are the nodes that TensorFlow's own profiler sees, and its output is unchanged."""

import collections
import os

import nodes
from nodes import Case, e2e, is_node, layer_of, program

LAYERS = ["conv1", "pool1", "conv2", "pool2", "conv3", "conv4", "conv5", "pool5", "flatten", "fc1", "fc2", "fc3"]
NO_NODES = {"flatten"}  # a reshape, which the graph's optimizer folds
MODES = ("fit", "loop", "predict")
DURATION_NS = 2  # both are truncated to whole ticks, or nanoseconds


def end_of(event):
    return event.start_ns + event.duration_ns


def totals(events):
    """{(layer, is gradient): ns} of the nodes."""
    found = collections.Counter()
    for event in events:
        if is_node(event.name) and layer_of(event.name):
            found[layer_of(event.name)] += event.duration_ns
    return found


class Nodes(Case):
    def profiled(self, mode, host="launcher"):
        """One process: dlhook's record, and the events of TensorFlow's profiler in its second round."""
        path = os.path.join(self.folder, "events.json")
        trace = self.scopes_of(program("alexnet", mode, 3, path), host)
        self.assert_no_loss(trace)
        return list(nodes.recorded_events(trace)), self.events(path)

    def window(self, ours, theirs):
        """Nodes of both in the profiler's session, in the order of their ends. The program's output before and at its
        end bounds it."""
        ends = {event.name: end_of(event) for event in ours}
        begin, end = ends["before the session"], ends["in the session"]
        ours = [e for e in ours if is_node(e.name) and begin < end_of(e) < end]
        return sorted(ours, key=end_of), sorted((e for e in theirs if is_node(e.name)), key=end_of)

    def test_the_profiler_sees_the_same_nodes(self):
        for mode, host in zip(MODES, ("launcher", "writer", "launcher")):
            with self.subTest(mode):
                ours, theirs = self.window(*self.profiled(mode, host))
                self.assertGreater(len(theirs), 3 * len(LAYERS) - 3)
                self.assertEqual(collections.Counter(e.name for e in ours), collections.Counter(e.name for e in theirs))
                by_name = collections.defaultdict(list)
                for event in ours:
                    by_name[event.name].append(event)
                for event in theirs:  # matched by name and position among that name
                    mine = by_name[event.name].pop(0)
                    self.assertAlmostEqual(mine.duration_ns, event.duration_ns, delta=DURATION_NS)
                ours, theirs = totals(ours), totals(theirs)
                self.assertEqual(set(ours), set(theirs))
                for layer, total_ns in theirs.items():
                    self.assertAlmostEqual(ours[layer], total_ns, delta=0.1 * total_ns)

    def test_names_are_the_models_layers(self):
        for mode in MODES:
            with self.subTest(mode):
                self.fresh_run()
                result = self.under("writer", program("alexnet", mode, 2))
                self.assertEqual(result.out.decode().split(), LAYERS)
                trace = nodes.scopes.trace(e2e.Run(self.run_path))
                found = {layer_of(s.name) for s in trace.scopes if s.kind == "GRAPH_NODE"} - {None}
                expected = {layer for layer in LAYERS if layer not in NO_NODES}
                self.assertEqual({layer for layer, backward in found if not backward}, expected)
                backward = {layer for layer, backward in found if backward}
                self.assertEqual(backward, set() if mode == "predict" else expected)
                self.assertEqual(trace.capability("trace-me-tap"), ("ON", ""))

    def test_layers_enclose_the_librarys_calls(self):
        """Each convolution of oneDNN's log is in exactly one node, which is a convolution."""
        trace = self.scopes_of(program("alexnet", "fit", 2))
        logged = [call for call in trace.calls if "onednn" in call.op]
        convolutions = [c for c in logged if e2e.one(e2e.one(c.op, "onednn"), "primitive") == "convolution"]
        self.assertEqual(len(convolutions), 2 * (5 + 5 + 4))  # forward, weights; no data gradient for the first layer
        for call in convolutions:
            mine = [s for s in trace.scopes if s.kind == "GRAPH_NODE" and s.thread == call.thread_id]
            start = call.end_ticks - call.duration
            around = [s.name for s in mine if s.start <= start and call.end_ticks <= s.end]
            self.assertEqual(len(around), 1, around)
            self.assertIn("Conv2D", around[0])


class Transparency(Case):
    def test_the_users_profiler(self):
        """The same nodes as without dlhook, and no other kinds of events; three rounds, of which the profiler sees one."""
        seen = []
        for host in (None, "launcher", "writer"):
            path = os.path.join(self.folder, f"{host}.json")
            argv = program("alexnet", "fit", 2, path)
            plainly = host is None
            environment = e2e.clean_environment()
            result = e2e.run(argv, env=environment, cwd=self.folder) if plainly else self.under(host, argv)
            self.fresh_run()
            self.assertEqual(result.code, 0, result.err.decode()[-2000:])
            self.assertEqual(result.out.decode().split(), LAYERS)
            seen.append(self.events(path))
        plain = seen[0]
        for events in seen[1:]:
            ours, theirs = (collections.Counter(e.name for e in of if is_node(e.name)) for of in (events, plain))
            self.assertEqual(ours, theirs)
            # Which thread of the input pipeline waits for which differs between runs.
            names, plain_names = ({e.name.split("[")[0] for e in of if "onsume" not in e.name} for of in (events, plain))
            self.assertLess(len(names ^ plain_names), 0.1 * len(plain_names), names ^ plain_names)

    def test_events_across_the_ends_of_a_session(self):
        """TensorFlow gets the same events as without dlhook: those that begin and end in the session. dlhook gets them
        all."""
        path = os.path.join(self.folder, "events.json")
        trace = self.scopes_of(program("alexnet", "predict", 1, path), "writer")
        mine = {"begun before the session", "in the session", "ended after the session"}
        self.assertEqual({e.name for e in self.events(path)} & mine, {"in the session"})
        self.assertEqual({s.name for s in trace.scopes} & mine, mine)

    def test_a_session_without_nodes(self):
        # The recorder's own functions, which in this release can be given another level only from C++.
        code = """
import ctypes, tensorflow as tf
def layer(name):
    tf.function(lambda x: tf.raw_ops.Relu(features=x, name=name) * x)(tf.random.normal((4, 4)))
layer("first")
interposed = ctypes.CDLL(None)
assert interposed._ZN3tsl8profiler15TraceMeRecorder5StartEi(1) & 1
layer("second")
events = ctypes.create_string_buffer(24)
interposed._ZN3tsl8profiler15TraceMeRecorder4StopEv(events)
layer("third")
"""
        trace = self.scopes_of([nodes.PYTHON, "-B", "-c", code], "writer")
        states = [e2e.one(c, "state") for c in trace.capabilities if e2e.one(c, "name") == "trace-me-tap"]
        self.assertEqual(states, ["ON", "LOST", "ON"])
        ran = [s.name.rsplit("/", 1)[-1] for s in trace.scopes if s.kind == "GRAPH_NODE"]
        self.assertEqual([name for name in ran if name.endswith(":Relu")], ["first:Relu", "third:Relu"])

    def test_switched_off(self):
        for extra in ({"DLHOOK_SCOPES": "off"}, {"DLHOOK_CAPTURE": "-trace_me"}):
            with self.subTest(extra):
                trace = self.scopes_of(program("alexnet", "predict", 1), **extra)
                self.assertEqual([s for s in trace.scopes if s.kind in ("GRAPH_NODE", "TRACE_ME")], [])
                self.assertEqual(trace.capability("trace-me-tap")[0], "OFF")

    def test_importing_leaves_no_file(self):
        argv = [nodes.PYTHON, "-B", "-c", "import tensorflow"]
        result = self.under("writer", argv)
        self.assertEqual(result.code, 0, result.err.decode()[-2000:])
        self.assertEqual(e2e.Run(self.run_path).files(), [])


if __name__ == "__main__":
    e2e.main()
