// Light or dark: as the system has it, until the reader chooses.
import {h} from "./dom.js";

const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

const listeners = [];
// What is drawn with colours of its own (canvas) is drawn again when they change.
export const onTheme = (listener) => listeners.push(listener);

export function themeButton() {
  const button = h(
    "button.theme",
    {
      type: "button",
      title: "Light or dark",
      "aria-label": "Switch between light and dark",
      onclick: () => {
        document.documentElement.dataset.theme = isDark() ? "light" : "dark";
        listeners.forEach((listener) => listener());
      },
    },
    "◐",
  );
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    listeners.forEach((listener) => listener()),
  );
  return button;
}

// The value of a colour of style/colors.css.
export const color = (name) =>
  getComputedStyle(document.documentElement)
    .getPropertyValue("--" + name)
    .trim();
