// A table of the report: sortable, searchable, with as many columns as matter.
import {get, isNamed, namedBy, set} from "./address.js";
import {NUMBERS_OF} from "./data.js";
import {add, h, middle, moreButton, notes, replace, searchBox, tickBox} from "./dom.js";
import {exact, groups, hasUnitInside, human} from "./format.js";
import {lines, save} from "./save.js";
import {card, tip} from "./tip.js";

const STEP = 50; // rows that are shown at once

// Columns that come first, where others would push them off the screen.
const FIRST = {
  kernels: ["kernel", "gpu_time", "gpu_percent", "calls", "per_step", "mean_time", "layer"],
  layout: ["from", "to", "written_by", "read_by", "total_time", "gpu_time", "calls", "dims"],
  algorithms: ["kind", "direction", "problem", "gpu_time", "total_time", "gpu_rate", "calls", "chosen"],
  layers: ["layer", "gpu_time", "time"],
  ops: ["kind", "direction", "problem", "gpu_time", "total_time", "calls"],
};

const label = (name) => name.replace(/_/g, " ");

const isEmpty = (cell) => cell === null || cell === "";
const compare = (a, b) => (typeof a === "number" ? a - b : String(a).localeCompare(String(b)));

export function tableView(table, options = {}) {
  const key = (what) => `${what}.${table.name}`,
    order = get(key("sort")) || "",
    sorted = table.index.get(order.replace(/^-/, ""));
  const first = FIRST[table.name] || [],
    rank = (i) => (first.indexOf(table.columns[i].name) + 1 || first.length + 1);
  const useful = table.columns
    .map((column, i) => i)
    .filter((i) => table.isKnown(table.columns[i].name))
    .sort((a, b) => rank(a) - rank(b) || a - b);
  // A unit that stands in the cells before it.
  const isUnit = (i) => i > 0 && table.columns[i]?.name === "unit" && table.columns[i - 1].type !== "text";
  const brief = useful.filter((i) => (!table.columns[i].detail || rank(i) <= first.length) && !isUnit(i));
  // The amount by which the table comes sorted.
  const own = brief.find(
    (i) =>
      table.columns[i].type !== "text" &&
      table.columns[i].unit &&
      table.rows.every((row, at) => at === 0 || row[i] <= table.rows[at - 1][i]) &&
      table.rows[0]?.[i] > table.rows[table.rows.length - 1][i],
  );
  const state = {
    sort: sorted ?? own ?? null,
    down: order === "" || order[0] === "-",
    query: get(key("find")) || "",
    shown: STEP,
    wide: get(key("all")) !== null || table.columns[sorted]?.detail,
  };
  const view = h("section.table-view", {"data-table": table.name});
  const head = h("thead"),
    body = h("tbody"),
    count = h("span.count"),
    more = h("div.more");
  const grid = h(
    "div.scroll",
    h("table", {role: "grid", "aria-label": table.title || table.name, onkeydown: keys}, head, body),
  );
  // Where columns are cut off, the edge fades.
  const fade = () =>
    grid.classList.toggle("wider", grid.scrollLeft + grid.clientWidth < grid.firstChild.offsetWidth - 1);
  grid.addEventListener("scroll", fade);
  new ResizeObserver(fade).observe(grid.firstChild);
  let current = null; // of all cells the one that the Tab key reaches; arrow keys lead to the others

  const columns = () => (state.wide ? useful : brief);
  function rows() {
    let rows = options.rows || table.rows;
    if (namedBy("only", table).length > 0) rows = rows.filter((row) => isNamed("only", table, row));
    if (state.query) {
      const words = state.query.split(/\s+/).filter(Boolean);
      rows = rows.filter((row) => {
        const text = row.filter((cell) => typeof cell === "string").join(" ");
        return words.every((word) => text.toLowerCase().includes(word));
      });
    }
    if (state.sort !== null) {
      const sign = state.down ? -1 : 1,
        i = state.sort;
      rows = [...rows].sort((a, b) => isEmpty(a[i]) - isEmpty(b[i]) || sign * compare(a[i], b[i]));
    }
    return rows;
  }

  function headCell(i) {
    const column = table.columns[i];
    const isSorted = state.sort === i;
    const button = h(
      "button.sort",
      {
        type: "button",
        tabindex: i === columns()[0] ? 0 : -1, // arrow keys lead to the others
        onclick: () => {
          state.down = isSorted ? !state.down : column.type !== "text";
          state.sort = i;
          set(key("sort"), (state.down ? "-" : "") + column.name);
          draw();
          const again = head.querySelectorAll("button.sort")[columns().indexOf(i)];
          if (again) again.focus();
        },
      },
      label(column.name),
      isSorted && h("span.arrow", {"aria-hidden": "true"}, state.down ? "▼" : "▲"),
    );
    tip(button, () => card(column.name, column.unit ? [["unit", column.unit]] : [], column.explanation));
    const unit = column.unit && !hasUnitInside(column.unit) ? h("span.unit", column.unit) : null;
    return h(
      column.type === "text" ? "th" : "th.number",
      {scope: "col", "aria-sort": isSorted ? (state.down ? "descending" : "ascending") : "none"},
      button,
      unit,
    );
  }

  function goTo(td) {
    if (current) current.tabIndex = -1;
    current = td || null;
    if (current) current.tabIndex = 0;
  }

  function keys(event) {
    const td = event.target.closest("td, th");
    if (!td) return;
    const row = td.parentElement,
      next = {
        ArrowLeft: () => td.previousElementSibling,
        ArrowRight: () => td.nextElementSibling,
        ArrowUp: () => row.previousElementSibling?.cells[td.cellIndex],
        ArrowDown: () => row.nextElementSibling?.cells[td.cellIndex],
        Home: () => row.cells[0],
        End: () => row.cells[row.cells.length - 1],
        Enter: td.tagName === "TD" && (() => row.click()),
      }[event.key];
    if (!next || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const to = next();
    if (!to) return;
    if (to.tagName === "TD") goTo(to);
    (to.querySelector("button") || to).focus();
  }

  function cell(row, i) {
    const column = table.columns[i],
      unit = column.unit || (isUnit(i + 1) && row[i + 1]) || "",
      text = NUMBERS_OF.has(column.name) ? String(row[i] ?? "–") : human(row[i], unit, column.type);
    const isNumber = typeof row[i] === "number";
    const td = h(
      "td" + (isEmpty(row[i]) ? ".unknown" : "") + (column.type !== "text" ? ".number" : ""),
      {tabindex: -1, onfocus: (event) => goTo(event.target), "data-value": isNumber && row[i]},
      row[i] === "" ? "–" : isNumber ? text : middle(text),
    );
    if (isNumber) tip(td, () => card(label(column.name), [["exactly", exact(row[i], unit)]], column.explanation));
    else if (text.length > 40) tip(td, () => card(label(column.name), [], text));
    return td;
  }

  function draw() {
    const all = rows();
    state.shown = Math.max(state.shown, all.findIndex((row) => isNamed("row", table, row)) + 1);
    replace(head, h("tr", columns().map(headCell)));
    const choose = (event, row) => {
      set(key("row"), String(table.rows.indexOf(row)));
      for (const one of body.rows) one.classList.toggle("target", one === event.currentTarget);
    };
    replace(
      body,
      all.slice(0, state.shown).map((row) =>
        h(
          isNamed("row", table, row) ? "tr.target" : "tr",
          {onclick: (event) => choose(event, row)},
          columns().map((i) => cell(row, i)),
        ),
      ),
    );
    replace(
      count,
      all.length === table.rows.length
        ? `${groups(all.length)} ${all.length === 1 ? "row" : "rows"}`
        : `${groups(all.length)} of ${groups(table.rows.length)} rows`,
    );
    goTo(body.querySelector("td"));
    replace(
      more,
      moreButton(all.length - state.shown, 10 * STEP, () => {
        state.shown += 10 * STEP;
        draw();
      }),
    );
  }

  const search =
    table.rows.length > 8 &&
    searchBox(
      `Search in ${label(table.name)}`,
      (query) => {
        state.query = query;
        set(key("find"), query);
        draw();
      },
      state.query,
    );
  const wide =
    brief.length < useful.length &&
    tickBox(
      `All ${useful.length} columns`,
      (isTicked) => {
        state.wide = isTicked;
        set(key("all"), isTicked ? "1" : null);
        draw();
      },
      state.wide,
    );
  // Of what is chosen all rows, with all digits.
  const text = (separator) =>
    lines(
      columns().map((i) => table.columns[i].name),
      rows().map((row) => columns().map((i) => row[i])),
      separator,
    );
  const button = (name, title, onclick) => h("button.button", {type: "button", title, onclick}, name);
  const only = namedBy("only", table).map((one) =>
    button(`${one.replace("=", ": ")} ×`, "Show all rows", () => {
      set(key("only"), null);
      only.forEach((chip) => chip.remove());
      draw();
    }),
  );
  add(view, [
    !options.bare &&
      h(
        "div.table-head",
        h("h3", table.title || table.name),
        only,
        h("span.spacer"),
        count,
        wide,
        button("CSV", "Save these rows and columns", () =>
          save(`${table.name}.csv`, new Blob([text(",")], {type: "text/csv"})),
        ),
        button("Copy", "Copy these rows and columns, for a spreadsheet", (event) =>
          navigator.clipboard.writeText(text("\t")).then(() => replace(event.target, "Copied")),
        ),
        search,
      ),
    grid,
    more,
    table.notes.length > 0 && !options.bare && options.notes !== false && notes(table.notes),
  ]);
  draw();
  return view;
}
