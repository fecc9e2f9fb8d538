// Rows of bars: a name, a bar of coloured parts, numbers.
import {add, h, replace} from "./dom.js";
import {groups} from "./format.js";
import {tip} from "./tip.js";

const STEP = 150; // rows drawn at once

export const legend = (parts) =>
  h(
    "ul.legend",
    null,
    parts.map(({name, color}) => h("li", null, h("span.swatch." + color), name)),
  );

// `rows`: {name, note, quiet, parts: [{value, color}], numbers: [text], tip: () => content, href, onclick}. Bars are scaled to `most`.
export function bars(rows, {most, empty = "Nothing found."} = {}) {
  const scale =
    most || Math.max(1e-9, ...rows.map((row) => row.parts.reduce((sum, part) => sum + Math.max(0, part.value), 0)));
  const isList = !rows.some((row) => row.href); // links say what they are by themselves
  const list = h("div.bars", {role: isList ? "list" : null});
  const more = h("div.more");
  let shown = 0;
  function draw(count) {
    for (const row of rows.slice(shown, count)) {
      const bar = h(
        "span.bar",
        {"aria-hidden": "true"},
        row.parts
          .filter((part) => part.value > 0)
          .map((part) => h("span." + part.color, {style: {width: `${(100 * part.value) / scale}%`}})),
      );
      const line = h(
        row.href ? "a.bar-row" : "div.bar-row",
        {role: isList ? "listitem" : null, href: row.href, tabindex: row.href ? null : 0},
        h(
          row.quiet ? "span.bar-name.quiet" : "span.bar-name",
          null,
          h("bdi", null, row.name),
          row.note && h("span.bar-note", null, row.note),
        ),
        bar,
        row.numbers.map((number) => h("span.number", null, number)),
      );
      if (row.data) Object.assign(line.dataset, row.data);
      if (row.tip) tip(line, row.tip);
      list.append(line);
    }
    shown = Math.min(count, rows.length);
    const left = rows.length - shown;
    replace(
      more,
      left > 0 &&
        h(
          "button",
          {type: "button", onclick: () => draw(shown + 10 * STEP)},
          `Show ${groups(Math.min(left, 10 * STEP))} more of ${groups(left)}`,
        ),
    );
  }
  if (rows.length === 0) return h("p.empty", null, empty);
  draw(STEP);
  return add(h("div.bars-box"), [list, more]);
}

// A choice of few: buttons side by side.
export function segments(label, choices, chosen, onchoose) {
  const box = h("div.segments", {role: "group", "aria-label": label});
  const buttons = choices.map(([value, text]) =>
    h(
      "button",
      {
        type: "button",
        "aria-pressed": String(value === chosen),
        onclick: () => {
          buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(choices[i][0] === value)));
          onchoose(value);
        },
      },
      text,
    ),
  );
  return add(box, buttons);
}
