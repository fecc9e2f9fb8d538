// One tooltip for the page: what an element means, on hover and on focus.
import {facts, h, replace} from "./dom.js";
import {percent, time} from "./format.js";

let box = null;
let owner = null;

function place(x, y) {
  const width = box.offsetWidth,
    height = box.offsetHeight;
  const left = Math.min(Math.max(8, x + 14), innerWidth - width - 8);
  const top = y + 18 + height > innerHeight - 8 ? Math.max(8, y - height - 12) : y + 18;
  box.style.left = left + "px";
  box.style.top = top + "px";
}

export function show(content, x, y) {
  if (!box) {
    box = h("div.tip", {role: "tooltip", id: "tip"});
    document.body.append(box);
  }
  replace(box, content);
  box.classList.add("shown");
  place(x, y);
}

export function hide() {
  if (box) box.classList.remove("shown");
  owner = null;
}

function below(element) {
  const at = element.getBoundingClientRect();
  return [at.left, at.bottom - 14];
}

// Rows of a tooltip: a title, names with values, a sentence below.
export function card(title, pairs, sentence) {
  return [
    title && h("div.tip-title", title),
    pairs && pairs.length > 0 && facts(pairs, "dl"),
    sentence && h("div.tip-sentence", sentence),
  ];
}

// What a box of a tree says of its time.
export const partOf = (value, whole, of = "of all") => [
  ["time", time(value)],
  [of, percent((100 * value) / (whole || 1))],
];

// The card of one of a table's `objects`; `names`: {label: column}, `explained`: the column that the sentence is of.
export const rowCard = (table, one, title, names, explained) =>
  card(title, table.pairs(one, names), table.explanation(explained));

// `content`: makes it when it is needed.
export function tip(element, content) {
  element.addEventListener("pointermove", (event) => {
    owner = element;
    show(content(), event.clientX, event.clientY);
  });
  element.addEventListener("pointerleave", hide);
  element.addEventListener("focus", () => {
    if (!element.matches(":focus-visible")) return;
    owner = element;
    show(content(), ...below(element));
  });
  element.addEventListener("blur", () => owner === element && hide());
  return element;
}

addEventListener("keydown", (event) => event.key === "Escape" && hide());
// What the keyboard reached may have to be scrolled to.
addEventListener("scroll", () => (owner && owner === document.activeElement ? place(...below(owner)) : hide()), true);
