// Light or dark: as the system has it, until the reader chooses.
import {h} from "./dom.js";

const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = [];
let isChosen = false;
// What is drawn with colours of its own (canvas) is drawn again when they change.
export const onTheme = (listener) => listeners.push(listener);

function set(isDark) {
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  listeners.forEach((listener) => listener());
}

set(system.matches);
system.addEventListener("change", () => isChosen || set(system.matches));

export const themeButton = () =>
  h(
    "button.theme",
    {
      type: "button",
      title: "Light or dark",
      "aria-label": "Switch between light and dark",
      onclick: () => {
        isChosen = true;
        set(document.documentElement.dataset.theme !== "dark");
      },
    },
    "◐",
  );

// The value of a colour of style/colors.css.
export const color = (name) =>
  getComputedStyle(document.documentElement)
    .getPropertyValue("--" + name)
    .trim();
