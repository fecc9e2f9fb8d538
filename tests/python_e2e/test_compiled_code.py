"""What torch.compile kept is read when the interpreter ends, with each interpreter of the machine and without PyTorch. The
program does not notice, whatever its torch._dynamo looks like. (The real one: tests/frameworks/test_compiled.py.)"""

import os
import signal
import sys
import types
import unittest

import stacks
from stacks import e2e

LIBRARY = os.environ.get("DLHOOK_TEST_BLAS", "libopenblas.so.0")
READER = [os.path.join(stacks.HERE, "..", "..", "preload", "python", name) for name in ("compiled_calls.py", "compiled_code.py")]

GRAPH = """class GraphModule(torch.nn.Module):
    def forward(self, primals_1: "f32[8, 3][3, 1]cpu", primals_2: "f32[4, 3][3, 1]cpu", primals_3: "f32[8, 8][8, 1]cpu"):
        # File: /srv/net.py:6 in forward, code: return self.b(self.a(x))
        permute: "f32[3, 8][1, 3]cpu" = torch.ops.aten.permute.default(primals_1, [1, 0]);  primals_1 = None
        mm: "f32[4, 8][8, 1]cpu" = torch.ops.aten.mm.default(primals_2, permute);  permute = None
        mm_1: "f32[4, 8][8, 1]cpu" = torch.ops.aten.mm.default(mm, primals_3)
        mm_2: "f32[4, 8][8, 1]cpu" = torch.ops.aten.mm.default(mm_1, mm_1)
        return (mm_2, primals_2, mm)
"""
SOURCE = """
def call(self, args):
        buf0 = empty_strided_cpu((4, 8), (8, 1), torch.float32)
        extern_kernels.mm(primals_2, reinterpret_tensor(primals_1, (3, 8), (1, 3), 0), out=buf0)
        buf1 = empty_strided_cpu((4, 8), (8, 1), torch.float32)
        extern_kernels.mm(buf0, primals_3, out=buf1)
        cpp_fused_relu_0(buf1)
        buf2 = torch.ops.aten.mm.default(buf1, buf1)
        return (buf2, primals_2, reinterpret_tensor(buf0, (4, 8), (8, 1), 0), )

def get_args():
"""

# The same with cpp_wrapper, where it reports its calls.
CPP = """
    RAIIAtenRecordFunctionHandle record_aoti_torch_cpu_mm_out_("aoti_torch_cpu_mm_out", nullptr);
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(primals_2, &tmp_primals_2_0));
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_cpu_mm_out(buf0, RAIIAtenTensorHandle(tmp_primals_2_0), reinterpreted(primals_1)));
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_cpu_mm_out(buf1, buf0, primals_3));
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_cpu_mm(buf1, buf1, &buf2_handle));
    output_handles[0] = buf2.release();
    output_handles[1] = primals_2.release();
    output_handles[2] = buf0.release();
"""

# With annotations, as PyTorch 2.13 writes them.
ANNOTATED = """class GraphModule(torch.nn.Module):
    def forward(self, primals_1: "f32[8, 3][3, 1]cpu", primals_2: "f32[4, 3][3, 1]cpu"):
        # Annotation: {'dlhook': 'L[self].a'} File: /srv/net.py:6 in forward, code: return self.b(self.a(x))
        permute: "f32[3, 8][1, 3]cpu" = torch.ops.aten.permute.default(primals_1, [1, 0]);  primals_1 = None
        mm: "f32[4, 8][8, 1]cpu" = torch.ops.aten.mm.default(primals_2, permute);  permute = None

        # Annotation: {'dlhook': 'L[self].b'} File: /srv/net.py:6 in forward, code: return self.b(self.a(x))
        exp: "f32[4, 8][8, 1]cpu" = torch.ops.aten.exp.default(mm);  mm = None
        sum_1: "f32[4][1]cpu" = torch.ops.aten.sum.dim_IntList(exp, [1])

        # No stacktrace found for following nodes
        full: "f32[4, 8][8, 1]cpu" = torch.ops.aten.full.default([4, 8], 1)
        mul: "f32[4, 8][8, 1]cpu" = torch.ops.aten.mul.Tensor(exp, full);  exp = full = None

        # File: /srv/net.py:7 in forward, code: return y + 1
        add: "f32[4, 8][8, 1]cpu" = torch.ops.aten.add.Tensor(mul, 1);  mul = None
        return (add, sum_1)
"""
LOOPS = """
def call(self, args):
        # [Provenance debug handles] extern_kernels.mm:1
        extern_kernels.mm(primals_2, reinterpret_tensor(primals_1, (3, 8), (1, 3), 0), out=buf0)
        # [Provenance debug handles] cpp_fused_exp_0:2
        cpp_fused_exp_0(buf0, buf1)
        # [Provenance debug handles] cpp_fused_add_1:3
        cpp_fused_add_1(buf1, buf2)
        # [Provenance debug handles] cpp_fused_2:4
        cpp_fused_2(primals_1, buf3)
"""
MAPPING = """{"cppCodeToPost": {"extern_kernels.mm:1": ["exp", "mm", "permute"], "cpp_fused_exp_0:2": ["exp", "sum_1", "mm"],
 "cpp_fused_add_1:3": ["add", "mul", "full", "sum_1"], "cpp_fused_2:4": ["primals_1"]}}"""


class CompiledTrace(stacks.PythonTrace):
    def __init__(self):
        super().__init__()
        self.compiled = []

    def add(self, packet):
        if "compiled_code" in packet:
            self.compiled.append({name: values[0] for name, values in packet["compiled_code"][0].items()})
        super().add(packet)


class CompiledCode(e2e.Case):
    def record(self, version, kept):
        program = stacks.interpreter(version)
        if program is None:
            self.skipTest(f"no Python {version}")
        self.fresh_run()
        result = self.under("writer", [program, stacks.victim("compiled"), LIBRARY, kept])
        if kept == "interrupted":
            self.assertEqual((result.code, result.out, result.err.splitlines()[-1]), (-signal.SIGINT, b"done\n", b"KeyboardInterrupt"))
        else:
            self.assertEqual((result.code, result.out, result.err), (0, b"done\n", b""))
        (trace,) = stacks.traces(e2e.Run(self.run_path), CompiledTrace)
        self.assert_no_loss(trace)
        states = [(e2e.one(c, "state"), e2e.one(c, "reason", "")) for c in trace.capabilities if e2e.one(c, "name") == "compiled-code"]
        return trace.compiled, states

    def check(self, version):
        compiled, states = self.record(version, "kept")
        where = {"file": "/srv/net.py", "line": 6, "function": "forward"}
        self.assertEqual(compiled, [
            {"kind": "COMPILATION", "region": "0/0", "compile_ns": 1500000, "count": 3, **where},
            {"kind": "COMPILATION", "region": "0/0", "is_backward": True, "compile_ns": 1500000},
            {"kind": "COMPILATION", "region": "0/1", "compile_ns": 1500000, "count": 3, "text": "0/0: k == 1 (größe.py:9)", **where},
            {"kind": "GRAPH_BREAK", "count": 2, "text": "Unsupported Tensor.item() call. PyTorch: Do otherwise.", **where, "line": 8}])
        self.assertEqual(states[-1], ("ON", "read when the interpreter ended"))
        self.assertEqual(self.record(version, "interrupted"), (compiled, states))
        self.assertEqual(self.record(version, "forks"), (compiled, states))
        compiled, states = self.record(version, "changed")
        self.assertEqual([fact["kind"] for fact in compiled], ["GRAPH_BREAK"])
        self.assertEqual(states[-1], ("REFUSED", "compilations: KeyError: 'compile_id'"))
        self.assertEqual(self.record(version, "nothing"), ([], []))
        self.assertEqual(self.record(version, "leaves")[1][-1][0], "REFUSED")

    def test_a_compiler_leaves_room_for_the_programs_stacks(self):
        self.assertEqual(self.record("{}.{}".format(*sys.version_info), "much")[0], [])
        (trace,) = stacks.traces(e2e.Run(self.run_path), stacks.PythonTrace)
        outermost = [stack[0][0] for stack in trace.stack_of.values()]
        self.assertEqual(outermost[-1], "/srv/after.py")
        compilers = [stack for stack in trace.stack_of.values() if "convert_frame" in stack[0][0]]
        self.assertEqual((len(compilers), max(map(len, compilers))), (5000, 64))
        self.assertGreater(len(set(compilers)), 1000)


class Reader(unittest.TestCase):
    """Which node of a graph each operator of the generated code is."""

    def setUp(self):
        empty = types.SimpleNamespace(get_compilation_metrics=list, graph_break_reasons=[])
        sys.modules["torch._dynamo.utils"] = empty
        self.addCleanup(sys.modules.pop, "torch._dynamo.utils")
        self.of = {}
        for path in READER:
            with open(path, encoding="utf-8") as text:
                exec(text.read(), self.of)  # pylint: disable=exec-used

    def matched(self, source, graph=GRAPH):
        graph = self.of["Graph"](graph)
        calls = list(self.of["library_calls"](source, {name for name, _ in graph.inputs}))
        return [(node and graph.calls.index(node), by_order) for node, by_order in self.of["match"](calls, graph.calls)]

    def test_inputs_and_outputs_tell_operators_apart(self):
        self.assertEqual(self.matched(SOURCE), [(0, False), (1, False), (2, False)])

    def test_operators_of_generated_cpp(self):
        self.assertEqual(self.matched(CPP), [(0, False), (1, False), (2, False)])
        self.assertEqual([call.name for call in self.of["library_calls"](CPP, set())],
                         ["aoti_torch_cpu_mm_out", "aoti_torch_cpu_mm_out", "aoti_torch_cpu_mm"])
        self.assertEqual(self.matched(CPP.replace("primals_", "arg")), [(0, False), (1, False), (2, False)])
        self.assertEqual(self.matched(CPP.replace("RecordFunction", "")), [])

    def test_parts_that_become_cuda_graphs(self):
        """Their own outputs are in another order."""
        first, rest = SOURCE.split("        cpp_fused_relu_0(buf1)\n")
        part = first.replace("def call(self, args)", "def partition_0(args)") + "        return (buf1, buf0)\n"
        whole = part + "class Runner:\n    def call(self, args):\n        (buf1, buf0) = self.partitions[0]([primals_1])\n" + rest
        self.assertEqual(self.matched(whole.replace("primals_", "arg")), [(0, False), (1, False), (2, False)])

    def test_inputs_alone_tell_operators_apart(self):
        turned = SOURCE.replace("primals_2, reinterpret_tensor(primals_1,", "primals_3, reinterpret_tensor(buf9,")
        turned = turned.replace("(buf0, primals_3", "(buf0, primals_2").replace("return (buf2", "return (buf9")
        turned = turned.replace("tensor(buf0, (4", "tensor(buf8, (4")
        self.assertEqual(self.matched(turned), [(1, False), (0, False), (2, False)])

    def test_outputs_alone_tell_operators_apart(self):
        self.assertEqual(self.matched(SOURCE.replace("primals_", "arg")), [(0, False), (1, False), (2, False)])

    def test_sizes_that_differ_are_another_operator(self):
        other = SOURCE.replace("buf0 = empty_strided_cpu((4, 8)", "buf0 = empty_strided_cpu((5, 8)")
        self.assertEqual(self.matched(other)[0], (None, False))

    def test_the_order_decides_only_if_it_is_the_graphs(self):
        hidden = SOURCE.replace("primals_", "arg").replace("return (buf2", "return (buf9").replace("tensor(buf0, (4", "tensor(buf8, (4")
        self.assertEqual(self.matched(hidden), [(0, True), (1, True), (2, True)])
        fewer = hidden.replace("        buf2 = torch.ops.aten.mm.default(buf1, buf1)\n", "")
        self.assertEqual(self.matched(fewer), [(None, False), (None, False)])

    def kernels(self, annotated=ANNOTATED, self_name="self", again=(), is_backward=False):
        graph = types.SimpleNamespace(inductor_post_grad_graph_str=annotated, inductor_provenance_mapping_str=MAPPING,
                                      source_code=LOOPS, fx_kwargs={"graph_id": 7, "is_backward": is_backward})
        return list(self.of["annotated_kernels"](graph, self_name, {"primals_1": ".a"}, again))

    def test_loops_have_the_modules_of_their_operations(self):
        loops = ["aten::mm", "graph_7_cpp_fused_exp_0", "graph_7_cpp_fused_add_1", "graph_7_cpp_fused_2"]
        self.assertEqual(self.kernels(), list(zip(loops, [{".a": 1 * 32}, {".b": 64}, {"": 32, ".b": 64}, {".a": 1}], [0] * 4)))
        other = ANNOTATED.replace("'L[self].b'", "'G[net].b'")
        self.assertEqual(self.kernels(other)[1][1], {"b": 64})
        self.assertEqual(self.kernels(other, "")[1][1], {"net.b": 64})

    def test_loops_that_only_copy_have_the_modules_of_their_copies(self):
        """As autocast's copies of weights."""
        copy = "torch.ops.prims.convert_element_type.default(mm, torch.bfloat16)"
        casts = ANNOTATED.replace("torch.ops.aten.exp.default(mm)", copy)
        self.assertEqual(self.kernels(casts)[1][1], {".b": 32})  # sum_1 alone computes
        casts = casts.replace("torch.ops.aten.sum.dim_IntList(exp, [1])", copy)
        self.assertEqual(self.kernels(casts)[1][1], {".b": 64})

    def test_sums_of_gradients_have_the_module_of_their_operands(self):
        """Also where a library's result is between, of which only the items are used."""
        got = '        got: "f32[4, 8][8, 1]cpu" = exp[0]\n'
        item = ANNOTATED.replace("(mul, 1)", "(got, 1)").replace("        mul: ", got + "        mul: ")
        for graph in (ANNOTATED, item):
            self.assertEqual(self.kernels(graph)[2][1], {"": 32, ".b": 64})
            self.assertEqual(self.kernels(graph, is_backward=True)[2][1], {".b": 96})

    def test_a_constant_says_nothing_of_modules(self):
        """The compiler has one of a kind, of the first module that needs it."""
        shared = ANNOTATED.replace("        # No stacktrace found for following nodes\n", "")
        shared = shared.replace("        mul: ", "\n        # No stacktrace found for following nodes\n        mul: ")
        shared = shared.replace("L[self].b", "L[self].a").replace("(exp, full)", "(full, full)")
        self.assertEqual(self.kernels(shared)[2][1], {"": 64, ".a": 32})

    def test_code_is_found_through_a_method_of_its_class(self):
        """As PyTorch 2.14 holds it."""
        class Code:
            pass

        class CompiledFunction(dict):  # has a method of C's
            code = Code()

        def run(apply=CompiledFunction.fromkeys):
            return lambda: apply

        self.assertEqual(list(self.of["compiled_graphs"](run(), Code)), [CompiledFunction.code])

    def test_what_the_forward_pass_computed_before(self):
        backward = GRAPH.replace("default(mm, primals_3)", "default(mm, permute)").replace("permute = None", "permute = mm = None")
        backward = backward.replace("default(mm_1, mm_1)", "default(mm_1, tangents_1)")
        again = self.of["Graph"](backward).done_again(self.of["Graph"](GRAPH))
        self.assertEqual(again, {"permute", "mm"})
        self.assertEqual([kernel[2] for kernel in self.kernels(again={"exp", "sum_1", "add", "mm"})], [3, 3, 0, 0])

    def test_random_numbers_that_are_drawn_again(self):
        """Two calls that nothing tells apart: both are the forward pass's."""
        call = "torch.ops.higher_order.run_with_rng_state(rng_state_output_%d, torch.ops.aten.attention.default, %s)"
        graph = GRAPH.replace("        return", "".join(
            "        drawn_%d = %s\n" % (i, call % (i, name)) for i, name in enumerate(("mm", "mm_1"))) + "        return")
        source = SOURCE.replace("        return", "".join(
            "        buf%d = %s\n" % (7 + i, call % (1 - i, "buf%d" % (1 - i))) for i in range(2)) + "        return")
        graph = self.of["Graph"](graph)
        kernels = list(self.of["kernels_of"](graph, source, True, {}, [], graph.done_again(self.of["Graph"](GRAPH)) - {"mm"}))
        self.assertEqual([(kernel[0], kernel[2]) for kernel in kernels[-2:]], [("aten::attention", self.of["RECOMPUTE"])] * 2)

    def test_tritons_kernels_have_their_own_names(self):
        graph = types.SimpleNamespace(inductor_post_grad_graph_str=ANNOTATED, fx_kwargs={"graph_id": 7},
                                      source_code="def call(\n# [Provenance debug handles] triton_poi_exp_0:1\n",
                                      inductor_provenance_mapping_str='{"cppCodeToPost": {"triton_poi_exp_0:1": ["exp"]}}')
        self.assertEqual(list(self.of["annotated_kernels"](graph, "self", {}, ())), [("triton_poi_exp_0", {".b": 32}, 0)])

    def test_kernels_of_libraries_keep_what_they_compute(self):
        libraries = [("aten::mm", {}, self.of["WEIGHTS"], False)]
        kernels = list(self.of["with_loops"](libraries, self.kernels()))
        self.assertEqual([kernel[2] for kernel in kernels], [self.of["WEIGHTS"], 0, 0, 0])
        facts = [fact.split("\0") for fact in self.of["kernel_facts"]("0/0", 0, True, kernels)]
        kinds = [int(fact[0]) for fact in facts]
        kernel, part = self.of["KERNEL"], self.of["KERNEL_PART"]
        self.assertEqual(kinds, [kernel, kernel, kernel, part, part, kernel])
        self.assertEqual([(fact[6], fact[9]) for fact in facts if int(fact[0]) == part], [("32", ""), ("64", ".b")])

    def test_modules_of_parameters(self):
        def modules_of(*sources):
            return self.of["modules_of"](dict(enumerate(sources)), "self")

        own, own_deep = "L['self']._parameters['weight']", "L['self']._modules['b']._modules['0']._parameters['weight']"
        net, other = "G['net']._modules['fc']._parameters['weight']", "L['other']._parameters['weight']"
        self.assertEqual(modules_of(own, own_deep, net), {0: ".", 1: ".b.0", 2: "fc"})
        self.assertEqual(modules_of(net, other), {0: "net.fc", 1: "other"})
        self.assertEqual(modules_of("L['x']", "L['self']._buffers['mean']", None), {})


for each in stacks.VERSIONS:
    setattr(CompiledCode, "test_" + each.replace(".", "_"), lambda self, version=each: self.check(version))

if __name__ == "__main__":
    e2e.main()
