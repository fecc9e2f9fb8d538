"""Several processes of one job: a script that starts its ranks, and mpirun. One run, one trace per rank."""

import json
import os
import shutil
import unittest

import e2e

RANKS = 'for rank in 0 1; do RANK=$rank WORLD_SIZE=2 "$1" $((3 + rank)) & done; wait'


class Ranks(e2e.Case):
    def check(self, argv, environment, path):
        result = e2e.run(argv, env=environment, cwd=self.folder)
        self.assertEqual(result.code, 0, result.err.decode()[-2000:])
        run = e2e.Run(path)
        traces = run.traces()
        self.assertEqual(sorted(len(trace.top_calls()) for trace in traces), [3, 4])
        self.assertEqual(len({trace.pid for trace in traces}), 2)
        for trace in traces:
            self.assert_no_loss(trace)
        self.assertEqual(sum(row["calls"] or 0 for row in run.table("gemm")), 7)
        return traces

    def created(self):
        """The one run folder that the processes chose themselves."""
        (name,) = [name for name in os.listdir(self.folder) if name.startswith("dlhook-")]
        return os.path.join(self.folder, name)

    def script(self):
        path = os.path.join(self.folder, "launch.sh")
        with open(path, "w", encoding="utf-8") as file:
            file.write(RANKS + "\n")
        return ["bash", path, e2e.victim("nested")]

    def test_a_script_that_starts_its_ranks(self):
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.fresh_run()
                self.check(self.command(host, self.script()), self.environment(host), self.run_path)

    def test_without_a_folder_given(self):
        argv = self.script()
        env = e2e.clean_environment(LD_PRELOAD=e2e.SHIM)
        e2e.run(argv, env=env, cwd=self.folder)
        self.assertEqual(len(e2e.Run(self.created()).traces()), 2)

    def test_a_folder_for_each_rank(self):
        """Two launchers as on two hosts; the folder that their folders were collected in is one run, and so are both."""
        folders = [os.path.join(self.run_path, name) for name in "ab"]
        ranks = []
        for rank, folder in enumerate(folders):
            os.makedirs(folder, exist_ok=True)
            env = e2e.clean_environment(RANK=rank, WORLD_SIZE=2)
            ranks.append(e2e.start([e2e.DLHOOK, "run", "-o", folder, "--", e2e.victim("stepwise")], env=env))
            ranks[-1].stdin.write(b"5\n")
            ranks[-1].stdin.flush()
            self.assertEqual(ranks[-1].stdout.readline(), b"5 done\n")
        for process in ranks:
            process.communicate(timeout=120)
        for names in ([self.run_path], folders):
            said = e2e.run([e2e.DLHOOK, "report", *names, "--format", "json", "--table", "summary"])
            report = json.loads(said.out)
            self.assertEqual([row[1] for row in report["tables"][0]["rows"] if row[0] == "calls"], [10])
            files = [process["file"] for process in report["run"]["processes"]]
            self.assertEqual([name.split("/")[0] for name in files], ["a", "b"])

    def test_jobs_of_which_one_rank_each_was_recorded(self):
        """One after another, without a job's id: different ranks, and yet two runs of one side."""
        folders = [os.path.join(self.folder, name) for name in "abcd"]
        for number, folder in enumerate(folders):
            env = e2e.clean_environment(RANK=number % 2, WORLD_SIZE=2)
            result = e2e.run([e2e.DLHOOK, "run", "-o", folder, "--", e2e.victim("stepwise")], env=env, stdin=b"50\n")
            self.assertEqual(result.code, 0, result.err)
        said = e2e.run([e2e.DLHOOK, "diff", "--base", *folders[:2], "--new", *folders[2:], "--format", "json"])
        self.assertEqual(said.code, 0, said.err)
        for side, paths in (("BASE", folders[:2]), ("NEW", folders[2:])):
            self.assertIn(f"diff: {side}: {', '.join(paths)} have different ranks but did not run at the same time".encode(), said.err)
        self.assertEqual(len(json.loads(said.out)["more_runs"]), 1)

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
    def test_mpirun(self):
        # Each rank has its own session: without a given folder the job's id must bring them together.
        rank_of = '"$0" $((3 + ${OMPI_COMM_WORLD_RANK:-${PMI_RANK}}))'
        argv = ["mpirun", "-n", "2", "/bin/sh", "-c", rank_of, e2e.victim("nested")]
        allowed = {"OMPI_ALLOW_RUN_AS_ROOT": 1, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": 1, "OMPI_MCA_rmaps_base_oversubscribe": 1}
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.fresh_run()
                self.check(self.command(host, argv), self.environment(host, **allowed), self.run_path)
        with self.subTest("no folder given"):
            env = e2e.clean_environment(LD_PRELOAD=e2e.SHIM, **allowed)
            e2e.run(argv, env=env, cwd=self.folder)
            self.assertEqual(len(e2e.Run(self.created()).traces()), 2)


if __name__ == "__main__":
    e2e.main()
