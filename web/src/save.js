// Files and text for elsewhere: tables as CSV, a view as a picture.
import {h} from "./dom.js";

export function save(name, blob) {
  const link = h("a", {href: URL.createObjectURL(blob), download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Lines of cells: as `dlhook report --format csv` has them, or with tabs for a spreadsheet.
export function lines(columns, rows, separator) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /["\t\r\n,]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  return [columns, ...rows].map((row) => row.map(cell).join(separator) + "\n").join("");
}

// `view` as it is drawn now, twice as fine, on the page's ground.
export async function picture(view) {
  const {offsetWidth: width, scrollHeight: height} = view,
    root = document.documentElement,
    scale = Math.min(2, 16000 / height);
  const copy = view.cloneNode(true);
  const drawn = [...view.querySelectorAll("canvas")];
  copy.querySelectorAll("canvas").forEach((canvas, i) => {
    const image = h("img", {src: drawn[i].toDataURL(), width: drawn[i].offsetWidth, height: drawn[i].offsetHeight});
    canvas.replaceWith(image);
  });
  const style = h("style", document.querySelector("style").textContent.replace(/(^|\})body\{/, "$1.picture{"));
  const body = h("div", {xmlns: "http://www.w3.org/1999/xhtml"}, style, h("div.picture", copy));
  const inside = new XMLSerializer().serializeToString(body).replace(/:root/g, ".root");
  const markup = `<svg xmlns="http://www.w3.org/2000/svg" width="${width * scale}" height="${height * scale}" viewBox="0 0 ${width} ${height}"><foreignObject width="${width}" height="${height}"><div xmlns="http://www.w3.org/1999/xhtml" class="root" data-theme="${root.dataset.theme}">${inside}</div></foreignObject></svg>`;
  const image = new Image();
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(markup);
  await image.decode();
  const canvas = h("canvas", {width: width * scale, height: height * scale});
  canvas.getContext("2d").drawImage(image, 0, 0);
  return new Promise((done) => canvas.toBlob(done));
}
