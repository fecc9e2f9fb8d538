// Memory copied between host and GPU: how much, how fast, in which sizes.
import {bars, legend} from "../bars.js";
import {table} from "../data.js";
import {add, h} from "../dom.js";
import {groups, human} from "../format.js";
import {rowCard} from "../tip.js";
import {barOf, joined, part} from "./parts.js";

// Columns with their color and label.
const SIZES = [
  ["up_to_4KiB", "up to 4 KiB", "backward"],
  ["up_to_64KiB", "up to 64 KiB", "input"],
  ["up_to_1MiB", "up to 1 MiB", "framework"],
  ["up_to_16MiB", "up to 16 MiB", "library"],
  ["larger", "larger", "update"],
];
const SIZE_PAIRS = Object.fromEntries(SIZES.map(([column, name]) => [name, column]));

const DIRECTIONS = {HtoD: "host to device", DtoH: "device to host", DtoD: "inside a device", set: "filling"};
const nameOf = (row) =>
  joined([DIRECTIONS[row.direction] || row.direction, row.memory !== "none" && row.memory, row.form]);

export const copiesView = {
  id: "copies",
  title: "Copies",
  lead: "Memory copied between host and GPU, and inside it, in the whole run: how much, how fast, in which sizes.",
  tables: ["copies"],
  none: "No copy between host and GPU was recorded.",
  render(section) {
    const copies = table("copies"),
      timeOf = (row) => (row.gpu_time ? "gpu_time" : "total_time");
    const row = (one, column, color) =>
      barOf(copies, one, {
        name: nameOf(one),
        column,
        color,
        numbers: [column, "rate"],
        pairs: {
          bytes: "bytes",
          copies: "copies",
          time: timeOf(one),
          rate: "rate",
          "of the link's peak": "peak_percent",
          "overlap with compute": "overlap_percent",
          by: "functions",
        },
        explained: "rate",
      });
    add(section, [
      h(
        "div.grid2",
        part("Bytes", bars(copies.objects.map((one) => row(one, "bytes", "copy")))),
        part("Time", bars(copies.objects.map((one) => row(one, timeOf(one), "library")))),
      ),
      part(
        "Sizes, by number of copies",
        legend(SIZES.map(([, ...nameAndColor]) => nameAndColor)),
        bars(
          copies.objects.map((one) => ({
            name: nameOf(one),
            parts: SIZES.map(([column, , color]) => ({value: one[column] || 0, color})),
            numbers: [`${groups(one.copies || 0)} copies`, `mean ${human(one.mean_bytes, "bytes")}`],
            tip: () => rowCard(copies, one, nameOf(one), SIZE_PAIRS, "copies"),
          })),
        ),
      ),
    ]);
  },
};
