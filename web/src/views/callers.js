// Who called: all stacks of the run as a tree, and the tables of callers.
import {legend} from "../bars.js";
import {hasRows, page} from "../data.js";
import {add, h, searchBox} from "../dom.js";
import {groups, time} from "../format.js";
import {icicle} from "../icicle.js";
import {card, partOf} from "../tip.js";
import {sum} from "./parts.js";

const COLORS = {
  GPU: "kernel",
  Python: "input",
  native: "framework",
  framework: "recompute",
  library: "library",
  layer: "range",
  process: "range",
  thread: "range",
  other: "other",
};

// The tree of boxes of page().stacks.
function treeOf(stacks, title) {
  const nodes = stacks.parent.map((parent, i) => {
    const [name, kind, object, file] = i === 0 ? [title, "other", "", ""] : stacks.functions[stacks.function[i]];
    return {
      name,
      kind,
      object,
      file,
      line: stacks.line[i],
      own: 0,
      total: stacks.total[i],
      self: stacks.self[i],
      color: i === 0 ? "range" : COLORS[kind] || "other",
      children: [],
    };
  });
  nodes.slice(1).forEach((node, i) => nodes[stacks.parent[i + 1]].children.push(node));
  // What is not in children: its own time, and that of nodes that are left out.
  for (const node of nodes) node.own = Math.max(0, node.total - sum(node.children.map((child) => child.total)));
  return nodes[0];
}

export const callersView = {
  id: "callers",
  title: "Callers",
  lead: "Call sites: the time of the steady steps (without steps, of the run) by stack, from the outermost function down.",
  tables: ["callers", "stacks"],
  missing: () =>
    page().stacks?.parent.length > 1 || hasRows("callers")
      ? ""
      : "No call was recorded with its stack. Record with DLHOOK_STACKS=all.",
  render(section) {
    const {stacks} = page();
    if (stacks?.parent.length > 1) {
      let query = "";
      const whole = treeOf(stacks, "the program");
      const gpus = whole.children.filter((node) => node.kind === "GPU");
      whole.children = whole.children.filter((node) => node.kind !== "GPU");
      whole.total -= sum(gpus.map((node) => node.total));
      const roots = [whole, ...gpus].filter((root) => root.total > 0);
      const trees = roots.map((root) =>
        icicle(root, {
          label: "Stacks",
          query: () => query,
          content: (node, value, all) =>
            card(
              node.name,
              [
                ...partOf(node.total, all),
                ["itself", time(node.self)],
                ["kind", node.kind !== "other" && node.kind],
                ["in", node.object],
                ["line", node.line > 0 && `${(node.file || "").replace(/^.*\//, "")}:${node.line}`],
              ],
              root === whole
                ? "Wall share: each instant is divided equally among the activities in it."
                : "GPU work, by the call site that requested it.",
            ),
        }),
      );
      const kinds = [...new Set(stacks.functions.map((one) => one[1]))].filter((kind) => kind !== "other");
      add(section, [
        h(
          "div.controls",
          legend(kinds.map((kind) => [kind === "library" ? "library call" : kind, COLORS[kind]])),
          h("span.spacer"),
          searchBox("Find a function", (found) => {
            query = found;
            trees.forEach((tree) => tree.draw());
          }),
        ),
        trees.map((tree, i) => [
          trees.length > 1 && h("h2", roots[i] === whole ? "The program" : roots[i].name),
          tree.element,
        ]),
        h(
          "p.quiet",
          "Click on a box to zoom in, on the first one to go back; arrow keys move, Escape goes back. ",
          stacks.left_out > 0 &&
            `${groups(stacks.left_out)} short stacks are left out; their time is in the boxes above them.`,
        ),
      ]);
    }
  },
};
