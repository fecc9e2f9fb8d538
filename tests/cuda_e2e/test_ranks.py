"""Two ranks on one device: the tables `devices` and `ranks` against the fakes' log, to the nanosecond."""

import os
import sys

import cuda_e2e
import e2e
import fake_log

PROGRAM = os.path.join(cuda_e2e.HERE, "victims", "data_parallel.py")
BOTH = 'for rank in 0 1; do RANK=$rank "$0" -B "$1" $rank || exit 1; done'


def covered(spans):
    """Time during which at least one of them is running."""
    total, end = 0, 0
    for start, stop in sorted(spans):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total


class Ranks(cuda_e2e.Case):
    def setUp(self):
        super().setUp()
        environment = e2e.clean_environment(DLHOOK_FAKE_LOG=os.path.join(self.folder, "log.%p"), DLHOOK_FAKE_WAITS="1",
                                            LD_LIBRARY_PATH=os.path.join(cuda_e2e.FAKES, "cuda13"))
        run = e2e.Run(self.run_path)
        command = [e2e.DLHOOK, "run", "-o", run.path, "--", "sh", "-c", BOTH, sys.executable, PROGRAM]
        result = e2e.run(command, env=environment)
        self.assertEqual(result.code, 0, result.err.decode()[-2000:])
        self.devices = {row["rank"]: row for row in run.table("devices")}
        self.ranks = {row["rank"]: row for row in run.table("ranks")}
        self.assertEqual((set(self.devices), set(self.ranks)), ({"0", "1"}, {"0", "1"}))

    def logged(self, row):
        """(compute, communication) of the row's process: [(start, end)]."""
        calls = fake_log.read(os.path.join(self.folder, f"log.{row['process']}"))
        kernels = [activity for activity in fake_log.activities(calls) if activity.kind == "K"]
        spans = [[(kernel.start_ns, kernel.end_ns) for kernel in kernels if ("nccl" in kernel.name) == is_nccl]
                 for is_nccl in (False, True)]
        self.assertEqual([len(each) for each in spans], [5, 5])
        return spans

    def test_devices(self):
        for rank, row in self.devices.items():
            compute, communication = self.logged(row)
            both = covered(compute + communication)
            told = {name: row[name] for name in ("compute", "communication", "exposed_communication", "steps",
                                                 "kernels", "source")}
            self.assertEqual(told, {"compute": covered(compute), "communication": covered(communication),
                                    "exposed_communication": both - covered(compute), "steps": None, "kernels": 10,
                                    "source": "CUPTI"})
            self.assertEqual(row["idle"], row["time"] - both)
            other = self.devices["1" if rank == "0" else "0"]["process"]
            self.assertEqual(row["shared_with"], f"process {other}")

    def test_ranks(self):
        """The first rank ended before the second one began: it reached each collective first, and waited to the end of
        its kernel."""
        first, second = self.ranks["0"], self.ranks["1"]
        self.assertEqual([row["collectives"] for row in (first, second)], [5, 5])
        self.assertEqual([row["came_last"] for row in (first, second)], [0, 5])
        self.assertEqual((first["lateness"], second["waiting"]), (0, 0))
        _, communication = self.logged(self.devices["0"])
        self.assertEqual(first["waiting"], covered(communication))


if __name__ == "__main__":
    cuda_e2e.main()
