// Reads the data, makes the navigation, shows the view that the address names: "#layers", "#table/ops".
import * as data from "./data.js";
import {add, h, replace, visible} from "./dom.js";
import {hide} from "./tip.js";
import {themeButton} from "./theme.js";
import {groupsOfViews} from "./views.js";

const rendered = new Map();

function nav(groups) {
  const link = (view) => h("a", {href: "#" + view.id, "data-view": view.id}, view.title);
  return h(
    "nav",
    {"aria-label": "Views"},
    groups.map(({title, views}) => {
      const shown = views.filter((view) => !view.isHidden && !view.missing());
      return shown.length > 0 && h("div.group", null, h("h2", null, title), shown.map(link));
    }),
  );
}

// The view for an address, and the rest of the address: {view, rest}.
function viewAt(views, address) {
  let hash = address.replace(/^#/, "");
  try {
    hash = decodeURIComponent(hash);
  } catch (error) {
    hash = "";
  }
  const [id, ...rest] = hash.split("/");
  return {view: views.find((view) => view.id === id) || views[0], rest: rest.join("/")};
}

function show(main, views) {
  const {view, rest} = viewAt(views, location.hash);
  hide();
  const key = view.id + "/" + (view.keepsAddress ? "" : rest);
  const why = view.missing();
  if (!rendered.has(key)) {
    const section = h("section.view", {id: "view-" + view.id, "aria-label": view.title});
    add(section, [
      h("h1", null, view.heading ? view.heading(rest) : view.title),
      view.lead && h("p.lead", null, view.lead),
    ]);
    rendered.set(key, section);
    replace(main, section);
    if (why) add(section, h("p.empty", null, why));
    else view.render(section, rest);
  } else {
    replace(main, rendered.get(key));
  }
  if (view.onshow) view.onshow(rest);
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === view.id) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({block: "nearest", inline: "nearest"});
    } else link.removeAttribute("aria-current");
  }
  document.title = visible(`${view.title} – ${data.page().title} – dlhook`);
  scrollTo(0, 0);
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
        null,
        h("div.brand", null, h("span.logo", null, "dlhook"), themeButton()),
        h("div.run", null, data.page().title),
        nav(groups),
      ),
      main,
    );
    addEventListener("hashchange", () => show(main, views));
    show(main, views);
    root.dataset.ready = "true";
  } catch (error) {
    replace(
      root,
      h(
        "p.fatal",
        null,
        `This page cannot be shown: ${error.message}. It needs a browser of 2023 or later (Chromium 80, Firefox 113, Safari 16.4).`,
      ),
    );
    throw error;
  }
}

start();
