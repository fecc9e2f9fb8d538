// Slices of threads and GPU streams on a canvas, to be zoomed.
import {scaleLinear} from "d3-scale";
import {event as zoomed, select} from "d3-selection";
import {zoom, zoomIdentity} from "d3-zoom";
import {legend} from "./bars.js";
import {add, facts, h, replace, visible} from "./dom.js";
import {time} from "./format.js";
import {boxOf, childOf} from "./icicle.js";
import {PARTS} from "./layer_rows.js";
import {addressOfLayer} from "./links.js";
import {color, onTheme} from "./theme.js";
import {card, hide, show} from "./tip.js";

const ROW = 17,
  GAP = 12,
  HEAD = 19,
  AXIS = 26,
  LEFT = 150,
  NARROW_LEFT = 84;
const CLASS_NAMES = {
  step: "step",
  forward: "forward (phase, layer)",
  inference: "inference (phase)",
  backward: "backward (phase, layer)",
  update: "update (phase, layer)",
  other: "other (phase)",
  library: "library call",
  framework: "framework op",
  range: "user range",
  input: "input",
  waiting: "waiting for the GPU",
  queued: "without a processor, part of the time",
  preparing: "preparing",
  kernel: "GPU kernel",
  copy: "copy",
  communication: "communication",
};
const CLASS_COLORS = {step: "range", inference: "framework", queued: "python"};
// Not what a thread did, but what it was for, or in what state it was.
const OVER = new Set(["step", "forward", "inference", "backward", "update", "other", "layer", "queued"]);
const DIRECTION_COLORS = {forward: "forward", update: "update", recompute: "recompute", "": "other", unknown: "other"};

const directionColor = (name) => (name.startsWith("backward") ? "backward" : DIRECTION_COLORS[name] || "other");

// Dark text on light colours and the other way round.
function inkOn(fill) {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(fill.slice(i, i + 2), 16));
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#14171a" : "#ffffff";
}

export class Timeline {
  constructor(box, timelines) {
    this.timelines = timelines;
    this.by = "kind";
    this.query = "";
    this.canvas = h("canvas.timeline", {
      tabindex: 0,
      role: "img",
      "aria-label":
        "Timeline. Keys: W and S or plus and minus zoom, A and D or arrows move, 0 shows all, N and P the next slice and the one before.",
      onfocus: () => (this.focused = true),
      onblur: () => (this.focused = false),
      onpointermove: (event) => this.point(event),
      onpointerleave: () => {
        this.hovered = null;
        hide();
        this.draw();
      },
      onclick: (event) => {
        this.canvas.focus();
        this.select(this.at(event));
      },
      ondblclick: (event) => this.zoomTo(this.at(event)),
      onkeydown: (event) => this.key(event),
    });
    this.legendBox = h("div");
    this.details = h("div.slice-details", {"aria-live": "polite"});
    add(box, [this.legendBox, this.canvas, this.details]);
    this.zoom = zoom()
      .scaleExtent([1, 1e6])
      .filter(() => (zoomed.type === "wheel" ? zoomed.ctrlKey || zoomed.shiftKey || this.focused : !zoomed.button))
      .on("zoom", () => {
        this.transform = zoomed.transform;
        this.draw();
      });
    this.transform = zoomIdentity;
    select(this.canvas).call(this.zoom).on("dblclick.zoom", null);
    new ResizeObserver(() => this.layout()).observe(this.canvas.parentElement);
    onTheme(() => this.draw());
  }

  // One array of slices per track, with rows packed by depth.
  setWindow(window) {
    this.window = window;
    this.tracks = window.tracks.map((track) => ({...track}));
    for (const track of this.tracks) {
      track.slices = track.start.map((start, index) => ({
        track,
        index,
        start,
        end: start + track.duration[index],
        depth: track.depth[index],
        text: track.text[index],
        layer: track.layer[index],
        direction: track.direction[index],
      }));
      track.slices.push(...this.layersIn(track));
      const depths = [...new Set(track.slices.map((slice) => slice.depth))].sort((a, b) => a - b);
      const row = new Map(depths.map((depth, i) => [depth, i]));
      for (const slice of track.slices) slice.row = row.get(slice.depth);
      track.rows = Math.max(1, depths.length);
      track.slices.sort((a, b) => a.row - b.row || a.start - b.start);
    }
    this.selected = this.hovered = null;
    this.transform = zoomIdentity;
    this.layout();
    select(this.canvas).call(this.zoom.transform, zoomIdentity);
    this.select(null);
    this.legend();
  }

  // [name, class, details]
  of(slice) {
    return slice.names || this.timelines.names[slice.text];
  }

  layerOf(slice) {
    return slice.layer >= 0 ? this.timelines.layers[slice.layer] : null;
  }

  // A row above a track: for which layers it worked, those of neighbours as one.
  layersIn(track) {
    const runs = [];
    for (const slice of [...track.slices].sort((a, b) => a.start - b.start)) {
      if (slice.layer < 0) continue;
      const last = runs[runs.length - 1],
        direction = this.timelines.directions[slice.direction] || "";
      if (last && last.layer === slice.layer && last.direction === slice.direction)
        last.end = Math.max(last.end, slice.end);
      else {
        if (last) last.end = Math.min(last.end, slice.start);
        runs.push({...slice, depth: -1, names: [this.layerOf(slice), "layer", direction]});
      }
    }
    return runs;
  }

  legend() {
    const kinds = new Set(this.tracks.flatMap((track) => track.slices.map((slice) => this.of(slice)[1])));
    const colors = new Set(this.tracks.flatMap((track) => track.slices.map((slice) => this.colorOf(slice))));
    const isUsed = (kind) =>
      kinds.has(kind) || (kinds.has("layer") && ["forward", "backward", "update"].includes(kind));
    replace(
      this.legendBox,
      legend(
        this.by === "kind"
          ? Object.keys(CLASS_NAMES).map((kind) => isUsed(kind) && [CLASS_NAMES[kind], CLASS_COLORS[kind] || kind])
          : PARTS.map((part) => colors.has(part) && [part, part]),
      ),
    );
  }

  layout() {
    if (!this.window) return;
    this.width = Math.max(320, this.canvas.parentElement.clientWidth);
    this.left = this.width < 640 ? NARROW_LEFT : LEFT;
    let y = AXIS,
      group = null;
    for (const track of this.tracks) {
      track.head = track.group !== group ? y : null;
      if (track.group !== group) y += HEAD;
      group = track.group;
      track.y = y;
      y += track.rows * ROW + GAP;
    }
    this.height = y;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = this.width * ratio;
    this.canvas.height = this.height * ratio;
    this.canvas.style.height = this.height + "px";
    const reach = (top, bottom) => [
      [this.left, top],
      [this.width, bottom],
    ];
    this.zoom.extent(reach(0, this.height)).translateExtent(reach(-Infinity, Infinity));
    this.draw();
  }

  // Without zoom.
  get whole() {
    return scaleLinear([0, this.window.length], [this.left, this.width - 6]);
  }
  get scale() {
    return this.transform.rescaleX(this.whole);
  }

  colorOf(slice) {
    const kind = this.of(slice)[1];
    return kind !== "layer" && (this.by === "kind" || OVER.has(kind))
      ? CLASS_COLORS[kind] || kind
      : directionColor(this.timelines.directions[slice.direction] || "");
  }

  matches(slice) {
    if (!this.query) return true;
    const [name, , details] = this.of(slice),
      layer = (this.layerOf(slice) || "").toLowerCase();
    if (this.query.startsWith("layer:")) return layer === this.query.slice("layer:".length);
    return `${name} ${details} ${layer}`.toLowerCase().includes(this.query);
  }

  draw() {
    if (!this.window || !this.width) return;
    const context = this.canvas.getContext("2d"),
      ratio = devicePixelRatio || 1,
      scale = this.scale;
    const fills = new Map();
    const fill = (name) => {
      if (!fills.has(name)) fills.set(name, color(name) || "#888888");
      return fills.get(name);
    };
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.font = "11.5px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.axis(context, scale, fill);
    const [from, to] = [scale.invert(this.left), scale.invert(this.width)];
    context.save();
    context.beginPath();
    context.rect(this.left, AXIS, this.width - this.left, this.height);
    context.clip();
    for (const track of this.tracks) {
      let lastRow = -1,
        lastX = -1;
      for (const slice of track.slices) {
        if (slice.end < from || slice.start > to) continue;
        const x = Math.max(scale(slice.start), this.left - 2),
          end = Math.min(scale(slice.end), this.width + 2);
        if (slice.row === lastRow && end - lastX < 0.4) continue;
        lastRow = slice.row;
        lastX = end;
        const y = track.y + slice.row * ROW,
          width = Math.max(end - x, 0.8),
          shade = fill(this.colorOf(slice));
        context.globalAlpha = this.matches(slice) ? 1 : 0.15;
        context.fillStyle = shade;
        context.fillRect(x, y, width > 3 ? width - 0.6 : width, ROW - 2);
        if (slice === this.selected || slice === this.hovered) {
          context.strokeStyle = fill("text");
          context.lineWidth = slice === this.selected ? 2 : 1;
          context.strokeRect(x + 0.5, y + 0.5, Math.max(width - 1.6, 1), ROW - 3);
        }
        const name = visible(this.of(slice)[0].replace(/^aten::/, ""));
        if (width > 26) this.text(context, name, x + 4, y + ROW / 2 - 0.5, width - 8, inkOn(shade));
      }
    }
    context.restore();
    context.globalAlpha = 1;
    this.names(context, fill);
  }

  text(context, text, x, y, width, ink) {
    if (context.measureText(text).width > width) {
      let length = Math.floor((text.length * width) / context.measureText(text).width);
      const cut = () => text.slice(0, Math.ceil(length / 2)) + "…" + text.slice(text.length - Math.floor(length / 2));
      while (length > 1 && context.measureText(cut()).width > width) --length;
      if (length < 2) return;
      text = cut();
    }
    context.fillStyle = ink;
    context.fillText(text, x, y);
  }

  axis(context, scale, fill) {
    const ticks = scale.ticks(Math.max(2, Math.floor((this.width - this.left) / 110)));
    for (const tick of ticks) {
      const x = scale(tick);
      if (x < this.left || x > this.width) continue;
      context.fillStyle = fill("grid");
      context.fillRect(x, AXIS - 6, 1, this.height);
      context.fillStyle = fill("quiet");
      const label = tick === 0 ? "0" : time(tick),
        width = context.measureText(label).width;
      context.fillText(label, Math.min(x + 4, this.width - width - 2), 10);
    }
  }

  names(context, fill) {
    for (const track of this.tracks) {
      if (track.head !== null) {
        context.fillStyle = fill("text");
        context.font = "600 12px system-ui, sans-serif";
        this.text(context, visible(track.group), 0, track.head + HEAD / 2, this.width - 8, fill("text"));
        context.font = "11.5px system-ui, sans-serif";
      }
      this.text(context, visible(track.name), 0, track.y + ROW / 2, this.left - 8, fill("quiet"));
    }
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect(),
      x = event.clientX - box.left,
      y = event.clientY - box.top;
    if (x < this.left) return null;
    const ns = this.scale.invert(x),
      slack = this.scale.invert(x + 2) - ns;
    for (const track of this.tracks) {
      if (y < track.y || y >= track.y + track.rows * ROW) continue;
      const row = Math.floor((y - track.y) / ROW);
      const inside = track.slices.filter(
        (slice) => slice.row === row && slice.start - slack <= ns && slice.end + slack >= ns,
      );
      return inside.find((slice) => slice.start <= ns && slice.end >= ns) || inside[0] || null;
    }
    return null;
  }

  pairs(slice) {
    const [name, kind, details] = this.of(slice);
    return [
      ["kind", CLASS_NAMES[kind] || kind],
      ["duration", time(slice.end - slice.start)],
      ["begins at", time(slice.start)],
      ["layer", this.layerOf(slice)],
      ["direction", this.timelines.directions[slice.direction] || null],
      ["thread", slice.track.name],
      ["details", details === name ? null : details],
    ];
  }

  point(event) {
    const slice = this.at(event);
    if (slice !== this.hovered) {
      this.hovered = slice;
      this.draw();
    }
    if (!slice) return hide();
    return show(card(this.of(slice)[0], this.pairs(slice)), event.clientX, event.clientY);
  }

  select(slice) {
    this.selected = slice;
    if (this.onselect) this.onselect(slice && `${this.tracks.indexOf(slice.track)}.${slice.index}`);
    replace(
      this.details,
      slice
        ? [
            h("strong", this.of(slice)[0]),
            facts(
              this.pairs(slice).map(([name, value]) => [
                name,
                value && name === "layer" ? h("a", {href: addressOfLayer(value)}, value) : value,
              ]),
            ),
          ]
        : h(
            "span.quiet",
            "Drag to move, Ctrl + wheel (wheel after a click) or W and S to zoom, A and D to move, 0 for all; click on a slice for its details, double click to zoom to it.",
          ),
    );
    this.draw();
  }

  zoomTo(slice) {
    if (!slice) return;
    const k = Math.min(1e6, (0.8 * this.window.length) / Math.max(1, slice.end - slice.start));
    const middle = this.whole((slice.start + slice.end) / 2);
    select(this.canvas).call(
      this.zoom.transform,
      zoomIdentity.translate((this.left + this.width) / 2 - k * middle, 0).scale(k),
    );
    this.select(slice);
  }

  key(event) {
    const canvas = select(this.canvas),
      step = (this.width - this.left) / 8 / this.transform.k;
    const actions = {
      w: () => canvas.call(this.zoom.scaleBy, 1.6),
      s: () => canvas.call(this.zoom.scaleBy, 1 / 1.6),
      a: () => canvas.call(this.zoom.translateBy, step, 0),
      d: () => canvas.call(this.zoom.translateBy, -step, 0),
      0: () => canvas.call(this.zoom.transform, zoomIdentity),
      n: () => this.next(1),
      p: () => this.next(-1),
      Enter: () => this.zoomTo(this.selected),
    };
    const same = {"+": "w", "-": "s", ArrowLeft: "a", ArrowRight: "d"},
      action = actions[same[event.key] || event.key] || actions[event.key.toLowerCase()];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  }

  found() {
    const isWork = (slice) => !OVER.has(this.of(slice)[1]);
    return this.tracks.flatMap((track) => track.slices.filter((slice) => isWork(slice) && this.matches(slice)));
  }

  // By its name in an address.
  named(name) {
    const [track, index] = name.split(".");
    return this.tracks[track]?.slices.find((slice) => slice.depth >= 0 && slice.index === Number(index));
  }

  // The next slice, or the one before, that the search finds.
  next(by) {
    const all = this.found();
    if (all.length === 0) return;
    const at = all.indexOf(this.selected);
    const slice = all[(at + by + all.length) % all.length],
      [from, to] = [this.scale.invert(this.left), this.scale.invert(this.width)];
    if (slice.end < from || slice.start > to)
      select(this.canvas).call(this.zoom.translateTo, this.whole((slice.start + slice.end) / 2), 0);
    this.select(slice);
  }

  // What was in what in this step, equal names of one track added up: trees for icicle.js.
  trees() {
    const tree = (track) => {
      const root = boxOf(`${track.group}: ${track.name}`);
      const stack = [{node: root, end: Infinity}];
      for (const slice of [...track.slices].sort((a, b) => a.start - b.start || a.depth - b.depth)) {
        if (slice.depth < 0) continue;
        while (stack.length > 1 && slice.start >= stack[stack.length - 1].end) stack.pop();
        const parent = stack[stack.length - 1].node,
          [name, kind] = this.of(slice),
          length = slice.end - slice.start;
        const node = childOf(parent, name, CLASS_COLORS[kind] || kind);
        node.own += length;
        node.times = (node.times || 0) + 1;
        if (parent !== root) parent.own -= length;
        stack.push({node, end: slice.end});
      }
      return root;
    };
    return this.tracks
      .filter((track) => track.slices.some((slice) => slice.depth >= 0 && !OVER.has(this.of(slice)[1])))
      .map(tree);
  }
}
