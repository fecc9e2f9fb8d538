#!/usr/bin/env python3
"""`dlhook report RUN --html FILE` in headless Chromium: every view draws without an error, its numbers are the tables', names of a run
are shown and never executed, and runs with little, much or damaged contents open."""
import html
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import traces
from browser import Browser

DLHOOK = os.environ["DLHOOK_TEST_DLHOOK"]
MOST_BYTES = 5_000_000

# Of the shown table, with all its columns and rows: names of columns, and each cell's number or text.
CELLS = """(() => {
  const view = document.querySelector('.view .table-view');
  const wide = view.querySelector('.check input');
  if (wide && !wide.checked) wide.click();
  for (let more; (more = view.querySelector('.more button'));) more.click();
  return [...view.querySelectorAll('tbody tr')].map(row => [...row.cells].map(
    cell => cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value)));
})()"""
NAMES = "[...document.querySelectorAll('.view .table-view thead .sort')].map(one => one.firstChild.textContent.replace(/ /g, '_'))"
VIEWS = "[...document.querySelectorAll('nav a[data-view]')].map(link => link.dataset.view)"


def dlhook(*words, expected=(0,)):
    result = subprocess.run([DLHOOK, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert result.returncode in expected, (words, result.returncode, result.stderr)
    return result.stdout.decode()


class ReportPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="dlhook_web_")
        cls.browser = Browser()
        cls.browser.size(1280, 900)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        shutil.rmtree(cls.folder)

    def open(self, run, expected=(0,)):
        return self.open_page(run.rstrip("/") + ".html", "report", run, expected=expected)

    def open_page(self, path, *words, expected=(0,)):
        dlhook(*words, "--html", path, expected=expected)
        self.assertLess(os.path.getsize(path), MOST_BYTES)
        self.browser.open(path)
        self.assertEqual(self.browser.errors, [])
        return path

    def check_views(self):
        """Every view of the navigation has contents and no errors; returns their ids."""
        views = self.browser.evaluate(VIEWS)
        self.assertTrue({"answer", "verdict", "scaling"} & set(views), views)
        for view in views:
            with self.subTest(view=view):
                self.browser.go("#" + view)
                self.assertEqual(self.browser.errors, [])
                self.assertEqual(self.browser.evaluate("document.querySelector('.view').id"), "view-" + view)
                self.assertGreater(len(self.browser.evaluate("document.querySelector('.view').innerText")), 20)
                if view == "answer" and " takes " in self.shown(".hero p")[0]:
                    self.assertIn(" takes " + self.shown(".hero-number")[0], self.shown(".hero p")[0])
                # Neither hidden text behind the window's edge, nor a chart that is NaN.
                self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), 1280, view)
                self.assertEqual(self.browser.evaluate("/NaN|undefined|Infinity/.exec(document.querySelector('.view').outerHTML)"), None)
        return views

    def check_tables(self, *words):
        """Each table of the page holds what json does."""
        for table in json.loads(dlhook(*words, "--format", "json"))["tables"]:
            if not table["rows"]:
                continue
            with self.subTest(table=table["name"]):
                self.browser.go("#table/" + table["name"])
                shown = self.browser.evaluate(CELLS)
                names = [column["name"] for column in table["columns"]]
                columns = [names.index(name) for name in self.browser.evaluate(NAMES)]
                self.assertEqual(len(shown), len(table["rows"]))
                for row, cells in zip(table["rows"], shown):
                    for i, cell in zip(columns, cells):
                        if isinstance(row[i], (int, float)):
                            self.assertEqual(cell, row[i], names[i])
                        else:
                            self.assertEqual(cell, row[i] or "–", names[i])
                # What is not shown has nothing in it.
                for i in set(range(len(names))) - set(columns):
                    self.assertEqual([row[i] for row in table["rows"] if row[i] not in (None, "")], [], names[i])

    def check_numbers(self, run, views):
        """What bars, dots and steps stand for are numbers of the tables."""
        tables = json.loads(dlhook("report", run, "--table", "all", "--format", "json"))["tables"]
        known = {0} | {cell for table in tables for row in table["rows"] for cell in row if isinstance(cell, (int, float))}
        for view in set(views) - {"answer"}:
            self.browser.go("#" + view)
            shown = self.browser.evaluate("[...document.querySelectorAll('.view [data-value]:not(.node)')].map(one => +one.dataset.value)")
            self.assertEqual([number for number in shown if number not in known], [], view)

    def test_golden_runs(self):
        for name in ("torch_cnn_level2", "torch_cuda_benchmark"):
            with self.subTest(run=name):
                run = traces.golden(self.folder, name)
                self.open(run)
                views = self.check_views()
                self.assertIn("layers", views)
                self.check_tables("report", run, "--table", "all")
                self.check_numbers(run, views)
                self.assertEqual(self.browser.errors, [])

    def test_diff(self):
        runs = [traces.network(self.folder, name, 4, 30, slow) for name, slow in (("base", 0), ("new", 2))]
        self.open_page(os.path.join(self.folder, "diff.html"), "diff", *runs)
        views = self.check_views()
        self.assertIn("layers", views)
        self.check_tables("diff", *runs)
        for view in ("verdict", "layers"):
            self.browser.go("#" + view)
            changes = self.browser.evaluate("[...document.querySelectorAll('.view .bar-row')].map(one => +one.dataset.value)")
            self.assertEqual(changes[0], 40_000)
        self.assertEqual(self.browser.errors, [])

    def test_diff_of_conversions(self):
        """Each row says between which ops, so that no two look the same."""
        runs = [traces.golden(self.folder, name, name + " diff") for name in ("torch_cnn_level2", "torch_cnn_channels_last")]
        self.open_page(os.path.join(self.folder, "conversions.html"), "diff", *runs)
        self.browser.go("#layout")
        names = self.browser.evaluate("[...document.querySelectorAll('.view .bar-row .bar-name')].map(one => one.textContent)")
        self.assertGreater(len(names), 10)
        self.assertEqual(len(names), len(set(names)), names)
        self.browser.size(390, 800)
        for view in self.browser.evaluate(VIEWS):
            self.browser.go("#" + view)
            self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), 390, view)
        self.browser.size(1280, 900)

    def test_scaling(self):
        runs = [traces.network(self.folder, name, 4, 30) for name in ("one", "two")]
        self.open_page(os.path.join(self.folder, "scaling.html"), "scaling", *runs)
        self.check_views()
        self.check_tables("scaling", *runs)
        self.assertEqual(self.browser.errors, [])

    def test_answer(self):
        run = traces.golden(self.folder, "training")
        self.open(run)
        self.browser.go("#answer")
        text = self.browser.evaluate("document.querySelector('.view').innerText")
        screen = " ".join(dlhook("report", run).split())
        for sentence in ("A training step takes 1.00 ms, mean of 1 of 3 (without 1 of warm-up and the last one).",
                         "Batch 2: 2000 samples/s.",
                         "1 warm-up step took 1.40 ms."):
            self.assertIn(sentence, screen)
            self.assertIn(sentence, text)
        parts = self.browser.evaluate("[...document.querySelectorAll('[data-part]')].map(one => Number(one.dataset.value))")
        self.assertEqual(sum(parts), 1_000_000)
        # Bars are coloured by kind, whatever the parts are called.
        rows = "[...document.querySelectorAll('[data-part]')].map(one => [one.dataset.kind, one.querySelector('.bar span').className])"
        colors = dict(self.browser.evaluate(rows))
        self.assertEqual(colors["library"], "library")
        self.assertEqual(colors["not_seen"], "other")

    def shown(self, selector, of="textContent"):
        return self.browser.evaluate(f"[...document.querySelectorAll({json.dumps('.view ' + selector)})].map(one => one.{of})")

    def test_links(self):
        """From a finding to its rows, from a layer to its kernels and its place on the timeline; an address shows the same again."""
        run = traces.recorded(self.folder, "resnet18")
        self.open(run)
        links = self.shown("a.evidence", "getAttribute('href')")
        self.assertEqual(len(links), 2)
        for link, words in zip(links, ("aten::normal_", "launch-bound")):
            self.browser.go(link)
            self.browser.wait_for("scrollY > 0 || document.querySelector('.view .target').getBoundingClientRect().top < innerHeight")
            targets = self.shown("tr.target")
            self.assertTrue(targets)
            self.assertEqual([row for row in targets if words not in row], [])
            self.assertLess(len(targets), len(self.shown("[data-table=gpu_idle] tbody tr")))
        self.browser.go("#answer")
        (part,) = self.shown("a.bar-row[data-part^='normal_']", "getAttribute('href')")
        self.browser.go(part)
        self.assertIn("aten::normal_", self.shown(".bar-row.target")[0])
        self.browser.go("#answer")
        heaviest = self.shown("a.bar-row[href^='#layers']", "getAttribute('href')")
        self.assertGreater(len(heaviest), 5)
        for link in heaviest:
            self.browser.go(link)
            self.assertEqual(len(self.shown(".bar-row.target")), 1, link)
        self.browser.go("#layers?row.layers=layer%3D8.first")
        self.assertEqual(len(self.shown(".bar-open .bar-row.target")), 1)
        kernels, timeline = self.shown(".bar-open .target + .bar-open a", "getAttribute('href')")[:2]
        self.browser.go(kernels)
        layers = self.shown("[data-table=kernels] tbody tr", "cells[6].textContent")
        self.assertEqual(set(layers), {"8.first"})
        self.browser.go(timeline)
        self.assertRegex(self.shown(".count")[0], r"^\d+ found")
        self.assertIn("8.first", self.shown(".slice-details")[0])
        # A row that is clicked on and an order are in the address; a step's bar leads to its timeline.
        self.browser.go("#table/kernels")
        self.assertEqual(self.shown("th[aria-sort=descending]"), ["gpu time▼"])  # as it comes
        for what, place in ((".sort", 3), ("tbody td", 30)):
            self.browser.evaluate(f"document.querySelectorAll('.view {what}')[{place}].click()")
        there, rows, target = self.browser.evaluate("location.hash"), self.shown("tbody tr"), self.shown("tr.target")
        self.browser.go("#answer")
        self.browser.go(there)
        self.assertEqual((self.shown("tbody tr"), self.shown("tr.target")), (rows, target))
        self.browser.go("#steps")
        self.browser.wait_for("document.querySelectorAll('.step.link').length == 6")
        # The chart's median and its words are of the steps that count.
        self.assertIn("Left out of means, the last: step 5 (12.1 ms). ", self.shown("p.quiet")[0])
        self.assertIn("steady median 27.8 ms", self.shown("svg text"))
        self.browser.evaluate("document.querySelectorAll('.step.link')[1].dispatchEvent(new MouseEvent('click'))")
        self.browser.wait_for("document.querySelector('.view').id == 'view-timeline'")
        self.assertIn("Step 1: 37.6 ms", self.shown("p.quiet")[0])
        self.assertEqual(self.browser.errors, [])

    def test_kernels_and_layers(self):
        """Sums by kernel, with the time first; layers by GPU time or by host time, blocks as one."""
        run = traces.recorded(self.folder, "resnet18")
        self.open(run)
        (table,) = json.loads(dlhook("report", run, "--table", "kernels", "--format", "json"))["tables"]
        names = [column["name"] for column in table["columns"]]
        sums = {}
        for row in table["rows"]:
            sums[row[names.index("kernel")]] = sums.get(row[names.index("kernel")], 0) + row[names.index("gpu_time")]
        self.browser.go("#kernels")
        self.assertEqual(self.shown(".bar-row", "dataset.kernel"), sorted(sums, key=lambda one: -sums[one]))
        self.assertEqual(self.browser.evaluate(NAMES)[:3], ["kernel", "gpu_time", "gpu_percent"])
        self.browser.evaluate("document.querySelector('.view .bar-row').click()")
        self.assertGreater(len(self.shown(".bar-open .bar-row")), 10)
        # What is beyond the edge is shown to be there.
        self.browser.wait_for("document.querySelector('.view .scroll.wider') !== null")
        self.browser.go("#layers")
        rows = self.shown(".bar-row .bar-name")
        self.assertIn("*.first ×8", rows)
        self.assertEqual([row for row in rows if "[GPU idle]" in row], [])
        on_gpu = self.shown(".bar-row .number")
        self.browser.go("#layers?time=host")
        self.assertNotEqual(self.shown(".bar-row .number"), on_gpu)
        # Of a name that is too long the end stays.
        self.browser.go("#kernels")
        cut = ("[...document.querySelectorAll('.view .bar-name .middle')]"
               ".filter(one => one.firstChild.scrollWidth > one.firstChild.clientWidth)"
               ".map(one => [one.lastChild, one.closest('.bar-name')].map(one => one.getBoundingClientRect().right))"
               ".map(([end, edge]) => end <= edge + 1)")
        self.assertEqual(set(self.browser.evaluate(cut)), {True})
        # 53 bars, 9 columns and 50 rows are few stops of the Tab key.
        self.assertLess(len([one for one in self.shown("*", "tabIndex") if one >= 0]), 14)

    def test_timeline_of_any_step(self):
        """Tracks of steps and phases; every step of a small run can be chosen; a flame graph's boxes are as long as the slices."""
        self.open(traces.recorded(self.folder, "resnet18"))
        self.browser.go("#timeline")
        self.assertEqual(len(self.shown(".segments:first-child button") + self.shown("option + option")), 6)
        self.assertIn("backward (phase, layer)", self.shown(".legend li"))
        self.browser.evaluate("document.querySelector('.view input[type=search]').focus()")
        self.browser.call("Input.insertText", text="normal_")
        self.assertRegex(self.shown(".count")[0], r"^[1-9]\d* found")
        first = self.shown(".slice-details")
        self.assertIn("normal_", first[0])
        self.browser.key("Enter")
        self.assertIn("slice=", self.browser.evaluate("location.hash"))
        self.browser.go("#timeline?as=flame")
        self.browser.wait_for("document.querySelectorAll('.node').length > 10")
        values = [float(value) for value in self.shown(".node[aria-label='aten::normal_']", "dataset.value")]
        self.assertTrue([value for value in values if 13e6 < value < 15e6], values)
        self.assertEqual(self.browser.errors, [])

    def test_states_on_the_timeline(self):
        """The legend has every kind of phase, and the time in which a thread waited for a processor."""
        names = "".join(f'string {{ iid: {900 + i} value: "{name}" }}' for i, name in enumerate(("running", "queued")))
        states = (f"packet {{ interned {{ {names} }} }} packet {{ counter_batch {{ thread_id: 1 tid: 4711 kind: STATES source: PROC "
                  "name_iid: [900, 901] tick_delta: [1000000, 100000000] value_delta: [0, 0, 60000000, 40000000] } }")
        self.open(traces.network(self.folder, "queued", 2, 30, more=states))
        self.browser.go("#timeline")
        self.assertIn("without a processor, part of the time", self.shown(".legend li"))
        self.browser.evaluate("document.querySelector('.view input[type=search]').focus()")
        self.browser.call("Input.insertText", text="40 %")
        self.assertEqual(self.shown(".count")[0], "0 found")  # a state is no work
        # Whatever phases there are.
        with open(os.path.join(traces.ROOT, "analyzer", "steps", "phases.cc"), encoding="utf-8") as source:
            phases = re.findall(r'"(\w+)"', re.search(r"NameIn<PhaseKind.*?\{(.*?)\}", source.read(), re.S)[1])
        self.assertIn("forward", phases)
        with open(os.path.join(traces.ROOT, "web", "src", "timeline.js"), encoding="utf-8") as source:
            known = re.findall(r"^  (\w+): ", re.search(r"CLASS_NAMES = \{(.*?)\};", source.read(), re.S)[1], re.M)
        self.assertEqual(set(phases) - set(known), set())

    def test_steps_of_ranks(self):
        """A chart is of one rank; of more steps than it has room for, of neighbours together."""
        for rank, steps in enumerate((30, 900)):
            run = traces.network(self.folder, "ranks", 2, steps, rank=rank)
        self.open(run)
        self.browser.go("#steps")
        self.browser.wait_for("document.querySelectorAll('.view .step').length > 0")
        self.assertEqual(self.shown("select[aria-label=Process] option"), ["rank 0, process 4711", "rank 1, process 4712"])
        self.assertEqual(len(self.shown(".step")), 30)
        self.browser.evaluate("(() => { const one = document.querySelector('select[aria-label=Process]'); one.value = 4712;"
                              "one.dispatchEvent(new Event('change')); })()")
        self.browser.wait_for("document.querySelector('.view p.quiet').innerText.startsWith('900')")
        self.assertIn("the middle half of neighbours", self.shown(".legend li"))
        self.assertEqual(self.browser.errors, [])

    def test_saved(self):
        """A table as CSV and a view as a picture."""
        run = traces.recorded(self.folder, "resnet18")
        self.open(run)
        self.browser.evaluate("(make => { URL.createObjectURL = blob => (window.saved = blob, make(blob)); })(URL.createObjectURL)")
        self.browser.go("#table/steps?all.steps=1")
        self.browser.evaluate("[...document.querySelectorAll('.view button')].find(one => one.textContent === 'CSV').click()")
        lines = self.browser.evaluate("window.saved.text()").splitlines()
        self.assertEqual(lines[0].split(","), self.browser.evaluate(NAMES))
        self.assertEqual(len(lines), 7)
        for view in ("timeline", "layers"):
            self.browser.go("#" + view)
            self.browser.evaluate("window.saved = null, document.querySelector('.view-head button').click()")
            self.browser.wait_for("window.saved && window.saved.size > 10000 && window.saved.type === 'image/png'")
        self.assertEqual(self.browser.errors, [])

    def test_roofline_and_bars(self):
        """A layer's convolutions are under the roof; numbers have no exponent; a bar of half a step is half as long as its track."""
        self.open(traces.recorded(self.folder, "resnet18"))
        self.browser.go("#products")
        self.browser.wait_for("document.querySelectorAll('circle.recompute').length == 20")
        self.assertNotRegex(" ".join(self.shown("svg text") + self.shown(".number")), r"\de\+\d")
        self.browser.go("#answer")
        widths = [float(width.rstrip("%")) for width in self.shown("[data-part] .bar span", "style.width")]
        self.assertAlmostEqual(sum(widths), 100, delta=1)
        self.browser.go("#gpu")
        self.assertEqual([name for name in self.shown(".bar-name") if "null" in name], [])

    def test_in_a_notebook(self):
        """In a frame without an address of its own, links and tables work."""
        with open(self.open(traces.network(self.folder, "framed", 3, 20)), encoding="utf-8") as page:
            framed = f'<iframe srcdoc="{html.escape(page.read())}"></iframe>'
        path = os.path.join(self.folder, "notebook.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(framed)
        self.browser.call("Page.navigate", url="file://" + path)
        inside = "document.querySelector('iframe')?.contentDocument"
        self.browser.wait_for(f"{inside}?.querySelector('[data-ready]') != null")
        self.browser.evaluate(f"{inside}.querySelector('nav a[data-view=steps]').click()")
        self.browser.wait_for(f"{inside}?.querySelector('.view')?.id == 'view-steps'")
        self.browser.evaluate(f"{inside}.querySelector('.view .sort').click()")
        self.assertEqual(self.browser.evaluate(f"{inside}.querySelector('.view th').ariaSort"), "ascending")
        self.assertEqual(self.browser.errors, [])

    def test_memory(self):
        """The resident memory that was sampled, over time."""
        self.open(traces.recorded(self.folder, "resnet18"))
        self.browser.go("#memory")
        self.browser.wait_for("document.querySelector('.view path.line') !== null")
        self.assertIn("resident memory, at most 1.30 GiB", self.shown(".legend li"))

    def test_no_difference(self):
        run = traces.recorded(self.folder, "resnet18")
        self.open_page(os.path.join(self.folder, "same.html"), "diff", run, run)
        self.assertIn("no difference", self.shown(".hero-number")[0])

    def test_hostile_names(self):
        run = traces.hostile(self.folder)
        path = self.open(run)
        with open(path, encoding="utf-8") as file:
            self.assertNotIn("onerror", file.read())
        views = self.check_views()
        addresses = ["#" + view for view in views] + ["#table/" + name for name in ("ops", "gemm", "algorithms", "capabilities", "layers")]
        for address in addresses:
            self.browser.go(address)
            self.assertIsNone(self.browser.evaluate("window.pwned ?? null"), address)
            self.assertEqual(self.browser.evaluate("document.images.length + document.querySelectorAll('script').length"), 3, address)
        self.browser.go("#table/ops")
        shown = self.browser.evaluate("document.querySelector('.view').textContent")
        self.assertIn("</script><img src=x onerror=window.pwned=1>", shown)
        self.assertIn("\\n\\x1b[31m\\u202eRTL\\u2066", shown)
        self.assertEqual(self.browser.errors, [])

    def test_explanations(self):
        run = traces.network(self.folder, "explained", 3, 20)
        self.open(run)
        self.browser.go("#table/ops")
        hover = ("(one => (one.dispatchEvent(new PointerEvent('pointermove', {clientX: 9, clientY: 9})), "
                 "document.querySelector('.tip').innerText))")
        (table,) = json.loads(dlhook("report", run, "--table", "ops", "--format", "json"))["tables"]
        explanations = {column["name"]: column["explanation"] for column in table["columns"]}
        shown = self.browser.evaluate(NAMES)
        self.assertIn("total_time", shown)
        for place, name in enumerate(shown):
            tip = self.browser.evaluate(f"{hover}(document.querySelectorAll('.view .sort')[{place}])")
            self.assertIn(explanations[name], tip)

    def test_cells_by_keyboard(self):
        """The Tab key reaches one cell of a table, the arrow keys lead to the others, each says what its number means."""
        run = traces.network(self.folder, "cells", 3, 20)
        self.open(run)
        self.browser.go("#table/ops")
        (table,) = json.loads(dlhook("report", run, "--table", "ops", "--format", "json"))["tables"]
        explanations = {column["name"]: column["explanation"] for column in table["columns"]}
        self.browser.evaluate("document.querySelector('.view thead th:last-child .sort').focus()")
        self.browser.key("Tab")
        here = "(() => { const cell = document.activeElement; return [cell.tagName, cell.parentElement.rowIndex, cell.cellIndex]; })()"
        self.assertEqual(self.browser.evaluate(here), ["TD", 1, 0])
        shown = self.browser.evaluate(NAMES)
        for place, name in enumerate(shown):
            self.assertEqual(self.browser.evaluate(here), ["TD", 1, place])
            value = self.browser.evaluate("document.activeElement.dataset.value")
            tip = self.browser.evaluate("document.querySelector('.tip.shown') && document.querySelector('.tip.shown').innerText")
            if value is not None:
                self.assertIn(explanations[name], tip)
                self.assertIn(value, "".join(tip.split()), name)
            self.browser.key("ArrowRight")
        for key, expected in (("ArrowDown", [2, len(shown) - 1]), ("Home", [2, 0]), ("ArrowUp", [1, 0]), ("ArrowUp", [1, 0]),
                              ("End", [1, len(shown) - 1])):
            self.browser.key(key)
            self.assertEqual(self.browser.evaluate(here), ["TD", *expected], key)
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.view td[tabindex=\"0\"]').length"), 1)

    def test_conversions_between_ops(self):
        run = traces.golden(self.folder, "torch_cnn_level2", "between ops")
        self.open(run)
        self.browser.go("#layout")
        shown = self.browser.evaluate("[...document.querySelectorAll('.ribbon[tabindex]')].map(one => one.getAttribute('aria-label'))")
        (table,) = json.loads(dlhook("report", run, "--table", "layout", "--format", "json"))["tables"]
        names = [column["name"] for column in table["columns"]]
        rows = [dict(zip(names, row)) for row in table["rows"]]
        known = [row for row in rows if row["written_by"] and row["read_by"]]
        self.assertIn(("conv1 forward", "conv2 forward"), [(row["written_by"], row["read_by"]) for row in known])
        for row in known:
            words = f"{row['from']} to {row['to']}, from {row['written_by']} to {row['read_by']},"
            self.assertTrue([text for text in shown if words in text], (row, shown))
        self.assertEqual(len(shown), len(rows) + sum(0 < row["round_trip_time"] < row["total_time"] for row in rows))

    def test_two_versions(self):
        """What a newer version added is left out, and the page says so."""
        for run, code in ((traces.newer(self.folder), 0), (traces.two_versions(self.folder), 0), (traces.two_versions(self.folder, 2), 2)):
            with self.subTest(run=run):
                self.open(run, expected=(code,))
                self.check_views()
                self.browser.go("#answer")
                self.assertIn("written by dlhook 9.0" if code else "what is new in it was left out",
                              self.browser.evaluate("document.querySelector('.view').innerText"))

    def test_keys_of_the_timeline(self):
        self.open(traces.network(self.folder, "keys", 3, 20))
        self.browser.go("#timeline/slowest")
        for key in "wwdan":
            self.browser.evaluate(f"document.querySelector('.timeline').dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}'}}))")
        self.assertIn("convolution", self.browser.evaluate("document.querySelector('.slice-details').innerText"))
        self.assertEqual(self.browser.errors, [])

    def test_address_of_nothing(self):
        self.open(traces.one_call(self.folder))
        for address in ("#nothing", "#table/none", "#%E0%A4%A", "#layers/x/y"):
            self.browser.go(address)
            self.assertEqual(self.browser.errors, [])
            self.assertGreater(len(self.browser.evaluate("document.querySelector('.view').innerText")), 20)

    def test_small_runs(self):
        for run in (traces.network(self.folder, "no steps", 3, 1), traces.no_calls(self.folder)):
            with self.subTest(run=run):
                self.open(run)
                self.check_views()

    def test_cut_off(self):
        run = traces.golden(self.folder, "torch_cnn_channels_last")
        trace = os.path.join(run, "1.dlh")
        os.truncate(trace, os.path.getsize(trace) * 2 // 3)
        self.open(run, expected=(2,))
        self.check_views()
        self.browser.go("#answer")
        self.assertIn("not-seen", self.browser.evaluate("[...document.querySelectorAll('[id]')].map(one => one.id)"))

    def test_many_layers(self):
        run = traces.network(self.folder, "many layers", 10_000, 3)
        self.open(run)
        self.assertIn("layers", self.check_views())
        self.browser.go("#layers")
        self.assertIn("row", self.browser.evaluate("document.querySelector('.view .count').textContent"))

    def test_narrow_and_dark(self):
        self.open(traces.golden(self.folder, "torch_cuda_legacy"))
        self.browser.size(390, 800)
        self.browser.dark(True)
        for view in self.browser.evaluate(VIEWS):
            self.browser.go("#" + view)
            self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), 390, view)
        self.assertEqual(self.browser.errors, [])
        # The reader's choice against the system's.
        ground = "getComputedStyle(document.body).backgroundColor"
        dark = self.browser.evaluate(ground)
        self.browser.evaluate("document.querySelector('.theme').click()")
        light = self.browser.evaluate(ground)
        self.assertNotEqual(dark, light)
        self.browser.dark(False)
        self.assertEqual(self.browser.evaluate(ground), light)
        self.open(traces.golden(self.folder, "training", "light"))
        self.assertEqual(self.browser.evaluate(ground), light)
        # A choice is kept in the next page, until it is the system's.
        self.browser.evaluate("document.querySelector('.theme').click()")
        self.open(traces.golden(self.folder, "training", "kept"))
        self.assertEqual(self.browser.evaluate(ground), dark)
        self.browser.evaluate("document.querySelector('.theme').click()")
        self.assertEqual(self.browser.evaluate("Object.keys(localStorage)"), [])
        self.browser.size(1280, 900)


if __name__ == "__main__":
    unittest.main()
