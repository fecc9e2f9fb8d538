// Matrix products under the roof of the machine: what they reach, and what they could.
import {line} from "d3-shape";
import {scaleLog, scaleSqrt} from "d3-scale";
import {bars, legend} from "../bars.js";
import {dot, frame, responsive} from "../chart.js";
import {page, table} from "../data.js";
import {add, h, notes} from "../dom.js";
import {amount, groups, time} from "../format.js";
import {addressOfLayer} from "../links.js";
import {card} from "../tip.js";
import {part, whyMissing} from "./parts.js";

const rateText = (rate) => amount(rate, "GFLOP/s");

// What a row of products and one of layers say alike; `lost_time` is null where it is not known.
const reached = (row) => ({
  lost_time: null,
  ...row,
  onGpu: row.gpu_time > 0,
  time: row.gpu_time || (row.total_time ?? row.time) || 0,
  rate: row.gpu_time > 0 ? row.gpu_rate : row.rate,
});

const products = () =>
  (table("gemm")?.objects || []).map((row) => ({
    ...reached(row),
    name: `${row.kind} ${row.m === null ? "" : `${row.m} × ${row.n} × ${row.k}`}${row.batch > 1 ? ` × ${groups(row.batch)}` : ""} ${row.trans || ""}`,
  }));

// Of layers, in a mean step.
const convolutions = () =>
  (table("layers")?.objects || [])
    .filter((row) => row.type === "convolution")
    .map((row) => ({...reached(row), name: row.layer, types: "convolution", isConvolution: true}));

function tipOf(product) {
  const of = table(product.isConvolution ? "layers" : "gemm");
  return () =>
    card(
      product.name,
      [
        ["type", product.types],
        ["calls", groups(Math.round(product.calls))],
        [product.onGpu ? "GPU time" : "time", time(product.time)],
        ...of.pairs(product, {
          rate: "rate",
          intensity: "intensity",
          "limited by": "bound",
          "of its bound": "bound_percent",
          lost: "lost_time",
          "tensor cores": "tensor_core",
        }),
      ],
      of.explanation("bound_percent"),
    );
}

function roofline(points, roofs, width) {
  const peak = Math.max(...roofs.rates.map((one) => one.value), ...points.map((point) => point.rate));
  const low = Math.min(...points.map((point) => point.rate), peak / 100),
    intensities = points.map((point) => point.intensity);
  const least = Math.min(...intensities, 0.5),
    most = Math.max(...intensities, 64);
  const x = scaleLog([least / 1.6, most * 1.6], [0, 1]),
    y = scaleLog([low / 1.8, peak * 2.2], [1, 0]);
  const isPower = (value) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-9;
  const power = (value) => (isPower(value) ? groups(Number(value.toPrecision(1))) : "");
  const chart = frame({
    width,
    height: 380,
    left: 62,
    x,
    y,
    xFormat: power,
    yFormat: (value) => (value >= 1000 ? `${power(value / 1000)} T` : `${power(value)} G`),
    powers: true,
    xLabel: "arithmetic intensity, FLOP/byte",
    yLabel: "FLOP/s",
    top: 22,
    label: "Roofline of matrix products",
  });
  const path = (points) => line()(points.map((point) => [x(point[0]), y(point[1])]));
  const [from, to] = x.domain(),
    floor = y.domain()[0];
  const fastest = Math.max(0, ...roofs.bandwidths.map((one) => one.value));
  const reached = roofs.rates.filter(({value}) => fastest === 0 || value / fastest <= to); // others are beyond the chart
  const best = Math.max(...reached.map((one) => one.value), 0);
  const labels = []; // above the circles
  for (const {name, value} of reached) {
    chart.inside.append(
      h("path.roof", {
        d: path([
          [fastest > 0 ? Math.max(from, Math.min(to, value / fastest)) : from, value],
          [to, value],
        ]),
      }),
    );
    labels.push(
      h("text.strong", {x: chart.width, y: y(value) - 6, "text-anchor": "end"}, `${name}: ${rateText(value)}`),
    );
  }
  const slopes = roofs.bandwidths
    .map((one) => ({
      ...one,
      start: Math.max(from, floor / one.value),
      end: Math.min(to, best > 0 ? best / one.value : to),
    }))
    .filter(({start, end}) => end > start);
  slopes.forEach(({name, value, start, end}, i) => {
    const at = [start * (end / start) ** (0.04 + 0.12 * i), 0];
    const slope = (Math.atan2(y(end * value) - y(start * value), x(end) - x(start)) * 180) / Math.PI;
    chart.inside.append(
      h("path.roof.dashed", {
        d: path([
          [start, start * value],
          [end, end * value],
        ]),
      }),
      h(
        "text",
        {transform: `translate(${x(at[0])},${y(at[0] * value) - 6}) rotate(${slope})`},
        `${name}: ${value >= 100 ? value.toFixed(0) : value.toPrecision(3)} GB/s`,
      ),
    );
  });
  const sizes = [false, true].map((is) =>
    scaleSqrt([0, Math.max(1, ...points.filter((one) => !one.isConvolution === !is).map((one) => one.time))], [3, 22]),
  );
  for (const point of [...points].sort((a, b) => b.time - a.time)) {
    const size = sizes[Number(!!point.isConvolution)];
    const color = point.isConvolution ? "recompute" : point.onGpu ? "kernel" : "library",
      more = {label: `${point.name}: ${rateText(point.rate)}`, "fill-opacity": 0.75, "data-value": point.rate};
    chart.inside.append(dot(color, x(point.intensity), y(point.rate), size(point.time), more, tipOf(point)));
  }
  chart.inside.append(...labels);
  return chart.svg;
}

const tables = ["gemm"],
  none = "No matrix product was recorded.";

export const productsView = {
  id: "products",
  title: "Roofline",
  lead: "Matrix products and convolutions by what they compute per byte and what they reach; circles are as large as their time.",
  tables,
  notesOf: "gemm",
  missing: () => (convolutions().some((one) => one.rate) ? "" : whyMissing({tables, none})),
  render(section) {
    const all = [...products(), ...convolutions()],
      roofNotes = [];
    for (const onGpu of [false, true]) {
      const points = all.filter((one) => one.onGpu === onGpu && one.rate > 0 && one.intensity > 0);
      const roofs = (page().roofs || []).filter((one) => one.gpu === onGpu);
      if (points.length === 0) continue;
      if (!roofs.some((one) => one.unit === "GB/s"))
        roofNotes.push(
          `The bandwidth of ${onGpu ? "the GPU's memory" : "memory"} is not known, so its roof is missing.${onGpu ? "" : " dlhook calibrate measures it."}`,
        );
      const types = new Set(points.map((point) => point.types));
      if (types.has("convolution"))
        for (const {kind, types: of} of table("algorithms")?.objects || []) if (kind === "convolution") types.add(of);
      const rates = roofs.filter((one) => one.unit === "GFLOP/s" && (types.has(one.name) || one.name.includes("tf32")));
      add(
        section,
        part(
          onGpu ? "On GPUs" : "On the CPU",
          legend([
            points.some((one) => !one.isConvolution) && ["matrix product", onGpu ? "kernel" : "library"],
            points.some((one) => one.isConvolution) && ["convolutions of a layer", "recompute"],
          ]),
          responsive((width) =>
            roofline(points, {rates, bandwidths: roofs.filter((one) => one.unit === "GB/s")}, width),
          ),
        ),
      );
    }
    const heaviest = (title, ones) => {
      const heavy = ones
        .filter((one) => one.time > 0)
        .sort((a, b) => b.time - a.time)
        .slice(0, 12);
      if (heavy.length === 0) return null;
      return part(
        title,
        heavy.some((one) => one.lost_time !== null) &&
          legend({"time at the bound": "update", "lost: the rest": "backward"}),
        bars(
          heavy.map((one) => {
            const atBound = Math.max(0, one.time - one.lost_time);
            return {
              name: one.name,
              note: one.isConvolution ? "" : one.types,
              href: one.isConvolution ? addressOfLayer(one.name) : null,
              parts:
                one.lost_time === null
                  ? [{value: one.time, color: one.onGpu ? "kernel" : "library"}]
                  : [
                      {value: atBound, color: "update"},
                      {value: one.time - atBound, color: "backward"},
                    ],
              numbers: [time(one.time), rateText(one.rate)],
              tip: tipOf(one),
              data: {value: one.time},
            };
          }),
        ),
      );
    };
    add(section, [
      heaviest("Heaviest products, in the run", products()),
      heaviest("Heaviest convolutions, in a mean step", convolutions()),
      notes(roofNotes),
    ]);
  },
};
