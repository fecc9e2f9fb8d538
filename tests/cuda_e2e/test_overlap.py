"""Overlap of GPU work, and the reasons for idle GPUs: tables against the times in the fakes' log."""

import cuda_e2e
import databases
import e2e
import exports
import timelines

KINDS = COMPUTE, COPIES, TO_DEVICE, FROM_DEVICE, ALL = "compute", "copies", "copies HtoD", "copies DtoH", "all"
SUMS = ("compute", "copies", "concurrent_kernels", "idle", "measured")


def at_least(spans, depth):
    """The time during which `depth` or more of the spans overlap."""
    edges = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    total, running, before = 0, 0, 0
    for moment, change in edges:
        total += moment - before if running >= depth else 0
        running, before = running + change, moment
    return total


def union(spans):
    """Disjoint and ascending."""
    merged = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


class Overlap(cuda_e2e.Case):
    def run_victim(self):
        """The victim's run; for each device the spans of its kinds of work in the fakes' log."""
        run, _ = self.cuda([e2e.victim("overlap")], DLHOOK_GPU="cupti", DLHOOK_FAKE_DEVICES=2, DLHOOK_FAKE_WAITS=1,
                           DLHOOK_FAKE_SLOW=50)  # fmt: skip
        devices = {}
        for call in self.log(depth=None):
            for item in call.gpu:
                spans = devices.setdefault(item.device, {kind: [] for kind in KINDS})
                span = (item.start_ns, item.end_ns)
                spans[ALL].append(span)
                if item.kind == "K":
                    spans[COMPUTE].append(span)
                if item.kind == "C":
                    spans[COPIES].append(span)
                    source, _, destination = item.name.partition(">")
                    if source in ("P", "H") and destination == "D":
                        spans[TO_DEVICE].append(span)
                    if source == "D" and destination in ("P", "H"):
                        spans[FROM_DEVICE].append(span)
        return run, devices

    def check_overlap(self, run, device, spans):
        found = 0
        for row in run.table("overlap"):
            if row["device"] != str(device):
                continue
            found += 1
            work, beside = spans[row["work"]], spans[row["beside"]]
            both = at_least(work, 2) if row["work"] == row["beside"] else at_least(union(work) + union(beside), 2)
            self.assertEqual((row["run_work_time"], row["run_beside_time"], row["run_time"]),
                             (at_least(work, 1), at_least(beside, 1), both), (row["work"], row["beside"]))  # fmt: skip
        return found

    def check_sums(self, run, device, spans):
        """By step or interval, and by cause: nothing is lost, nothing counts twice."""
        (table,) = run.report("--table", "overlap_over_time", "--interval", "1")["tables"]
        names = [column["name"] for column in table["columns"]]
        rows = [dict(zip(names, row, strict=True)) for row in table["rows"]]
        sums = {name: sum(row[name] for row in rows if row["device"] == str(device)) for name in SUMS}
        compute, busy = at_least(spans[COMPUTE], 1), at_least(spans[ALL], 1)
        self.assertEqual((sums["compute"], sums["copies"], sums["concurrent_kernels"]),
                         (compute, at_least(spans[COPIES], 1), at_least(spans[COMPUTE], 2)))  # fmt: skip
        self.assertEqual(sums["idle"], sums["measured"] - busy)
        causes = [row for row in run.table("gpu_idle") if row["device"] == str(device)]
        self.assertEqual(sum(row["run_time"] for row in causes), sums["measured"] - compute)
        copied = sum(row["run_time"] for row in causes if row["cause"] == COPIES)
        beside = at_least(union(spans[COPIES]) + union(spans[COMPUTE]), 2)
        self.assertGreaterEqual(copied, at_least(spans[COPIES], 1) - beside)

    def test_two_devices_with_two_streams(self):
        run, devices = self.run_victim()
        self.assertEqual(sorted(devices), [0, 1])
        self.assertGreater(
            sum(at_least(spans[COPIES] + spans[COMPUTE], 2) for spans in devices.values()), 0, "nothing tested")
        for device, spans in devices.items():
            with self.subTest(device=device):
                self.assertEqual(self.check_overlap(run, device, spans), 4 if spans[FROM_DEVICE] else 3)
                self.check_sums(run, device, spans)

    def test_exports(self):
        """Timelines have the work of each device, with an arrow from each request; stacks have each device's time."""
        run, devices = self.run_victim()
        databases.check(self, run)
        timeline = timelines.check(self, run)
        stacks = exports.folded(run, "--only", "gpu")
        for device, spans in devices.items():
            slices = [one for one in timeline.of_kind("gpu") if one.track[1].startswith(f"GPU {device}, stream ")]
            self.assertEqual(sorted(map(timelines.duration, slices)), sorted(end - start for start, end in spans[ALL]))
            (row,) = [row for row in run.table("devices") if row["device"] == device]
            times = {stack[1:]: time for stack, time in stacks.items() if stack[0] == f"GPU_{device}"}
            self.assertEqual((sum(times.values()), times[("[idle]",)]), (row["time"], row["idle"]))
        self.assertEqual(len(timeline.flows), sum(len(spans[ALL]) for spans in devices.values()))
        self.assertTrue(all(stack[0].startswith("GPU_") for stack in stacks))
        self.assertFalse(any(stack[0].startswith("GPU_") for stack in exports.folded(run)))
        self.assertEqual(exports.check_steps(self, run), sum(stacks.values()))

    def test_guided(self):
        """Invariants: the rows are consistent with each other and with `overlap`."""
        run, devices = self.run_victim()
        overlap = {(row["device"], row["work"], row["beside"]): row for row in run.table("overlap")}
        for device in map(str, devices):
            metrics = {row["metric"]: row for row in run.table("guided") if row["device"] == device}
            beside = overlap[(device, COPIES, COMPUTE)]
            self.assertEqual(metrics["compute/memcpy efficiency"]["of"], beside["work_time"])
            self.assertEqual(metrics["compute/memcpy efficiency"]["time"], beside["beside_time"])
            self.assertEqual(metrics["memcpy/compute overlap"]["time"], beside["time"])
            self.assertAlmostEqual(metrics["memcpy/compute overlap"]["value"], beside["percent"])
            self.assertEqual(metrics["kernel concurrency"]["time"], overlap[(device, COMPUTE, COMPUTE)]["time"])


if __name__ == "__main__":
    e2e.main()
