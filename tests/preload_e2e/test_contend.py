"""dlhook contend: what neighbours slow down is found, and nothing else; nothing is left, of processes, files and resctrl's groups."""

import os
import signal
import threading

import e2e
import trying

GIB = 1 << 30


class Kernel(threading.Thread):
    """A tree with the files of resctrl and powercap, and what the kernel would do in it."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder = folder
        self.resctrl = os.path.join(folder, "fs", "resctrl")
        self.energy = os.path.join(folder, "class", "powercap", "intel-rapl:0")
        os.makedirs(os.path.join(self.resctrl, "info"))
        os.makedirs(os.path.join(self.resctrl, "mon_groups"))
        os.makedirs(self.energy)
        self.write(os.path.join(self.resctrl, "tasks"), "1\n")
        self.write(os.path.join(self.resctrl, "schemata"), "    L3:0=fff;1=fff\n    MB:0=100;1=100\n")
        self.write(os.path.join(self.energy, "name"), "package-0\n")
        self.write(os.path.join(self.energy, "max_energy_range_uj"), "1000000\n")
        self.seen = {}  # of groups by the end of their names: the last text of each file
        self.made = set()
        self.is_over = threading.Event()
        self.ticks = 0
        self.tick()

    @staticmethod
    def write(path, text, mode="w"):
        with open(path, mode, encoding="ascii") as file:
            file.write(text)

    def groups(self):
        folders = (self.resctrl, os.path.join(self.resctrl, "mon_groups"))
        return [os.path.join(folder, name) for folder in folders for name in os.listdir(folder) if name.startswith("dlhook-")]

    def tick(self):
        self.ticks += 1
        energy = f"{self.ticks * 50000 % 1000000:06}\n"  # it wraps
        self.write(os.path.join(self.energy, "energy_uj"), energy, "w" if self.ticks == 1 else "r+")
        for group in self.groups():
            try:
                data = os.path.join(group, "mon_data", "mon_L3_00")
                mode = "r+" if group in self.made else "w"  # a group that is being removed gets no new files
                if mode == "w":
                    self.made.add(group)
                    os.mkdir(os.path.dirname(data))
                    os.mkdir(data)
                self.write(os.path.join(data, "llc_occupancy"), f"{4 << 20}\n", mode)
                self.write(os.path.join(data, "mbm_total_bytes"), f"{self.ticks * GIB:020}\n", mode)
                for name in ("tasks", "schemata"):
                    path = os.path.join(group, name)
                    if os.path.exists(path):
                        with open(path, encoding="ascii") as file:
                            self.seen.setdefault(group.rsplit("-", 1)[1], {})[name] = file.read()
            except OSError:  # it was removed
                pass

    def has_filled_groups(self):
        groups = self.groups()
        return groups and all(os.path.exists(os.path.join(group, "mon_data/mon_L3_00/mbm_total_bytes")) for group in groups)

    def run(self):
        while not self.is_over.wait(0.005):
            self.tick()

    def stop(self):
        self.is_over.set()
        self.join()


class Contend(trying.Case):
    command = "contend"

    def setUp(self):
        super().setUp()
        self.plant = os.path.join(self.folder, "plant")
        self.gardener = f"trap 'rm -f {self.plant}; exit' TERM; touch {self.plant}; sleep 1000 & wait"

    def kernel(self, name):
        kernel = Kernel(os.path.join(self.folder, name))
        kernel.start()
        self.addCleanup(kernel.stop)
        return kernel

    def processes(self, program=b""):
        return super().processes(program)

    def test_what_a_neighbour_slows_down_is_found(self):
        tables = self.tables("--with", self.gardener, "--neighbours", "1", "--rounds", "6", "--steps", "8",
                             PLANT=self.plant, WORK=100, REST_MS=10)
        step, places, neighbours = tables
        names = [column["name"] for column in places["columns"]]
        rows = [dict(zip(names, row, strict=True)) for row in places["rows"]]
        beyond = {(row["place"], row["name"]) for row in rows if row["outcome"] in ("more than the rest", "only beside")}
        planted = ("operation", "fc 64x16 forward gemm")
        self.assertIn(planted, beyond)
        self.assertLessEqual(beyond, {planted, ("layer", "fc 64x16"), ("phase", "forward")})
        self.assertIn("more than the rest: fc 64x16 forward gemm", step["title"])
        self.assertEqual(self.rows_of(neighbours)[self.gardener]["ended"], 0)
        self.assertIn("Energy is not measured", " ".join(self.tables("--load", "disk", "--rounds", "1", "--sys", "/none")[0]["notes"]))

    def test_loads_reach_what_the_table_says(self):
        words = [word for load in ("processors", "cache", "memory", "disk") for word in ("--load", load)]
        *_, neighbours = self.tables(*words, "--neighbours", "1", "--rounds", "1", "--intensity", "50", "--pin", "0",
                                     "--pin-neighbours", "0", "--with", "yes > /dev/null")
        rows = self.rows_of(neighbours)
        self.assertGreater(rows.pop("yes > /dev/null")["processors"], 0)  # a child of the shell's
        self.assertEqual(list(rows), ["processors", "cache", "memory", "disk"])
        for name, row in rows.items():
            self.assertEqual((row["copies"], row["intensity"], row["ended"]), (1, 50, 0))
            self.assertGreater(row["processors"], 0)
            self.assertEqual(row["bandwidth"] is None, name == "processors")
            self.assertGreater(row["bandwidth"] or 1, 0)
        self.assertLess(sum(row["processors"] for row in rows.values()), 1.05)  # they share one

    def test_resctrl_and_energy(self):
        kernel = self.kernel("sys")
        tables = self.tables("--load", "processors", "--rounds", "2", "--sys", kernel.folder, "--resctrl-mask", "ff0:f",
                             "--counters", "software")
        kernel.stop()
        counters = self.rows_of(next(table for table in tables if table["name"] == "counters"))
        self.assertAlmostEqual(counters["L3 cache, program (bytes)"]["alone"], 4 << 20)
        for name in ("energy of all processors (J)", "memory traffic, program (bytes)", "memory traffic, neighbours (bytes)",
                     "task-clock"):
            self.assertGreater(counters[name]["alone"], 0)
            self.assertGreater(counters[name]["beside"], 0)
        self.assertEqual(kernel.seen["program"]["schemata"], "L3:0=ff0;1=ff0\n")
        self.assertEqual(kernel.seen["neighbours"]["schemata"], "L3:0=f;1=f\n")
        self.assertTrue(kernel.seen["program"]["tasks"].strip().isdecimal())
        self.assertEqual(kernel.groups(), [])
        self.assertNotIn("not measured", " ".join(tables[0]["notes"]))

    def test_what_can_not_be_done(self):
        for words, complaint in (
                ([], b"beside what?"), (["--load", "gpu"], b"--load expects processors, cache, memory or disk, found 'gpu'"),
                (["--load", "disk", "--intensity", "0"], b"--intensity expects"),
                (["--load", "disk", "--neighbours", "none"], b"--neighbours expects"),
                (["--load", "disk", "--pin", "1-"], b"--pin expects"),
                (["--load", "disk", "--pin-neighbours", "1023"], b"--pin-neighbours: this process may not use processor 1023"),
                (["--load", "disk", "--resctrl-mask", "ways"], b"--resctrl-mask expects"),
                (["--load", "disk", "--resctrl-mask", "f", "--sys", "/none"], b"--resctrl-mask: /none/fs/resctrl: no resctrl"),
                (["--with", "echo it must fail; exit 3"], b"before the program was stopped: it must fail")):
            result = e2e.run(self.argv(*words), env=self.environment_of(), cwd=self.places["work"])
            self.assertEqual((result.code, result.out), (2, b""))
            self.assertIn(complaint, result.err)
        self.assert_nothing_left()

    def stopped(self, how):
        """Alone, with groups made, and beside its neighbours."""
        words = ["--with", self.gardener, "--load", "memory", "--load", "disk"]
        for is_beside in (False, True):
            with self.subTest(is_beside=is_beside):
                kernel = self.kernel(f"sys-{is_beside}")

                def is_moment(kernel=kernel, is_beside=is_beside):
                    is_there = os.path.exists(self.plant) if is_beside else super(Contend, self).processes(b"victim_tried")
                    return kernel.has_filled_groups() and is_there

                self.stopped_when([*words, "--sys", kernel.folder], is_moment, how, FORKS=1)
                self.wait_until(lambda kernel=kernel: not kernel.groups())
                kernel.stop()
                if os.path.exists(self.plant):  # what was killed could not remove it
                    os.remove(self.plant)

    def test_killed(self):
        self.stopped(lambda pid: os.kill(pid, signal.SIGKILL))

    def test_its_worker_is_killed(self):
        self.stopped(self.kill_worker)

    def test_interrupted(self):
        self.stopped(lambda pid: os.killpg(pid, signal.SIGINT))

    def test_ended_politely(self):
        self.stopped(lambda pid: os.kill(pid, signal.SIGTERM))

    def test_what_others_left_is_removed(self):
        kernel = Kernel(os.path.join(self.folder, "sys"))
        space = os.readlink("/proc/self/ns/pid")[5:-1]
        gone = e2e.run(["sh", "-c", "echo $$"]).out.decode().strip()
        for name in (f"dlhook-{space}-{gone}-program", f"dlhook-{space}-{os.getpid()}-program", f"dlhook-1-{gone}-program"):
            os.mkdir(os.path.join(kernel.resctrl, "mon_groups", name))
        self.tables("--load", "disk", "--rounds", "1", "--sys", kernel.folder)
        self.assertEqual(sorted(os.path.basename(group).split("-")[1:3] for group in kernel.groups()),
                         sorted([[space, str(os.getpid())], ["1", gone]]))


if __name__ == "__main__":
    e2e.main(at_once=4)
