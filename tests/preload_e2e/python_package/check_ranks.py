"""Run by test_rank_exports.py in an environment with duckdb and pyarrow: dlhook.ranks on simulated exports (rank_exports.py), with faults
that are planted, without any, and with exports that do not belong together."""

import contextlib
import io
import os
import shutil
import tempfile
import unittest

import pyarrow
import pyarrow.parquet
import rank_exports
from dlhook import ranks

MS = rank_exports.MS


class Case(unittest.TestCase):
    def setUp(self):
        self.parent = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.parent)
        self.fresh_folder()

    def fresh_folder(self):
        self.folder = tempfile.mkdtemp(dir=self.parent)

    def compared(self, *jobs):
        for job in jobs:
            job.run().write(self.folder)
        answer = ranks.compare([self.folder])
        self.tables = {table.name: list(table) for table in answer.tables}
        self.problems = {row["problem"]: (row["ranks"], row["says"]) for row in self.tables["problems"]}
        return answer

    def printed(self, *words):
        """The exit code and the lines of the command."""
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = ranks.main([*words, self.folder])
        return code, out.getvalue().splitlines()


class Faults(Case):
    def assert_waited_for(self, rank, count, since, reason):
        rows = self.tables["stragglers"]
        found = [(row["rank"], row["ranks"], row["since_step"], row["reason"]) for row in rows]
        self.assertEqual(found, [(rank, count, since, reason)])
        return rows[0]

    def test_slow_host(self):
        job = rank_exports.Job()
        job.work[200:, job.host == 1] *= 1.15
        answer = self.compared(job)
        self.assertRegex(answer.findings[0], r"^Host node1 \(its 4 ranks\) is waited for since step 200: the others lose [\d.]+ % of their "
                         r"steps \([\d.]+ ms in each\); what takes it longer is compute\.$")
        # By hand: in a step all wait from their arrival to the last one's.
        lost = []
        for step in range(202, 398):
            came = job.came[step]
            waits = [(came[bucket].max() - came[bucket]).sum() / (job.ranks - 1) for bucket in range(2)]
            on_slow = [job.host[came[bucket].argmax()] == 1 for bucket in range(2)]
            lost.append(sum(wait for wait, is_slow in zip(waits, on_slow) if is_slow))
        row = self.assert_waited_for(4, 4, 200, "compute")
        self.assertLess(abs(row["lost_ns"] / (sum(lost) / len(lost)) - 1), 0.02)

    def test_slow_link(self):
        job = rank_exports.Job(groups=True)
        job.transfer[:, :, 1 + 1] *= 1.5
        answer = self.compared(job)
        self.assertEqual(len(answer.findings), 1)
        self.assertRegex(answer.findings[0], r"^Ranks 1, 5: all reduce of 16777216 to 33554432 bytes among 2 ranks moves [\d.]+ to "
                         r"[\d.]+ GB/s, 6\d( to 6\d)? % of the others'\.$")
        self.assertIn("who came last to 6400 operations of a part of the ranks, because which is not recorded", answer.not_known)
        for row in self.tables["slow_links"]:  # 2 ms for all of an all reduce of two: bus bandwidth = bytes / time
            self.assertLess(abs(row["usual_gbs"] / (row["bytes"] / (2 * MS)) - 1), 0.1)
            self.assertLess(abs(row["usual_gbs"] / row["bus_gbs"] - 1.5), 0.1)

    def test_another_algorithm(self):
        job = rank_exports.Job()
        job.implementation[5, 2] = "gemm:ref"
        job.part[5] = [0.2, 0.2, 0.4, 0.2]
        job.work[:, 5] *= 1.08
        answer = self.compared(job)
        self.assert_waited_for(5, 1, 0, "compute")
        self.assertRegex(answer.findings[1],
                         r"^Rank 5 \(host node1\): compute takes [78][\d.]* % longer than usual in all steps, mostly in layers\.2 ")
        self.assertRegex(answer.findings[2], r"^Rank 5: another algorithm \(layers\.2 backward-data convolution and 1 more\): gemm:ref, "
                         r"elsewhere jit:avx512_core: 1\.7\d( to 1\.7\d)? times as long\.$")
        self.assertEqual(len(answer.findings), 3)

    def test_names_are_not_obeyed_by_the_terminal(self):
        job = rank_exports.Job()
        job.implementation[5] = "gemm\x1b[2J\nRank 0 is waited for\x9b"
        job.run().write(self.folder)
        for form in ("text", "csv"):
            _, lines = self.printed("--format", form)
            self.assertIn("gemm\\x1b[2J\\x0aRank 0 is waited for\\x9b, elsewhere jit:avx512_core: ", lines[0])
        self.assertFalse([line for line in self.printed()[1] if line.startswith("Rank 0") or not line.isprintable()])

    def test_differences_of_few_ranks(self):
        two, three = rank_exports.Job(ranks=2, hosts=1), rank_exports.Job(ranks=3, hosts=1)
        two.batch[1], three.batch[:] = 33, [32, 64, 16]
        self.assertEqual(self.compared(three).findings, [])
        self.fresh_folder()
        self.assertEqual(self.compared(two).findings, ["Rank 1: batch differs: 33, on the other rank 32."])

    def test_validation_on_one_rank(self):
        rank_exports.Job().run().write(self.folder)
        path = os.path.join(self.folder, "rank0", "raw_work", "process=0", "part-0.parquet")
        table = pyarrow.parquet.read_table(path)
        more = [{**row, "kind": "validation", "implementation": "brgconv", "count": row["count"] * 3} for row in table.to_pylist()]
        pyarrow.parquet.write_table(pyarrow.concat_tables([table, pyarrow.Table.from_pylist(more, schema=table.schema)]), path)
        self.assertEqual([row for table in ranks.compare([self.folder]).tables if table.name == "differences" for row in table], [])

    def test_busy_processor(self):
        job = rank_exports.Job()
        job.no_processor[:, 3] += job.rng.exponential(4 * MS, 400)
        answer = self.compared(job)
        self.assert_waited_for(3, 1, 0, "waiting for a processor")
        self.assertRegex(answer.findings[1], r"^Rank 3 \(host node0\): compute takes .* in all steps; it waits for a processor\.$")

    def test_late_code(self):
        """A checkpoint, a log, a sleep of one rank between two steps: no phase of them is longer."""
        job = rank_exports.Job()
        job.between[200:, 2] += 6 * MS
        self.compared(job)
        self.assert_waited_for(2, 1, 200, "code before its forward pass")

    def test_late_loader(self):
        for count, rank in ((8, 2), (2, 1)):
            job = rank_exports.Job(ranks=count, hosts=1, library="gloo")
            job.input[200:, rank] += 6 * MS
            answer = self.compared(job)
            self.assert_waited_for(rank, 1, 200, "input")
            self.assertEqual(len(answer.findings), 1)
            self.assertIn("bandwidths of 800 operations, because their bytes were not recorded", answer.not_known)
            self.fresh_folder()

    def test_every_tenth_step_is_late(self):
        job = rank_exports.Job()
        job.input[::10, 2] += 60 * MS
        answer = self.compared(job)
        self.assert_waited_for(2, 1, None, "input")
        self.assertIn("Rank 2 (host node0) is waited for at times: ", answer.findings[0])

    def test_operations_at_the_same_time_are_counted_once(self):
        lost = []
        for at_once in (False, True):
            job = rank_exports.Job(library="gloo")
            job.input[:, 2] += 6 * MS
            job.run()
            if at_once:
                job.came[:, 1], job.left[:, 1] = job.came[:, 0], job.left[:, 0]
            job.run = lambda job=job: job
            self.compared(job)
            lost.append(self.assert_waited_for(2, 1, 0, "input")["lost_ns"])
            self.fresh_folder()
        self.assertLess(lost[1], lost[0])

    def test_rank_that_dies(self):
        job = rank_exports.Job()
        job.last_step[6] = 250
        self.compared(job)
        self.assertEqual(list(self.problems), ["ended early"])
        self.assertRegex(self.problems["ended early"][1], "^after 250 steps, .* before the median rank and its 400$")
        self.assertEqual(self.problems["ended early"][0], "6")

    def test_exposed_communication(self):
        job = rank_exports.Job()
        self.compared(job)
        for row in self.tables["ranks"]:
            expected = job.exposed[2:, row["rank"]].astype(int).mean()
            self.assertLess(abs(row["exposed_ns"] / expected - 1), 1e-6)

    def test_bandwidth(self):
        """As nccl-tests: an all reduce of n ranks moves 2 (n - 1) / n of its bytes over the slowest link."""
        job = rank_exports.Job()
        job.transfer[:] = 2 * MS
        self.compared(job)
        for row in self.tables["collectives"]:
            self.assertLess(abs(row["transfer_ns"] / (2 * MS) - 1), 0.02)
            self.assertLess(abs(row["algorithm_gbs"] / (row["bytes"] / row["transfer_ns"]) - 1), 1e-3)
            self.assertLess(abs(row["bus_gbs"] / row["algorithm_gbs"] - 2 * 7 / 8), 1e-3)


class Clean(Case):
    def test_nothing_is_found(self):
        """20 jobs of equal ranks, with noise and disturbances."""
        for seed in range(20):
            job = rank_exports.Job(ranks=(2, 4, 8, 8)[seed % 4], hosts=1 + seed % 2, steps=(400, 90, 40)[seed % 3], seed=seed,
                                   noise=(0.01, 0.03, 0.1)[seed % 3], library=("NCCL", "gloo")[seed // 2 % 2], groups=seed % 5 == 3)
            job.clock += (job.rng.normal(0, 2 * MS, 2)[job.host]).astype(int)
            with self.subTest(seed=seed):
                answer = self.compared(job)
                self.assertEqual((answer.findings, self.problems), ([], {}))
            self.fresh_folder()


    def test_less_than_counts(self):
        """A processor that is 2 % slower than the others; a rank that costs the others less than half a second."""
        slower, short = rank_exports.Job(), rank_exports.Job(steps=60)
        slower.work[:, 5] *= 1.02
        short.input[:, 2] += 6 * MS
        for job in (slower, short):
            self.fresh_folder()
            self.compared(job)
            self.assertEqual(self.tables["slow_ranks"], [])
        self.assertEqual(self.tables["stragglers"], [])


class Mixed(Case):
    def test_clock_off_by_an_hour(self):
        job = rank_exports.Job()
        job.work[200:, 6] *= 1.15
        job.clock[job.host == 1] += 3600 * 1000 * MS
        self.compared(job)
        self.assertEqual(list(self.problems), ["clocks apart"])
        self.assertRegex(self.problems["clocks apart"][1], r"^node1 is 3600 s ahead: aligned to [\d.]+ us$")
        ahead = {row["host"]: (row["ahead_ns"], row["error_ns"]) for row in self.tables["clocks"]}
        self.assertEqual(ahead["node0"][0], 0)
        self.assertLess(abs(ahead["node1"][0] - 3600 * 1000 * MS), ahead["node1"][1])
        self.assertEqual([row["rank"] for row in self.tables["stragglers"]], [6])

    def test_clock_that_drifts(self):
        job = rank_exports.Job()
        job.run()
        for times in (job.start, job.end, job.came, job.left):
            times[..., job.host == 1] *= 1 + 50e-6
        job.run = lambda: job
        answer = self.compared(job)
        self.assertEqual(answer.findings, [])
        self.assertGreater({row["host"]: row["drift_ns"] for row in self.tables["clocks"]}["node1"], 0.3 * MS)

    def test_two_jobs(self):
        other = rank_exports.Job(ranks=2, seed=1)
        other.job, other.world, other.begin = "slurm-18", 8, other.begin + 1
        for rank in (0, 1):
            os.rename(os.path.join(other.run().write(self.folder), f"rank{rank}"), os.path.join(self.folder, f"other{rank}"))
        self.compared(rank_exports.Job())
        self.assertEqual(self.problems, {"another job": ("0-1", "left out: most ranks are of slurm-17")})
        self.assertEqual([row["steps"] for row in self.tables["ranks"]], [398] * 8)

    def test_two_jobs_without_a_name(self):
        job, other = rank_exports.Job(), rank_exports.Job(ranks=2, seed=1)
        job.job = other.job = None
        other.begin += 1000  # later
        for rank in (0, 1):
            os.rename(os.path.join(other.run().write(self.folder), f"rank{rank}"), os.path.join(self.folder, f"other{rank}"))
        self.compared(job)
        self.assertEqual(self.problems["a rank twice"], ("0-1", "by two processes at the same time: the second is left out"))
        self.assertEqual([row["steps"] for row in self.tables["ranks"]], [398] * 8)

    def test_missing_ranks_and_two_versions(self):
        job = rank_exports.Job()
        job.version[2:4], job.schema_version[7] = "0.2.0", 2
        job.run().write(self.folder, [0, 1, 2, 3, 7])
        job.run = job.write = lambda *_: job
        self.compared(job)
        self.assertEqual(self.problems["missing ranks"], ("4-6", "5 of 8 ranks have exports: the one waited for may be missing"))
        self.assertEqual(self.problems["two versions"][1], "Ranks 0-1, 7: 0.1.0; Ranks 2-3: 0.2.0")
        self.assertEqual(self.problems["other schema"], ("7", "schema_version 2: what is compared is that of 1"))

    def test_exported_twice(self):
        rank_exports.Job().run().write(self.folder)
        shutil.copytree(os.path.join(self.folder, "rank3"), os.path.join(self.folder, "rank3-again"))
        answer = ranks.compare([self.folder])
        self.assertEqual([(row["problem"], row["ranks"]) for row in answer.tables[0]], [("exported twice", "3")])

    def test_restart(self):
        """A rank that came back is the same rank: operations of both attempts are counted from 0, and not compared with each other."""
        first, second = rank_exports.Job(steps=150), rank_exports.Job(steps=300, seed=1)
        first.restart, second.restart, second.begin = 0, 1, second.begin + 60_000 * MS
        first.last_step[5] = 100
        second.work[100:, 2] *= 1.15
        answer = self.compared(first, second)
        self.assertEqual(self.problems["restarts"], ("0-7", "a restart, or another run on the same address: compared by attempt, from 0"))
        self.assertEqual(self.problems["ended early"][0], "5")
        self.assertIn("Rank 2 (host node0) is waited for since step 100 after restart 1: ", answer.findings[0])
        self.assertEqual([row["attempt"] for row in self.tables["ranks"]], [0, 1] * 8)

    def test_two_runs_on_one_address(self):
        """Of torchrun's count both are the first attempt: operations of the second run are not compared with the first's."""
        first, second = rank_exports.Job(), rank_exports.Job(seed=3)
        first.restart, second.restart, second.begin = 0, 0, second.begin + 3_600_000 * MS
        first.work[:, 5] *= 1.3
        folders = [first.run().write(os.path.join(self.folder, "first")), second.run().write(os.path.join(self.folder, "second"))]
        both, alone = ranks.compare(folders), ranks.compare(folders[:1])
        self.assertEqual(both.findings, alone.findings)
        tables = {table.name: list(table) for table in both.tables}
        self.assertEqual([(row["attempt"], row["steps"]) for row in tables["ranks"]], [(0, 398), (1, 398)] * 8)
        self.assertEqual([row["operations"] for row in tables["collectives"]], [800, 800])

    def test_what_cannot_be_compared(self):
        rank_exports.Job().run().write(self.folder)
        self.assertEqual(self.printed()[1][0], "Nothing was found that makes a rank slower than the others.")
        shutil.rmtree(os.path.join(self.folder, "rank3"))
        code, lines = self.printed()
        self.assertEqual((code, lines[:2]), (0, ["Nothing was found in what could be compared.",
                                                 "Not known: who of the missing ranks (3) is waited for, because they have no export."]))
        shutil.rmtree(os.path.join(self.folder, "rank4", "raw_collectives"))
        self.assertIn("Not known: whether the others wait for 1 of the 7 ranks, because exports hold none of their operations.",
                      self.printed()[1])
        for name in ("raw_steps", "raw_processes"):  # an upload that is incomplete
            os.remove(os.path.join(self.folder, "rank4", f"{name}.parquet"))
            self.assertEqual(self.printed()[0], 2)
        for rank in (1, 2, 4, 5, 6, 7):
            shutil.rmtree(os.path.join(self.folder, f"rank{rank}"))
        code, lines = self.printed()
        self.assertEqual((code, lines[0]), (2, "Nothing can be said across these ranks."))
        self.assertIn("Not known: anything across ranks, because these exports hold one rank.", lines)

    def test_no_collectives_at_all(self):
        rank_exports.Job().run().write(self.folder)
        for rank in range(8):
            shutil.rmtree(os.path.join(self.folder, f"rank{rank}", "raw_collectives"))
        self.compared()
        self.assertTrue(self.problems["no raw_collectives"][1].startswith(f"not in {self.folder}/rank0 and 7 more: "), self.problems)

    def test_interrupted_uploads(self):
        rank_exports.Job().run().write(self.folder)
        half = os.path.join(self.folder, "rank1", "raw_collectives", "process=0", "part-0.parquet")
        os.truncate(half, os.path.getsize(half) // 2)
        empty = os.path.join(self.folder, "rank4", "raw_phases.parquet")
        os.truncate(empty, 0)
        os.remove(os.path.join(self.folder, "rank2", "raw_steps.parquet"))
        shutil.rmtree(os.path.join(self.folder, "rank3", "raw_work"))
        answer = ranks.compare([os.path.join(self.folder, "rank*")])
        says = [(row["problem"], row["says"]) for row in answer.tables[0]]
        self.assertEqual([problem for problem, _ in says], ["damaged file", "damaged file", "no raw_steps", "no raw_work"])
        for (_, said), file in zip(says, (empty, half)):
            self.assertTrue(said.startswith(f"{file} is left out: "), said)
        self.assertEqual(says[2][1], f"not in {self.folder}/rank2: the upload is incomplete")
        self.assertEqual({row["operations"] for table in answer.tables if table.name == "collectives" for row in table}, {400})

    def test_damage_within_a_file(self):
        rank_exports.Job().run().write(self.folder)
        path = os.path.join(self.folder, "rank1", "raw_collectives", "process=0", "part-0.parquet")
        with open(path, "r+b") as file:
            file.seek(1000)
            file.write(b"\xff" * 4000)
        self.compared()
        self.assertEqual(list(self.problems), ["damaged file"])
        self.assertTrue(self.problems["damaged file"][1].startswith(f"{path} is left out: "), self.problems)

    def test_names_of_folders(self):
        """A folder whose name is a pattern; one that holds nothing."""
        self.folder = os.path.join(self.folder, "it's [x] *?")
        rank_exports.Job(ranks=2).run().write(self.folder)
        answer = self.compared()
        self.assertEqual(([len(table) for table in answer.tables if table.name == "collectives"], self.problems), ([2], {}))
        self.assertEqual(ranks.compare(self.folder).findings, answer.findings)
        self.assertEqual(self.printed()[0], 0)
        code, lines = self.printed("nothing")
        self.assertEqual(code, 2)
        self.assertIn("no export  nothing: nothing that dlhook export --format parquet wrote", lines)

    def test_groups_that_are_not_told(self):
        """gloo in two groups of ranks: operations with the same number are not the same ones."""
        job = rank_exports.Job(library="gloo", groups=True)
        job.input[:, job.local == 1] += 5 * MS
        answer = self.compared(job)
        self.assertEqual(answer.findings, [])
        self.assertRegex(answer.not_known[0], r"^who came last to \d+ of 800 operations, because some rank was done before another began")


if __name__ == "__main__":
    unittest.main()
