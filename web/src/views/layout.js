// Tensors converted from one memory format to another: which, between which formats and which ops.
import {bars, legend} from "../bars.js";
import {responsive} from "../chart.js";
import {table} from "../data.js";
import {add, h} from "../dom.js";
import {time} from "../format.js";
import {card, tip} from "../tip.js";
import {joined, part, sum} from "./parts.js";

const MOST = 24,
  GAP = 10,
  LEAST = 3,
  NODE = 12,
  SIDE = 210; // for names of ops

function moveOf(row) {
  const isRetyped = row.from_type !== row.to_type,
    format = (name) => joined([row[name], isRetyped && row[`${name}_type`]], " ");
  const tensor = row.tensor || "tensor",
    dims = row.dims || "",
    [from, to] = [format("from"), format("to")],
    [writer, reader] = [row.written_by, row.read_by],
    notKnown = `${tensor}, op not known`;
  return {
    ...row,
    tensor: `${tensor} ${dims}`,
    from,
    to,
    // Of a kernel its name stands in the place of the sizes.
    what: `${/^\d/.test(dims) ? dims + " " : ""}${from} → ${to}`,
    writer: writer || notKnown,
    reader: reader || notKnown,
    between: joined([writer && `from ${writer}`, reader && `for ${reader}`], " ") || tensor,
    time: row.total_time,
    backTime: row.round_trip_time || 0,
  };
}

const moves = () =>
  table("layout")
    .objects.map(moveOf)
    .filter((move) => move.time > 0)
    .sort((a, b) => b.time - a.time);

const tipOf = (move) => () =>
  card(
    move.tensor,
    [
      ["from", move.from],
      ["to", move.to],
      ["written by", move.writer],
      ["read by", move.reader],
      ...table("layout").pairs(move, {time: "total_time", calls: "calls", "bytes of one": "bytes"}),
      ["round trips", move.round_trip_calls > 0 && `${move.round_trip_calls} (${time(move.backTime)})`],
      ["caused by", move.caused_by],
    ],
    table("layout").explanation("total_time"),
  );

// As many characters as fit, the middle left out.
function shortened(text, most) {
  if (text.length <= most) return text;
  return `${text.slice(0, Math.ceil(most / 2) - 1)}…${text.slice(text.length - Math.floor(most / 2))}`;
}

// Three columns: the op that wrote a tensor, its conversion, the op that reads it; ribbons as high as the time.
function flow(all, width) {
  const ribbons = all
      .slice(0, MOST)
      .flatMap((move) => [
        {...move, part: move.time - move.backTime},
        {...move, part: move.backTime, isBack: true},
      ])
      .filter((move) => move.part > 0),
    whole = sum(ribbons.map((move) => move.part)),
    narrow = width < 640;
  const columns = [
    ["writer", new Map()],
    ["what", new Map()],
    ["reader", new Map()],
  ];
  for (const move of ribbons)
    for (const [key, nodes] of columns) nodes.set(move[key], (nodes.get(move[key]) || 0) + move.part);
  const most = Math.max(...columns.map(([, nodes]) => nodes.size)),
    height = Math.max(220, most * 34);
  const xs = narrow ? [0, (width - NODE) / 2, width - NODE] : [SIDE, width * 0.4, width - SIDE - NODE],
    letters = narrow ? Math.floor(width / 18) : 30;
  const places = columns.map(([, nodes]) => {
    const scale = (height - GAP * (nodes.size - 1)) / whole,
      at = new Map();
    let y = 0;
    for (const [name, of] of [...nodes].sort((a, b) => b[1] - a[1])) {
      at.set(name, {y, height: Math.max(LEAST, of * scale), scale, used: [0, 0]});
      y += Math.max(LEAST, of * scale) + GAP;
    }
    return at;
  });
  const bottom = Math.max(...places.flatMap((at) => [...at.values()].map((place) => place.y + place.height)));
  const svg = h("svg.chart", {
    viewBox: `0 0 ${width} ${bottom + 30}`,
    width,
    height: bottom + 30,
    role: "group",
    "aria-label": "Conversions of tensors between ops",
  });
  const inside = h("g", {transform: "translate(0,22)"});
  const anchors = narrow ? ["start", "start", "end"] : ["end", "start", "start"];
  ["written by", "converted", "read by"].forEach((name, i) =>
    svg.append(h("text", {x: xs[i] + (anchors[i] === "end" ? NODE : 0), y: 12, "text-anchor": anchors[i]}, name)),
  );
  const band = (move, left, right, side) => {
    const from = places[left].get(move[columns[left][0]]),
      to = places[right].get(move[columns[right][0]]);
    const [h0, h1] = [Math.max(1, move.part * from.scale), Math.max(1, move.part * to.scale)],
      [y0, y1] = [from.y + from.used[1], to.y + to.used[0]];
    from.used[1] += h0;
    to.used[0] += h1;
    const x0 = xs[left] + NODE,
      x1 = xs[right],
      middle = (x0 + x1) / 2;
    const path = h("path.ribbon" + (move.isBack ? ".back" : ""), {
      d: `M${x0},${y0}C${middle},${y0} ${middle},${y1} ${x1},${y1}V${y1 + h1}C${middle},${y1 + h1} ${middle},${y0 + h0} ${x0},${y0 + h0}Z`,
      tabindex: side ? null : 0,
      role: "img",
      "aria-label": `${move.tensor}: ${move.from} to ${move.to}, from ${move.writer} to ${move.reader}, ${time(move.time)}`,
    });
    inside.append(tip(path, tipOf(move)));
  };
  for (const move of ribbons) band(move, 0, 1);
  for (const move of ribbons) band(move, 1, 2, true);
  places.forEach((at, i) => {
    for (const [name, place] of at) {
      const x = anchors[i] === "end" ? xs[i] - 6 : xs[i] + NODE + 6;
      add(inside, [
        h("rect.node-bar", {x: xs[i], y: place.y, width: NODE, height: place.height, rx: 2}),
        // No room for all three on a phone: the list below has the middle.
        !(narrow && i === 1) &&
          h(
            "text.strong",
            {x, y: place.y + Math.max(place.height / 2, 4) + 4, "text-anchor": anchors[i]},
            shortened(name, letters),
          ),
      ]);
    }
  });
  svg.append(inside);
  return svg;
}

export const layoutView = {
  id: "layout",
  title: "Layout",
  lead: "Tensors that were converted from one memory format to another: which op wrote them, and which reads the result.",
  tables: ["layout"],
  none: "No tensor was converted to another memory format.",
  notesOf: "layout",
  render(section) {
    const all = moves();
    add(section, [
      all.length > 0 &&
        legend([
          ["conversion", "library"],
          all.some((move) => move.round_trip_calls > 0) && [
            "of it round trips: there and back between two ops",
            "backward",
          ],
        ]),
      all.length > 0 && responsive((width) => flow(all, width)),
      all.length > MOST && h("p.quiet", `The ${MOST} heaviest of ${all.length}.`),
      part(
        "Heaviest conversions",
        bars(
          all.slice(0, 12).map((move) => ({
            name: move.between,
            note: move.what,
            parts: [
              {value: move.time - move.backTime, color: "library"},
              {value: move.backTime, color: "backward"},
            ],
            numbers: [time(move.time), `${move.calls} calls`],
            tip: tipOf(move),
            data: {value: move.time},
          })),
        ),
      ),
    ]);
  },
};
