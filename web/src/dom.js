// Elements. All text of a run becomes text nodes here and nowhere else, so nothing in it can become markup.
import {groups} from "./format.js";

// Characters that control terminals or the direction of text, or can't be seen, are spelled out as the terminal report does.
// eslint-disable-next-line no-control-regex
const HIDDEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udfff]/g;

const NAMES = {"\n": "\\n", "\t": "\\t", "\r": "\\r"};

export function visible(text) {
  return String(text).replace(HIDDEN, (found) => {
    const code = found.codePointAt(0);
    if (NAMES[found]) return NAMES[found];
    const hex = code.toString(16);
    return code < 0x100
      ? "\\x" + hex.padStart(2, "0")
      : code < 0x10000
        ? "\\u" + hex.padStart(4, "0")
        : "\\U" + hex.padStart(8, "0");
  });
}

const SVG = new Set(["svg", "g", "rect", "line", "path", "circle", "text"]);

// h("td.number", {onclick, "aria-label": …}, child…), attributes only if it has any: children are elements, text, numbers,
// arrays of these, or null.
export function h(what, ...children) {
  const attributes = children[0]?.constructor === Object ? children.shift() : {};
  const [tag, ...classes] = what.split(".");
  const element = SVG.has(tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  if (classes.length > 0) element.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style")
      for (const [property, of] of Object.entries(value)) element.style.setProperty(property, of);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : typeof value === "string" ? visible(value) : value);
  }
  add(element, children);
  return element;
}

export function add(element, children) {
  for (const child of [].concat(children)) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(element, child);
    else element.append(child instanceof Node ? child : visible(child));
  }
  return element;
}

export function replace(element, ...children) {
  element.textContent = "";
  return add(element, children);
}

// A name of which the middle is cut out where it does not fit: what distinguishes names is often at their end.
export function middle(text) {
  const whole = visible(text);
  if (whole.length < 16) return h("bdi", whole);
  const tail = Math.max(10, Math.min(18, Math.floor(whole.length / 3)));
  const at = whole.length - tail - (/[\udc00-\udfff]/.test(whole[whole.length - tail]) ? 1 : 0);
  return h("bdi.middle", h("span", whole.slice(0, at)), h("span", whole.slice(at)));
}

// Sentences below a chart or a table: texts, or what h() takes as children.
export const notes = (all) => all.length > 0 && h("ul.notes", all.map((one) => h("li", one)));

// Names and what they are; pairs without a value are left out.
export const facts = (pairs, what = "dl.facts") =>
  h(
    what,
    pairs
      .filter(([, value]) => !["", null, undefined, false].includes(value))
      .map(([name, value]) => [h("dt", name), h("dd", value)]),
  );

// A button for more of the rows that are `left`, of which it shows `step`; null where none is left.
export const moreButton = (left, step, onclick) =>
  left > 0 && h("button.button", {type: "button", onclick}, `Show ${groups(Math.min(left, step))} more of ${groups(left)}`);

// A box to search in; `onsearch` gets what was typed, in lower case.
export const searchBox = (label, onsearch, value = "") =>
  h("input", {
    type: "search",
    placeholder: label,
    "aria-label": label,
    value,
    oninput: (event) => onsearch(event.target.value.toLowerCase()),
  });

// A box to tick; `onchoose` gets whether it is ticked.
export const tickBox = (label, onchoose, checked = false) =>
  h(
    "label.check",
    h("input", {type: "checkbox", checked, onchange: (event) => onchoose(event.target.checked)}),
    label,
  );

// A choice of many, [value, text] each.
export const selectBox = (label, choices, chosen, onchoose) =>
  h(
    "select",
    {"aria-label": label, onchange: (event) => onchoose(event.target.value)},
    choices.map(([value, text]) => h("option", {value, selected: value === chosen}, text)),
  );

// A choice of few, {value: text}: buttons side by side.
export function segments(label, choices, chosen, onchoose) {
  const choose = (event) => {
    for (const one of box.children) one.setAttribute("aria-pressed", String(one === event.currentTarget));
    onchoose(event.currentTarget.dataset.choice);
  };
  const box = h(
    "div.segments",
    {role: "group", "aria-label": label},
    Object.entries(choices).map(([value, text]) =>
      h(
        "button",
        {type: "button", "data-choice": value, "aria-pressed": String(value === chosen), onclick: choose},
        text,
      ),
    ),
  );
  return box;
}
