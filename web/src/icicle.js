// A tree as rows of boxes: as wide as their weight, children below their parent. Click or Enter zooms in, Escape out.
import {hierarchy, partition} from "d3-hierarchy";
import {h, replace} from "./dom.js";
import {tip} from "./tip.js";

// A box of such a tree, and its child of this name.
export const boxOf = (name, color = "range") => ({name, color, own: 0, children: [], byName: new Map()});
export function childOf(node, name, color) {
  if (!node.byName.has(name)) {
    node.children.push(boxOf(name, color));
    node.byName.set(name, node.children[node.children.length - 1]);
  }
  return node.byName.get(name);
}

const sumOf = (nodes) => nodes.reduce((sum, node) => sum + node.value, 0);

const ROW = 22,
  LEAST = 2; // pixels

// `root`: {name, own: weight without children, color, children}. `content(node's data, its weight, that of all)`: of the tooltip.
export function icicle(root, {content, label = "Tree", query = () => "", maxRows = 60}) {
  const tree = partition().padding(0)(
    hierarchy(root)
      .sum((data) => Math.max(0, data.own))
      .sort((a, b) => b.value - a.value),
  );
  let focus = tree;
  const box = h("div.icicle", {role: "tree", "aria-label": label}),
    path = h("nav.path", {"aria-label": "Where you are"});
  const element = h("div.icicle-box", box, path);

  function crumbs() {
    const all = focus === tree ? [] : focus.ancestors().reverse();
    replace(
      path,
      all.map((node, i) => [
        i > 0 && h("span", {"aria-hidden": "true"}, "›"),
        h("button.crumb", {type: "button", disabled: node === focus, onclick: () => zoomTo(node)}, node.data.name),
      ]),
    );
  }
  function zoomTo(node, isFocused) {
    focus = node;
    draw();
    if (isFocused && box.firstElementChild) box.firstElementChild.focus();
  }
  function draw() {
    crumbs();
    const width = box.clientWidth || 900,
      words = query();
    const scale = width / (focus.x1 - focus.x0 || 1);
    const boxes = [];
    let rows = 0;
    // A box from x0 to x1 of the tree, unless it is too narrow.
    const place = (x0, x1, row, make) => {
      const x = (Math.max(x0, focus.x0) - focus.x0) * scale,
        w = (Math.min(x1, focus.x1) - focus.x0) * scale - x;
      if (w < LEAST || row > maxRows) return null;
      rows = Math.max(rows, row + 1);
      const one = make({style: {left: `${x}px`, width: `${Math.max(w - 1, 1)}px`, top: `${row * ROW}px`}}, w);
      boxes.push(one);
      return one;
    };
    // Children that are too narrow, the heaviest first, so they lie side by side: one box for all.
    const rest = (nodes, row) => {
      const of = {name: `${nodes.length} smaller boxes`, total: sumOf(nodes), self: 0, kind: "other"};
      place(nodes[0].x0, nodes[nodes.length - 1].x1, row, (at, w) =>
        tip(h("div.node.rest", at, w > 50 ? `${nodes.length} smaller` : ""), () => content(of, of.total, tree.value)),
      );
    };
    const visit = (node) => {
      const row = node.depth - focus.depth,
        {name, color = "other"} = node.data,
        isFound = !words || name.toLowerCase().includes(words);
      const one = place(node.x0, node.x1, row, (at, w) =>
        tip(
          h(
            `button.node.${color}${isFound ? "" : ".dim"}`,
            {
              ...at,
              type: "button",
              role: "treeitem",
              tabindex: row === 0 ? 0 : -1,
              "aria-level": node.depth + 1,
              "aria-label": name,
              "data-value": node.value,
              onclick: () => zoomTo(node === focus && node.parent ? node.parent : node, true),
              onkeydown: (event) => keys(event, node),
            },
            w > 22 ? name : "",
          ),
          () => content(node.data, node.value, tree.value),
        ),
      );
      if (!one) return false;
      one.node = node;
      const hidden = (node.children || []).filter(
        (child) => !visit(child) && child.x1 > focus.x0 && child.x0 < focus.x1,
      );
      if (hidden.length > 0) rest(hidden, row + 1);
      return true;
    };
    visit(focus);
    box.style.height = rows * ROW + "px";
    replace(box, boxes);
  }
  function keys(event, node) {
    const near = {ArrowUp: node.parent, ArrowDown: node.children && node.children[0]};
    if (node.parent) {
      const siblings = node.parent.children,
        at = siblings.indexOf(node);
      near.ArrowLeft = siblings[at - 1];
      near.ArrowRight = siblings[at + 1];
    }
    if (event.key === "Escape" && focus.parent) zoomTo(focus.parent, true);
    const next = near[event.key];
    if (!next) return;
    event.preventDefault();
    const shown = [...box.children].find((one) => one.node === next);
    if (shown) shown.focus();
  }
  new ResizeObserver(() => draw()).observe(element);
  return {element, draw};
}
