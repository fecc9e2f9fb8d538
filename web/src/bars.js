// Rows of bars: a name, a bar of coloured parts, numbers.
import {add, h, middle, moreButton, replace} from "./dom.js";
import {tip} from "./tip.js";

const STEP = 150; // rows drawn at once

// {name: color}, or a list of such pairs.
export const legend = (colors) =>
  h(
    "ul.legend",
    (Array.isArray(colors) ? colors.filter(Boolean) : Object.entries(colors)).map(([name, color]) =>
      h("li", h("span.swatch." + color), middle(name)),
    ),
  );

const oneBar = (parts, scale) =>
  h(
    "span.bar",
    {"aria-hidden": "true"},
    parts
      .filter((part) => part.value > 0)
      .map((part) => h("span." + part.color, {style: {width: `${(100 * part.value) / scale}%`}})),
  );

// `rows`: {name, note, quiet, parts: [{value, color}], second: parts of a bar below it, numbers: [text or element],
// tip: () => content, href, isTarget, open: () => what a click shows below}. Bars are scaled to `most`. The Tab key
// reaches one row, the arrow keys the others.
export function bars(rows, {most, empty = "Nothing found."} = {}) {
  const length = (parts) => parts.reduce((sum, part) => sum + Math.max(0, part.value), 0);
  const scale = most || Math.max(1e-9, ...rows.flatMap((row) => [length(row.parts), length(row.second || [])]));
  const isList = !rows.some((row) => row.href || row.open); // links and buttons say what they are by themselves
  const list = h("div.bars", {role: isList ? "list" : null, onkeydown: keys});
  const more = h("div.more");
  let shown = 0;
  function keys(event) {
    const all = [...list.querySelectorAll(":scope > .bar-row")],
      at = all.indexOf(event.target),
      to = all[at + ({ArrowDown: 1, ArrowUp: -1}[event.key] || NaN)];
    if (event.key === "Enter" && at >= 0 && !all[at].href) all[at].click();
    if (!to) return;
    event.preventDefault();
    all[at].tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  }
  function toggle(line, row) {
    const isOpen = line.getAttribute("aria-expanded") === "true";
    line.setAttribute("aria-expanded", String(!isOpen));
    if (isOpen) line.nextSibling.remove();
    else line.after(h("div.bar-open", row.open()));
  }
  function draw(count) {
    for (const [i, row] of rows.slice(shown, count).entries()) {
      const line = h(
        (row.href ? "a" : "div") + ".bar-row" + (row.isTarget ? ".target" : ""),
        {
          role: isList ? "listitem" : row.open ? "button" : null,
          "aria-expanded": row.open ? "false" : null,
          href: row.href,
          tabindex: shown + i === 0 ? 0 : -1,
          onclick: row.open && (() => toggle(line, row)),
        },
        h(
          row.quiet ? "span.bar-name.quiet" : "span.bar-name",
          middle(row.name),
          row.note && h("span.bar-note", row.note),
        ),
        row.second
          ? h("span.bar-pair", oneBar(row.parts, scale), oneBar(row.second, scale))
          : oneBar(row.parts, scale),
        row.numbers.map((number) => h("span.number", number)),
      );
      if (row.data) Object.assign(line.dataset, row.data);
      if (row.tip) tip(line, row.tip);
      list.append(line);
      if (row.isTarget && row.open) toggle(line, row);
    }
    shown = Math.min(count, rows.length);
    replace(
      more,
      moreButton(rows.length - shown, 10 * STEP, () => draw(shown + 10 * STEP)),
    );
  }
  if (rows.length === 0) return h("p.empty", empty);
  draw(Math.max(STEP, rows.findIndex((row) => row.isTarget) + 1));
  return add(h("div.bars-box"), [list, more]);
}
