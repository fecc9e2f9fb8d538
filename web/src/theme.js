// Light or dark: as the system has it, until the reader chooses; the choice is kept where the browser lets a file keep something.
import {h} from "./dom.js";

const system = matchMedia("(prefers-color-scheme: dark)");
const KEY = "dlhook-theme";
let listener = null;
// What is drawn with colours of its own (canvas) is drawn again when they change.
export const onTheme = (draw) => (listener = draw);

function kept(use) {
  try {
    return use(localStorage);
  } catch (error) {
    return null;
  }
}
let chosen = kept((storage) => storage.getItem(KEY));

function set() {
  document.documentElement.dataset.theme = chosen || (system.matches ? "dark" : "light");
  if (listener) listener();
}

set();
system.addEventListener("change", set);

export const themeButton = () =>
  h(
    "button.theme",
    {
      type: "button",
      title: "Light or dark",
      "aria-label": "Switch between light and dark",
      onclick: () => {
        const isDark = document.documentElement.dataset.theme !== "dark";
        chosen = isDark === system.matches ? null : isDark ? "dark" : "light";
        kept((storage) => (chosen ? storage.setItem(KEY, chosen) : storage.removeItem(KEY)));
        set();
      },
    },
    "◐",
  );

// The value of a colour of style/colors.css.
export const color = (name) =>
  getComputedStyle(document.documentElement)
    .getPropertyValue("--" + name)
    .trim();
