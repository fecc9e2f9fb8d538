"""Programs of several processes: one run, and for each process that computed a trace that agrees with the process's own
output."""

import collections
import glob
import json
import os
import socket
import time

import frameworks
import scopes
from frameworks import PYTHON, computes, e2e, is_numpys_import, program

import databases
import exports

STEPS = 6
EXPORTS_PYTHON = os.environ.get("DLHOOK_TEST_EXPORTS_PYTHON", "")


class Processes(frameworks.Case):
    def check_products(self, run, done):
        """`done`: [pid, rows] of each product with 30 x 40."""
        expected = collections.defaultdict(collections.Counter)
        for pid, rows in done:
            expected[pid][rows] += 1
        found = collections.defaultdict(collections.Counter)
        for trace in run.traces():
            self.assert_no_loss(trace)
            for call in trace.top_calls():
                function, m, n, k, _ = e2e.problem(call.op)
                if (function, n, k) == ("scipy_cblas_dgemm64_", 40, 30):
                    found[trace.pid][m] += 1
        self.assertEqual(found, expected)

    def test_pool(self):
        for method, host in (("spawn", "launcher"), ("fork", "writer"), ("fork", "launcher"), ("forkserver", "writer")):
            with self.subTest(method=method, host=host):
                self.fresh_run()
                result = self.under(host, program("pool", method))
                self.assertEqual(result.code, 0, result.err.decode()[-2000:])
                done = json.loads(result.out)
                run = e2e.Run(self.run_path)
                self.check_products(run, done)
                # Helpers (forkserver, resource tracker) compute nothing and leave no trace.
                self.assertEqual({trace.pid for trace in run.traces() if computes(trace)}, {pid for pid, _ in done})

    def test_data_loader(self):
        # Its workers are forked and leave by os._exit.
        for host in ("launcher", "writer"):
            with self.subTest(host=host):
                self.fresh_run()
                result = self.under(host, program("loader"))
                self.assertEqual(result.code, 0, result.err.decode()[-2000:])
                run = e2e.Run(self.run_path)
                self.check_products(run, json.loads(result.out))
                of_parent = [e2e.problem(call.op)[:4] for trace in run.traces() for call in trace.top_calls()
                             if e2e.problem(call.op)[0] == "sgemm_"]
                self.assertEqual(of_parent, 6 * [("sgemm_", 24, 32, 48)])

    def found_run(self, argv):
        """Plain LD_PRELOAD, no DLHOOK_OUT: the one run folder of processes that compute, and the output."""
        result = e2e.run(argv, env=e2e.clean_environment(LD_PRELOAD=e2e.SHIM, OMP_NUM_THREADS=1), cwd=self.folder)
        self.assertEqual(result.code, 0, result.err.decode()[-2000:])
        runs = [e2e.Run(path) for path in glob.glob(os.path.join(self.folder, "dlhook-*"))]
        (found,) = [run for run in runs if any(map(computes, run.traces()))]
        return found, result

    def ranks_of(self, run):
        """{rank: its trace} by the variables in each process's environment."""
        ranks = {}
        for trace in scopes.traces(run):
            self.assert_no_loss(trace)
            if not computes(trace):
                continue
            variables = {e2e.one(v, "name"): e2e.one(v, "value") for v in trace.header.get("rank_variable", [])}
            self.assertEqual(variables["WORLD_SIZE"], "2")
            ranks[int(variables["RANK"])] = trace
        self.assertEqual(sorted(ranks), [0, 1])
        return ranks

    def check_training(self, run, output):
        ranks = self.ranks_of(run)
        told = [json.loads(line) for line in output.decode().splitlines()]
        self.assertEqual({rank["rank"]: rank["pid"] for rank in told},
                         {rank: trace.pid for rank, trace in ranks.items()})
        for rank in told:
            trace, batch = ranks[rank["rank"]], rank["batch"]
            products = collections.Counter(e2e.problem(call.op)[:4] for call in trace.top_calls()
                                           if not is_numpys_import(call))
            self.assertEqual(products, {("sgemm_", *shape): STEPS for shape in (
                (24, batch, 48), (10, batch, 24), (24, batch, 10), (24, 10, batch), (48, 24, batch))})
            # The reduction of the gradients appears as the framework's op.
            reductions = [scope for scope in trace.scopes if scope.name == "gloo:all_reduce"]
            self.assertGreaterEqual(len(reductions), STEPS, {scope.name for scope in trace.scopes})
        self.check_collectives(run, ranks)

    def check_collectives(self, run, ranks):
        """Tables of communication without hooks: the ranges of both ranks, and which rank was late."""
        told = collections.Counter(scope.name for trace in ranks.values() for scope in trace.scopes if scope.name.startswith("gloo:"))
        found = collections.Counter()
        for row in run.table("collectives"):
            found[row["functions"]] += row["calls"]
            self.assertTrue(row["size"], row)
        self.assertEqual(found, told)
        with databases.sqlite(self, run) as database:
            kinds = database.execute("SELECT kind, count(*) FROM raw_collectives WHERE step IS NOT NULL GROUP BY 1")
            self.assertEqual(dict(kinds)["all reduce"], 2 * STEPS)
            sizes = database.execute("SELECT DISTINCT bytes FROM raw_collectives WHERE kind = 'all reduce'").fetchall()
            self.assertEqual(sizes, [(4 * (48 * 24 + 24 + 24 * 10 + 10),)], "of all gradients")
            work = [op for (op,) in database.execute("SELECT DISTINCT op FROM raw_work")]
            self.assertTrue(work)
            self.assertEqual([op for op in work if (op or "").startswith("c10d")], [], "that is waiting for others")
            in_order = database.execute("SELECT group_concat(sequence) FROM (SELECT * FROM raw_collectives ORDER BY sequence) "
                                        "GROUP BY process_id, kind, bytes")
            for (numbers,) in in_order:
                self.assertEqual(numbers, ",".join(map(str, range(len(numbers.split(","))))))
            rows = database.execute("SELECT rank, local_rank, world_size, restart, start_unix_ns - start_ns - time_zero_unix_ns, job "
                                    "FROM raw_processes WHERE rank IS NOT NULL ORDER BY rank").fetchall()
            self.assertEqual([row[:-1] for row in rows], [(0, 0, 2, 0, 0), (1, 1, 2, 0, 0)])
            self.assertEqual(rows[0][-1], rows[1][-1])
            self.assertRegex(rows[0][-1], r"^torchrun-[-0-9a-f]{36}$")
            since = time.time() - databases.value(database, "SELECT max(time_zero_unix_ns) FROM raw_processes") / 1e9
            self.assertTrue(0 < since < 3600, since)
        rows = {row["rank"]: row for row in run.table("ranks")}
        self.assertEqual(sorted(rows), ["0", "1"])
        self.assertGreaterEqual(rows["1"]["came_last"], STEPS - 1)
        self.assertGreater(rows["1"]["lateness"], rows["0"]["lateness"])
        self.assertGreater(rows["0"]["waiting"], rows["1"]["waiting"])
        (late,) = [row for row in run.table("findings") if row["rule"] == "late-rank"]
        self.assertEqual(late["where"], "rank 1")
        self.assertGreater(late["gain_percent"], 30)

    def torchrun(self):
        return [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2",
                *program("ranks", STEPS)[1:]]

    def test_torchrun(self):
        result = self.under("launcher", self.torchrun(), OMP_NUM_THREADS=1)
        self.assertEqual(result.code, 0, result.err.decode()[-2000:])
        self.check_training(e2e.Run(self.run_path), result.out)

    def test_top_says_who_did_not_come(self):
        """Rank 0 stands in a reduction that rank 1 has not begun."""
        both = 'for RANK in 0 1; do export RANK; "$@" & done; wait'
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        env = e2e.clean_environment(WORLD_SIZE=2, OMP_NUM_THREADS=1, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        text = self.hanging(["bash", "-c", both, "bash", *program("ranks", STEPS, "hang")],
                            r"gloo:all_reduce, for [\d.]+ s\b", env=env)  # longer than in the steps before
        self.assertRegex(text, r"rank 0, process \d+ is in .*gloo:all_reduce, for ")
        self.assertRegex(text, r"rank 1, process \d+ has returned from .*gloo:all_reduce")
        self.assertRegex(text, r"rank 0, process \d+, thread \d+ sleeps.* at ranks\.py:\d+, [\d.]+ s ago\. Stack: .*backward")

    def test_exports_of_ranks_compared(self):
        """Two ranks, each recorded and exported by itself, as on two machines: python -m dlhook.ranks joins them."""
        if not os.access(EXPORTS_PYTHON, os.X_OK):
            self.skipTest("no virtual environment: run scripts/setup.sh --test")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        started = []
        for rank in (0, 1):
            env = e2e.clean_environment(RANK=rank, WORLD_SIZE=2, OMP_NUM_THREADS=1, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
            run = os.path.join(self.folder, f"run{rank}")
            started.append(e2e.start([e2e.DLHOOK, "run", "-o", run, "--", *program("ranks", 60)], env=env))
        for rank, process in enumerate(started):
            error = process.communicate(timeout=300)[1]
            self.assertEqual(process.returncode, 0, error)
            exports.export(e2e.Run(os.path.join(self.folder, f"run{rank}")), "--format", "parquet", "--out",
                           os.path.join(self.folder, f"rank{rank}"), "--python", EXPORTS_PYTHON)
        env = e2e.clean_environment(PYTHONPATH=os.path.join(exports.ROOT, "python"))
        said = e2e.run([EXPORTS_PYTHON, "-B", "-m", "dlhook.ranks", "--format=json", os.path.join(self.folder, "rank*")], env=env)
        self.assertEqual(said.code, 0, said.err.decode()[-2000:])
        answer = json.loads(said.out)
        self.assertRegex(answer["findings"][0], r"^Rank 1 \(host .*\) is waited for in all steps: the others lose [\d.]+ % of their steps ")
        self.assertFalse(any("bytes" in sentence for sentence in answer["not_known"]), answer["not_known"])
        tables = {table["name"]: [dict(zip([column["name"] for column in table["columns"]], row)) for row in table["rows"]]
                  for table in answer["tables"]}
        (late,) = tables["stragglers"]
        self.assertGreater(late["lost_percent"], 30)
        self.assertEqual([row["rank"] for row in tables["ranks"]], [0, 1])
        self.assertEqual(tables["problems"], [])
        self.assertIn({"what": "batch", "rank": 1, "value": "33", "usual": "32"},
                      [{name: row[name] for name in ("what", "rank", "value", "usual")} for row in tables["differences"]])
        (reduction,) = [row for row in tables["collectives"] if row["kind"] == "all reduce"]
        self.assertGreaterEqual(reduction["operations"], 60)
        self.assertEqual((reduction["members"], reduction["bytes"]), (2, 5704))
        self.assertAlmostEqual(reduction["bus_gbs"], reduction["algorithm_gbs"], 2)

    def test_torchrun_without_launcher(self):
        run, result = self.found_run(self.torchrun())
        self.check_training(run, result.out)

    def launch(self):
        return ["bash", os.path.join(frameworks.HERE, "programs", "launch.sh"), *program("numpy_products")]

    def check_launch(self, run, output):
        """Each rank makes seven products in each of its two or three rounds."""
        ranks = self.ranks_of(run)
        self.assertEqual({trace.pid for trace in ranks.values()}, set(map(int, output.split())))
        for rank, trace in ranks.items():
            calls = [call for call in trace.top_calls() if not is_numpys_import(call)]
            self.assertEqual(len(calls), 7 * (rank + 2))

    def test_launch_script(self):
        run, result = self.found_run(self.launch())
        self.check_launch(run, result.out)

    def test_launch_script_under_the_launcher(self):
        result = self.under("launcher", self.launch())
        self.assertEqual(result.code, 0, result.err.decode()[-2000:])
        self.check_launch(e2e.Run(self.run_path), result.out)


if __name__ == "__main__":
    e2e.main()
