"""torch.compile: compiled functions as rows, with the modules of the products in them; what was compiled, why again, and where
graphs were broken, against what PyTorch itself counted."""

import collections
import json
import os
import types

import frameworks
from frameworks import e2e

import databases

# The program's clock stands around the call from Python; scopes begin and end inside of the loop.
CALL_NS = 50_000
SHIMS_PYTHON = os.path.join(frameworks.HERE, "..", "..", "preload", "python")


class Compiled(frameworks.Case):
    def test_regions_modules_and_reasons(self):
        self.fresh_run()
        cache = os.path.join(self.folder, "inductor")
        result = self.under("writer", frameworks.program("compiled_net"), TORCHINDUCTOR_CACHE_DIR=cache, TORCHINDUCTOR_COMPILE_THREADS="1")
        self.assertEqual(result.code, 0, result.err.decode()[-2000:])
        counted = json.loads(result.out.decode().splitlines()[-1])
        run = e2e.Run(self.run_path)
        rows = run.table("compiled")
        regions = [row for row in rows if row["what"] != "graph break"]
        self.assertEqual([row["region"] for row in regions], counted["regions"])
        self.assertEqual(len([row for row in regions if row["operations"] > 0]), counted["graphs"])
        breaks = [row for row in rows if row["what"] == "graph break"]
        self.assertEqual(sum(row["times"] for row in breaks), counted["breaks"])
        self.assertEqual([row for row in regions if row["what"] == "limit reached"], [])
        for row in breaks:
            self.assertRegex(row["reason"], r"graph_break\(\)")
        first = regions[0]
        self.assertEqual((first["function"], first["times"], first["kernels"], first["named_kernels"]), ("forward", 40, 9, 9))
        turned, = [row for row in regions if "turned" in (row["reason"] or "")]
        self.assertEqual((turned["what"], turned["times"]), ("compiled again", 20))
        self.check_layers({row["layer"]: row for row in run.table("layers")})
        self.check_first_steps(run)
        reading, = [row for row in run.table("capabilities") if row["name"] == "compiled-code"]
        self.assertEqual(reading["state"], "on", reading)

    def test_the_limit_of_recompilations(self):
        run = self.recorded("launcher", frameworks.program("recompile_limit"))
        limit, = [row for row in run.table("compiled") if row["what"] == "limit reached"]
        self.assertEqual((limit["region"], limit["function"], limit["compile_time"]), ("0/2", "scaled", None))
        self.assertRegex(limit["line"], r"recompile_limit\.py:1\d")
        finding, = [row for row in run.table("findings") if row["rule"] == "recompile-limit"]
        self.assertEqual((finding["where"], finding["line"], finding["kind"]), ("scaled", limit["line"], "information"))
        self.assertRegex(finding["finding"], r"after 2 versions.* The last reason: 0/1: mode == 'aa' .* is not known")

    def test_loops_over_several_modules(self):
        """Their parts against the same network with a loop for each operation. Both take turns, so that others slow both."""
        self.fresh_run()
        cache = os.path.join(self.folder, "inductor")
        result = self.under("launcher", frameworks.program("compiled_loops"), TORCHINDUCTOR_CACHE_DIR=cache, DLHOOK_COMPILED="modules")
        self.assertEqual(result.code, 0, result.err.decode()[-2000:])
        printed = json.loads(result.out.decode().splitlines()[-1])
        fused, alone = printed["losses"]
        self.assertAlmostEqual(fused, alone, 4)
        run = e2e.Run(self.run_path)
        self.check_clock(run, printed["clocked"])
        self.check_first_steps(run)
        first, second = run.table("compiled")[:2]
        self.assertGreaterEqual(first["divided_kernels"], 2)  # norm and act, forward and backward
        self.assertGreater(second["named_kernels"], 3 * first["named_kernels"])
        times = {"Fused": {}, "Alone": {}}
        for row in run.table("layers"):
            if row["layer"] in ("conv", "norm", "act", "head"):
                self.assertGreater(row["forward"], 0, row)
                self.assertGreater(row["backward"], 0, row)
                times[row["model"]][row["layer"]] = row["time"]
        loops = {model: of["norm"] + of["act"] for model, of in times.items()}
        difference = times["Fused"]["norm"] / loops["Fused"] - times["Alone"]["norm"] / loops["Alone"]
        self.assertLess(abs(difference) * loops["Fused"] / sum(times["Fused"].values()), 0.05, times)

    def test_graphs_that_distributed_training_splits(self):
        self.check_split_graphs()

    def test_equal_graphs_of_several_modules(self):
        """The compiler's caches have the code of each, with its own names, though their graphs are the same."""
        self.check_split_graphs(DLHOOK_COMPILED="modules")

    def check_split_graphs(self, **variables):
        self.fresh_run()
        cache, store = os.path.join(self.folder, "inductor"), os.path.join(self.folder, "store")
        result = self.under("launcher", frameworks.program("compiled_ddp", store), TORCHINDUCTOR_CACHE_DIR=cache,
                            TORCHINDUCTOR_COMPILE_THREADS="1", **variables)
        self.assertEqual(result.code, 0, result.err.decode()[-2000:])
        self.assertEqual(result.out.decode().splitlines()[-1], "4")
        run = e2e.Run(self.run_path)
        layers = {row["layer"]: row for row in run.table("layers")}
        for name in ("first", "middle.0", "middle.1", "last"):
            row = layers["module." + name]
            self.assertGreater(row["forward"], 0, row)
            self.assertGreater(row["backward_weights"], 0, row)
            self.assertEqual(row["backward_data"] is None, name == "first", row)
        self.check_first_steps(run)

    def test_operators_of_generated_cpp(self):
        """With cpp_wrapper operators are functions of PyTorch's C interface, which report themselves by their own names."""
        reader = self.functions_of("compiled_calls.py")
        graph = types.SimpleNamespace(fx_kwargs={"graph_id": 3}, inductor_post_grad_graph_str="""
                # Annotation: {'dlhook': 'L[self].fc'} File: net.py:6 in forward
                addmm: "f32[4, 8]" = torch.ops.aten.addmm.default(primals_1, primals_3, permute)

                # Annotation: {'dlhook': 'L[self].act'} File: net.py:6 in forward
                relu: "f32[4, 8]" = torch.ops.aten.relu.default(addmm)
            """, source_code="""
                // [Provenance debug handles] aoti_torch_cpu_addmm_out:1
                // [Provenance debug handles] cpp_fused_relu_0:2
            """, inductor_provenance_mapping_str=json.dumps({"cppCodeToPost": {
                "aoti_torch_cpu_addmm_out:1": ["addmm"], "cpp_fused_relu_0:2": ["relu"]}}))
        self.assertEqual(list(reader["annotated_kernels"](graph, "self", {}, {"relu"})),
                         [("aoti_torch_cpu_addmm_out", {".fc": 32}, 0), ("graph_3_cpp_fused_relu_0", {".act": 32}, reader["RECOMPUTE"])])

    def test_names_of_graphs_inside_a_graph(self):
        """Operations of checkpointed modules are in a graph of their own; the caches' keys have their names, too."""
        hook = self.functions_of("compiled_hook.py", '\nwatch(sys.modules["torch._dynamo.output_graph"])\n')
        call = types.SimpleNamespace(op="call_function", meta={"nn_module_stack": {"fc": ("L['self'].fc", "Linear")}})
        inner = types.SimpleNamespace(graph=types.SimpleNamespace(nodes=[call]))
        outer = types.SimpleNamespace(graph=types.SimpleNamespace(nodes=[]), modules=lambda: [outer, inner, types.SimpleNamespace()])
        hook["annotate"](outer)
        self.assertEqual(call.meta["custom"], {"dlhook": "L[self].fc"})

        class Details:
            def __init__(self, gm, inputs):
                self.cache_key_tag = inputs

        hook["tell_apart"](Details)
        self.assertEqual(Details(outer, "the user's").cache_key_tag, "the user's dlhook L[self].fc")
        self.assertEqual(Details(None, "the user's").cache_key_tag, "the user's")

    def functions_of(self, name, call=""):
        """What one of the shim's Python texts defines, without what it does."""
        path = os.path.join(SHIMS_PYTHON, name)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertTrue(text.endswith(call), call)
        functions = {}
        exec(compile(text.removesuffix(call), path, "exec"), functions)  # pylint: disable=exec-used
        return functions

    def check_clock(self, run, clocked):
        """Calls of each loop, and the time that the report divides among layers for each, as the program's own clock has them."""
        took = collections.defaultdict(list)
        with databases.sqlite(self, run) as database:
            for name, ns in database.execute("SELECT name, coalesce(sum(share_ns), 0) FROM raw_scopes LEFT JOIN raw_time USING (scope_id) "
                                             "WHERE name LIKE 'graph_%' GROUP BY scope_id ORDER BY raw_scopes.start_ns"):
                took[name].append(ns)
        self.assertEqual(set(took), set(clocked))
        self.assertGreater(len(took), 20)
        for name, times in clocked.items():
            self.assertEqual(len(took[name]) * 30, len(times) * 31, name)  # the first step had no clock
            pairs = list(zip(took[name][-len(times):], times))
            near = [own for own, clock in pairs if own <= clock <= own * 1.05 + CALL_NS]
            self.assertGreater(len(near), 0.8 * len(pairs), (name, pairs))

    def check_first_steps(self, run):
        """What the compiler computes on tensors without data, in the first backward pass, is not taken for the code's operators."""
        table, = run.report("--table", "layers")["tables"]
        self.assertNotIn("operators are not those of its code", " ".join(table["notes"]))

    def check_layers(self, layers):
        for name in ("first", "part.wide", "part.narrow.0"):
            self.assertEqual((layers[name]["type"], layers[name]["matched_by"]), ("matmul", "framework"))
            self.assertGreater(layers[name]["forward"], 0)
            self.assertGreater(layers[name]["backward_weights"], 0)
        self.assertIsNone(layers["first"]["backward_data"])  # of the network's input
        self.assertGreater(layers["part.narrow.0"]["backward_data"], 0)
        recomputed = {name for name, row in layers.items() if row["recompute"]}
        self.assertEqual(recomputed, {"again.0"})  # the checkpoint keeps what goes in, and its end has no use for what comes out
        region, = [row for row in layers.values() if row["layer"].startswith("compiled region 0/0: forward")]
        self.assertRegex(region["line"], r"compiled_net\.py:\d+")


if __name__ == "__main__":
    e2e.main()
