// Reads the data, makes the navigation, shows the view that the address names: "#layers", "#table/ops".
import {read} from "./address.js";
import * as data from "./data.js";
import {add, h, replace, visible} from "./dom.js";
import {picture, save} from "./save.js";
import {hide} from "./tip.js";
import {onTheme, themeButton} from "./theme.js";
import {groupsOfViews} from "./views.js";
import {below, whyMissing} from "./views/parts.js";

function nav(groups) {
  const link = (view) => h("a", {href: "#" + view.id, "data-view": view.id}, view.title);
  return h(
    "nav",
    {"aria-label": "Views"},
    groups.map(({title, views}) => {
      const shown = views.filter((view) => !view.isHidden && !whyMissing(view));
      return shown.length > 0 && h("div.group", h("h2", title), shown.map(link));
    }),
  );
}

function show(main, views) {
  const {id, rest} = read(),
    view = views.find((one) => one.id === id) || views[0],
    why = whyMissing(view);
  hide();
  onTheme(null);
  const section = h("section.view", {id: "view-" + view.id, "aria-label": view.title});
  add(section, [
    h(
      "div.view-head",
      h("h1", view.heading ? view.heading(rest) : view.title),
      h(
        "button.button",
        {
          type: "button",
          title: "Save this view as a picture",
          onclick: async () => save(`${data.page().title}-${view.id}.png`, await picture(section)),
        },
        "PNG",
      ),
    ),
    view.lead && h("p.lead", view.lead),
  ]);
  replace(main, section);
  if (why) add(section, h("p.empty", why));
  else {
    view.render(section, rest, views);
    if (view.tables && !view.isWhole) add(section, below(view));
  }
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === view.id) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({block: "nearest", inline: "nearest"});
    } else link.removeAttribute("aria-current");
  }
  document.title = visible(`${view.title} – ${data.page().title} – dlhook`);
  scrollTo(0, 0);
  // What is drawn as wide as its place has its height only then.
  requestAnimationFrame(() =>
    requestAnimationFrame(() => section.querySelector(".target")?.scrollIntoView({block: "center"})),
  );
}

async function start() {
  const root = document.getElementById("page");
  try {
    await data.load();
    const groups = groupsOfViews();
    const views = groups.flatMap((group) => group.views);
    const main = h("main", {id: "main", tabindex: -1});
    replace(
      root,
      h(
        "a.skip",
        {
          href: "#",
          onclick: (event) => {
            event.preventDefault();
            main.focus();
          },
        },
        "To the contents",
      ),
      h(
        "header.side",
        h("div.brand", h("span.logo", "dlhook"), themeButton()),
        h("div.run", data.page().title),
        nav(groups),
      ),
      main,
    );
    addEventListener("hashchange", () => show(main, views));
    // In a notebook's frame, a link of its own would lead to the notebook.
    addEventListener("click", (event) => {
      const link = event.target.closest("a[href^='#']");
      if (!link || event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      location.hash = link.getAttribute("href");
    });
    show(main, views);
    root.dataset.ready = "true";
  } catch (error) {
    replace(
      root,
      h(
        "p.fatal",
        `This page cannot be shown: ${error.message}. It needs a browser of 2023 or later (Chromium 80, Firefox 113, Safari 16.4).`,
      ),
    );
    throw error;
  }
}

start();
