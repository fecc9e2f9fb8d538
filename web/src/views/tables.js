// Every table of the report, as it is.
import {table, tables} from "../data.js";
import {add, h} from "../dom.js";
import {groups} from "../format.js";
import {tableView} from "../table_view.js";

export const allTablesView = {
  id: "tables",
  title: "All tables",
  lead: "All tables. Point at a column name or a number for its explanation.",
  missing: () => (tables().length > 0 ? "" : "This page has no tables."),
  render(section) {
    const filled = tables().filter((one) => one.rows.length > 0),
      empty = tables().filter((one) => one.rows.length === 0);
    add(section, [
      h(
        "div.cards",
        filled.map((one) =>
          h(
            "a.card.table-card",
            {href: "#table/" + one.name},
            h("strong", one.name),
            h("span", one.title),
            h("span.quiet", `${groups(one.rows.length)} ${one.rows.length === 1 ? "row" : "rows"}`),
          ),
        ),
      ),
      empty.length > 0 && h("h2", "Without rows"),
      empty.length > 0 &&
        h(
          "ul.plain",
          empty.map((one) =>
            h(
              "li",
              h("strong", one.name),
              ": ",
              one.title,
              one.notes.length > 0 && h("span.quiet", " – ", one.notes.join(" ")),
            ),
          ),
        ),
    ]);
  },
};

export const oneTableView = {
  id: "table",
  title: "Table",
  isHidden: true, // in the navigation
  heading: (name) => name,
  render(section, name) {
    const one = table(name);
    add(section, one ? tableView(one) : h("p.empty", `There is no table ${name}.`));
    add(section, h("p", h("a", {href: "#tables"}, "All tables")));
  },
};
