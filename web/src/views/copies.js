// Memory copied between host and GPU: how much, how fast, in which sizes.
import {bars, legend} from "../bars.js";
import {table} from "../data.js";
import {add, h} from "../dom.js";
import {groups, human, percent, time} from "../format.js";
import {card} from "../tip.js";
import {missingTables, part, tablesOf} from "./parts.js";

const SIZES = [
  ["up_to_4KiB", "up to 4 KiB", "backward"],
  ["up_to_64KiB", "up to 64 KiB", "input"],
  ["up_to_1MiB", "up to 1 MiB", "framework"],
  ["up_to_16MiB", "up to 16 MiB", "library"],
  ["larger", "larger", "update"],
];

const DIRECTIONS = {HtoD: "host to device", DtoH: "device to host", DtoD: "inside a device", set: "filling"};
const nameOf = (get) =>
  [DIRECTIONS[get("direction")] || get("direction"), get("memory"), get("form")]
    .filter((one) => one && one !== "none")
    .join(", ");
const rateText = (rate) => (rate >= 0.1 ? `${human(rate)} GB/s` : `${human(rate * 1000)} MB/s`);

export const copiesView = {
  id: "copies",
  title: "Copies",
  lead: "Memory copied between host and GPU, and inside it, in the whole run: how much, how fast, in which sizes.",
  missing: () => missingTables(["copies"], "No copy between host and GPU was recorded."),
  render(section) {
    const copies = table("copies");
    const rows = copies.rows.map((row) => {
      const get = (name) => copies.get(row, name);
      return {
        get,
        name: nameOf(get),
        bytes: get("bytes") || 0,
        time: get("gpu_time") || get("total_time") || 0,
        tip: () =>
          card(
            nameOf(get),
            [
              ["bytes", human(get("bytes"), "bytes")],
              ["copies", groups(get("copies"))],
              ["time", time(get("gpu_time") ?? get("total_time"))],
              ["rate", get("rate") === null ? null : rateText(get("rate"))],
              ["of the link's peak", get("peak_percent") === null ? null : percent(get("peak_percent"))],
              ["overlap with compute", get("overlap_percent") === null ? null : percent(get("overlap_percent"))],
              ["by", get("functions")],
            ],
            copies.explanation("rate"),
          ),
      };
    });
    const row = (one, key, color, text) => ({
      name: one.name,
      parts: [{value: one[key], color}],
      numbers: [text, one.get("rate") === null ? "–" : rateText(one.get("rate"))],
      tip: one.tip,
      data: {value: one[key]},
    });
    add(section, [
      h(
        "div.grid2",
        part("Bytes", bars(rows.map((one) => row(one, "bytes", "copy", human(one.bytes, "bytes"))))),
        part("Time", bars(rows.map((one) => row(one, "time", "library", time(one.time))))),
      ),
      part(
        "Sizes, by number of copies",
        legend(SIZES.map(([, name, color]) => ({name, color}))),
        bars(
          rows.map((one) => ({
            name: one.name,
            parts: SIZES.map(([key, , color]) => ({value: one.get(key) || 0, color})),
            numbers: [`${groups(one.get("copies") || 0)} copies`, `mean ${human(one.get("mean_bytes"), "bytes")}`],
            tip: () =>
              card(
                one.name,
                SIZES.map(([key, name]) => [name, groups(one.get(key) || 0)]),
                "Copies by size.",
              ),
          })),
        ),
      ),
      part("Table", tablesOf(["copies"])),
    ]);
  },
};
