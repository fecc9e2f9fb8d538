// Kernels by their sums; of each, for which layers and operations it ran.
import {get, namedBy, set} from "../address.js";
import {bars} from "../bars.js";
import {table} from "../data.js";
import {add, h, replace, searchBox} from "../dom.js";
import {groups, percent, time} from "../format.js";
import {addressOfLayer, timelineOf} from "../links.js";
import {card} from "../tip.js";
import {joined, part, sum, tablesOf} from "./parts.js";

const PARTS_OF_ONE = 40;

// Of kernels, or of the rows of one: the numbers that a bar has.
function rowOf(kernels, name, rows, more) {
  const total = (column) => sum(rows.map((row) => row[column]));
  return {
    name,
    parts: [{value: total("gpu_time"), color: "kernel"}],
    numbers: [time(total("gpu_time")), percent(total("gpu_percent"))],
    data: {kernel: name},
    tip: () =>
      card(
        name,
        [
          ["GPU time", time(total("gpu_time"))],
          ["of all kernels", percent(total("gpu_percent"))],
          ["calls", groups(total("calls"))],
          ["mean", time(total("gpu_time") / total("calls"))],
          ["whole name", joined([...new Set(rows.map((row) => row.name))], "; ")],
        ],
        kernels.explanation("gpu_time"),
      ),
    ...more,
  };
}

export const kernelsView = {
  id: "kernels",
  title: "Kernels",
  lead: "The kernels that GPUs ran: what each costs over all layers; click on one for its layers.",
  tables: ["kernels"],
  none: "No kernel of a GPU was recorded.",
  isWhole: true,
  render(section) {
    const kernels = table("kernels"),
      all = new Map();
    for (const row of kernels.objects) {
      if (!all.has(row.kernel)) all.set(row.kernel, []);
      all.get(row.kernel).push(row);
    }
    const open = (rows) => [
      bars(
        rows.slice(0, PARTS_OF_ONE).map((row) =>
          rowOf(kernels, row.layer || row.launched_by || "no layer", [row], {
            note: joined([row.layer && row.launched_by, `${groups(row.calls)} calls`]),
            href: row.layer && addressOfLayer(row.layer),
          }),
        ),
      ),
      h(
        "p.links",
        rows.length > PARTS_OF_ONE && `The heaviest ${PARTS_OF_ONE} of ${rows.length}. `,
        timelineOf(rows[0].kernel),
      ),
    ];
    const sums = [...all]
      .map(([name, rows]) => {
        const layers = new Set(rows.map((row) => row.layer).filter(Boolean)).size;
        return rowOf(kernels, name, rows, {
          note: joined([
            layers > 1 ? `${layers} layers` : rows[0].layer,
            `${groups(sum(rows.map((row) => row.calls)))} calls`,
          ]),
          open: () => open(rows),
        });
      })
      .sort((a, b) => b.parts[0].value - a.parts[0].value);
    const box = h("div");
    const draw = (words) =>
      replace(
        box,
        bars(
          sums.filter((one) => one.name.toLowerCase().includes(words)),
          {empty: "No kernel has this name."},
        ),
      );
    const query = get("find.kernels") || "";
    const sumsPart = part(
      `${groups(sums.length)} kernels`,
      h("div.controls", searchBox("Find a kernel", (words) => (set("find.kernels", words), draw(words)), query)),
      box,
    );
    draw(query);
    const rows = tablesOf(["kernels"]);
    add(section, namedBy("only", kernels).length > 0 ? [rows, sumsPart] : [sumsPart, part("By layer", rows)]);
  },
};
