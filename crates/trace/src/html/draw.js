// Draws the canvas: overview, ruler, lanes, boxes, arrows. Reads the view and the layout, changes neither.
// Each row finds its first visible box by binary search; boxes narrower than a pixel are merged per pixel column, and
// neighbouring columns of one colour into one rectangle, so that a redraw costs what is on the screen.

const canvas = document.getElementById("canvas"), ctx = canvas.getContext("2d");
const LABELS = 178, OVERVIEW_H = 40, RULER_H = 24, TOP = OVERVIEW_H + RULER_H, SCROLLBAR = 10, MAX_ARROWS = 400;
const FONT = 'system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';

/** What is shown: times from `t0` to `t1`, the content scrolled by `y`. */
const view = { t0: 0, t1: 1, y: 0, width: 0, height: 0, selected: -1, hover: -1, hidden: new Uint8Array(meta.kinds.length), arrows: true };
let hiddenArrows = 0;

const plotWidth = () => Math.max(50, view.width - LABELS - SCROLLBAR);
const xOf = (t) => LABELS + ((t - view.t0) / (view.t1 - view.t0)) * plotWidth();
const tOf = (x) => view.t0 + ((x - LABELS) / plotWidth()) * (view.t1 - view.t0);

const BASE = ["#3d6fb8", "#2a9187", "#6d9a3f", "#e0881c", "#6f5bd0", "#6b7a90", "#f9b4d0", "#c2185b", "#f6c3ea", "#9c1a86",
  "#5aa2d6", "#8b6f62", "#d62f2f", "#b86a52", "#c7a500", "#3f8f9c", "#94a1b2", "#222222", "#e58ab4", "#d9689a",
  "#4f9d5d", "#2e6b46"];
let theme, colours;

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
function blend(a, b, share) {
  const from = channels(a), to = channels(b);
  return "#" + from.map((c, i) => Math.round(c + (to[i] - c) * share).toString(16).padStart(2, "0")).join("");
}
function readable(hex) {
  const [r, g, b] = channels(hex);
  return r * 0.299 + g * 0.587 + b * 0.114 > 150 ? "#20242c" : "#ffffff";
}

/** Colours of the present theme: for each kind the solid one, the lighter one of what pends, and both while a search dims. */
function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const named = (name) => style.getPropertyValue("--" + name).trim();
  theme = Object.fromEntries(["back", "panel", "lane", "line", "grid", "ink", "soft", "accent", "match", "select", "arrow"].map((n) => [n, named(n)]));
  const dark = readable(theme.back) === "#ffffff";
  colours = BASE.map((base, kind) => {
    const solid = kind === KIND.lost && dark ? "#e8e8e8" : base;
    const isPink = kind >= KIND.wait && kind <= KIND.cpuSignal;
    const signal = kind === KIND.signal || kind === KIND.cpuSignal;
    const pending = blend(solid, theme.back, signal ? 0.25 : isPink ? 0.55 : 0.74);
    const edge = isPink && !signal ? blend(solid, "#a0104c", 0.38) : blend(solid, dark ? "#ffffff" : "#000000", 0.22);
    return { solid, pending, edge, ink: readable(solid), pendingInk: readable(pending),
      dimSolid: blend(solid, theme.back, 0.82), dimPending: blend(solid, theme.back, 0.92), dimEdge: blend(solid, theme.back, 0.7) };
  });
  overview = null;
}

function draw() {
  const { width, height } = view;
  const ratio = canvas.width / Math.max(1, width);
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.fillStyle = theme.back;
  ctx.fillRect(0, 0, width, height);
  if (!T.n) return;
  const ticks = rulerTicks();
  ctx.save();
  ctx.beginPath();
  ctx.rect(0, TOP, width, height - TOP);
  ctx.clip();
  drawBackground(ticks);
  ctx.save();
  ctx.beginPath();
  ctx.rect(LABELS, TOP, width - LABELS - SCROLLBAR, height - TOP);
  ctx.clip();
  forVisibleLanes(drawLane);
  drawArrows();
  outline(view.hover, theme.select, 1);
  outline(view.selected, theme.select, 2.5);
  ctx.restore();
  drawLabels();
  drawScrollbar();
  ctx.restore();
  drawRuler(ticks);
  drawOverview();
}

function forVisibleLanes(act) {
  for (const lane of lanes) {
    if (lane.y < 0) continue;
    const top = TOP + lane.y - view.y;
    if (top < view.height && top + lane.h > TOP) act(lane, top);
  }
}

function drawBackground(ticks) {
  for (const group of groups) {
    const top = TOP + group.y - view.y;
    ctx.fillStyle = theme.panel;
    ctx.fillRect(0, top, view.width, GROUP_H);
  }
  ctx.fillStyle = theme.grid;
  for (const tick of ticks.list) ctx.fillRect(Math.round(tick.x), TOP, 1, view.height - TOP);
  ctx.fillStyle = theme.line;
  forVisibleLanes((lane, top) => ctx.fillRect(0, Math.round(top + lane.h) - 1, view.width, 1));
}

/** Rectangles of boxes too narrow to be seen alone, gathered column by column. */
const column = { x: -1, colour: "", rank: -1, runX: 0, runW: 0, runColour: "" };
function flushColumn(y, h) {
  if (column.x < 0) return;
  if (column.runW && column.runColour === column.colour && column.runX + column.runW === column.x) column.runW++;
  else {
    flushRun(y, h);
    column.runX = column.x;
    column.runW = 1;
    column.runColour = column.colour;
  }
  column.x = -1;
}
function flushRun(y, h) {
  if (column.runW) {
    ctx.fillStyle = column.runColour;
    ctx.fillRect(column.runX, y, column.runW, h);
  }
  column.runW = 0;
}

function drawLane(lane, top) {
  const shift = top - lane.y, gap = lane.rowH > 8 ? 2 : lane.rowH > 4 ? 1 : 0;
  lane.rows.forEach((row, number) => {
    const y = Math.round(rowTop(lane, number) + shift);
    if (y + lane.rowH > TOP && y < view.height) drawRow(lane, row, y + (gap >> 1), lane.rowH - gap);
  });
}

function drawRow(lane, row, y, h) {
  const { ids, reach } = row, { t0, t1, hidden } = view;
  const scale = plotWidth() / (t1 - t0), searching = matches.text !== "", isMatch = matches.is;
  for (let at = lowerBound(reach, t0); at < ids.length; at++) {
    const i = ids[at];
    if (left[i] > t1) break;
    if (hidden[T.kind[i]]) continue;
    const x0 = LABELS + (left[i] - t0) * scale, x1 = LABELS + (T.end[i] - t0) * scale;
    if (x1 - x0 >= 2) {
      flushColumn(y, h);
      flushRun(y, h);
      drawBox(i, x0, x1, y, h, lane, scale);
      continue;
    }
    const pixel = Math.floor(x0), c = colours[T.kind[i]], match = isMatch[i];
    if (pixel !== column.x) {
      flushColumn(y, h);
      column.x = pixel;
      column.rank = -1;
    }
    // A match outranks the rest of its column, then the longer box does.
    const rank = match ? Infinity : x1 - x0;
    if (rank > column.rank) {
      column.rank = rank;
      column.colour = searching ? (match ? theme.match : c.dimSolid) : c.solid;
    }
  }
  flushColumn(y, h);
  flushRun(y, h);
  // A moment alone would be one pixel wide: where there is room it gets a head that can be seen and hit.
  if (h >= 9 && lane.kind !== LANE.queue) drawMoments(row, y, h, scale);
}

function drawMoments(row, y, h, scale) {
  const { ids, reach } = row;
  let last = -Infinity;
  for (let at = lowerBound(reach, view.t0); at < ids.length; at++) {
    const i = ids[at];
    if (left[i] > view.t1) break;
    if (T.end[i] !== left[i] || view.hidden[T.kind[i]]) continue;
    const x = Math.round(LABELS + (left[i] - view.t0) * scale);
    if (x - last < 7) continue;
    last = x;
    ctx.fillStyle = matches.text && !matches.is[i] ? colours[T.kind[i]].dimSolid : colours[T.kind[i]].solid;
    ctx.fillRect(x - 1, y, 2, h);
    ctx.beginPath();
    ctx.moveTo(x - 4, y);
    ctx.lineTo(x + 4, y);
    ctx.lineTo(x, y + 6);
    ctx.fill();
  }
}

function drawBox(i, from, to, y, h, lane, scale) {
  const c = colours[T.kind[i]], dim = matches.text !== "" && !matches.is[i];
  const x0 = Math.max(from, LABELS - 3), x1 = Math.min(to, view.width);
  const middle = lane.kind === LANE.queue ? Math.min(x1, Math.max(x0, LABELS + (T.start[i] - view.t0) * scale)) : x0;
  const wide = x1 - x0 > 4, right = wide ? x1 - 0.5 : x1;
  if (middle > x0) {
    ctx.fillStyle = dim ? c.dimPending : c.pending;
    ctx.fillRect(x0, y, middle - x0, h);
  }
  if (right > middle) {
    ctx.fillStyle = dim ? c.dimSolid : c.solid;
    ctx.fillRect(middle, y, Math.max(right - middle, 0.7), h);
  }
  if (wide && h > 4) {
    ctx.strokeStyle = dim ? c.dimEdge : matches.is[i] ? theme.match : c.edge;
    ctx.lineWidth = matches.is[i] ? 2 : 1;
    ctx.strokeRect(Math.round(x0) + 0.5, y + 0.5, Math.max(1, Math.round(right - x0) - 1), h - 1);
  }
  if (h < 11 || dim) return;
  // The text goes where there is more room: on the part that pends or on the part that runs.
  const visible = Math.max(x0, LABELS);
  if (middle - visible > x1 - middle) drawText(i, visible, middle, y, h, c.pendingInk);
  else drawText(i, Math.max(middle, LABELS), x1, y, h, c.ink);
}

let charWidth = 0;
function drawText(i, x0, x1, y, h, ink) {
  if (x1 - x0 < 26) return;
  ctx.font = `11px ${FONT}`;
  charWidth ||= ctx.measureText("shadow maps particles kernel 0123").width / 33;
  const room = Math.floor((x1 - x0 - 7) / charWidth);
  const text = label(i);
  if (room < Math.min(4, text.length)) return;
  ctx.fillStyle = ink;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  ctx.fillText(text.length <= room ? text : text.slice(0, room - 1) + "\u2026", x0 + 4, y + h / 2 + 0.5);
}

function outline(i, colour, width) {
  if (i < 0 || boxTop(i) < 0) return;
  const { y, h } = boxPlace(i), x0 = Math.max(xOf(left[i]), LABELS - 4), x1 = Math.min(Math.max(xOf(T.end[i]), xOf(left[i]) + 3), view.width);
  if (x1 < LABELS || x0 > view.width) return;
  ctx.strokeStyle = colour;
  ctx.lineWidth = width;
  ctx.strokeRect(x0 - 1, y - 0.5, x1 - x0 + 1.5, h + 1);
}

/** Top and height of a record's box on the canvas. */
function boxPlace(i) {
  const lane = lanes[T.lane[i]], gap = lane.rowH > 8 ? 2 : lane.rowH > 4 ? 1 : 0;
  return { y: Math.round(TOP + boxTop(i) - view.y) + (gap >> 1), h: lane.rowH - gap };
}

function visibleFlows() {
  const tails = (t) => {
    let lo = 0, hi = T.flows;
    while (lo < hi) {
      const middle = (lo + hi) >> 1;
      if (T.start[T.flowFrom[flowsByTail[middle]]] < t) lo = middle + 1;
      else hi = middle;
    }
    return lo;
  };
  const heads = (t) => {
    let lo = 0, hi = T.flows;
    while (lo < hi) {
      const middle = (lo + hi) >> 1;
      if (T.end[T.flowTo[flowsByHead[middle]]] < t) lo = middle + 1;
      else hi = middle;
    }
    return lo;
  };
  const from = tails(view.t0), to = tails(view.t1), first = heads(view.t0), last = heads(view.t1);
  return { from, to, first, last, count: Math.max(to - from, last - first) };
}

function drawArrows() {
  hiddenArrows = 0;
  if (view.arrows) {
    const seen = visibleFlows();
    if (seen.count > MAX_ARROWS) hiddenArrows = seen.count;
    else {
      for (let at = seen.from; at < seen.to; at++) drawArrow(flowsByTail[at], theme.arrow, 1, 0.6);
      for (let at = seen.first; at < seen.last; at++) {
        const f = flowsByHead[at];
        if (T.start[T.flowFrom[f]] < view.t0) drawArrow(f, theme.arrow, 1, 0.6);
      }
    }
  }
  for (const i of new Set([view.selected, view.hover])) if (i >= 0) drawArrowsOf(i);
}

function drawArrowsOf(i) {
  if (releasedBy[i] >= 0) arrow(releasedBy[i], i, theme.accent, 2, 1);
  const many = Math.min(firstRelease[i + 1], firstRelease[i] + MAX_ARROWS);
  for (let at = firstRelease[i]; at < many; at++) arrow(i, releases[at], theme.accent, 2, 1);
}

const drawArrow = (f, colour, width, alpha) => arrow(T.flowFrom[f], T.flowTo[f], colour, width, alpha);

/** From the end of a signal to the end of a wait: the moment at which it was released. */
function arrow(from, to, colour, width, alpha) {
  if (boxTop(from) < 0 || boxTop(to) < 0 || view.hidden[T.kind[from]] || view.hidden[T.kind[to]]) return;
  const tail = boxPlace(from), head = boxPlace(to), down = head.y > tail.y;
  const x0 = xOf(T.end[from]), y0 = down ? tail.y + tail.h : tail.y;
  const x1 = xOf(T.end[to]) - 1, y1 = down ? head.y : head.y + head.h;
  const sign = down ? 1 : -1, size = width > 1 ? 6 : 4.5;
  if (Math.max(y0, y1) < TOP || Math.min(y0, y1) > view.height) return;
  const bend = Math.max(8, Math.abs(y1 - y0) * 0.45) * sign;
  ctx.globalAlpha = alpha;
  ctx.strokeStyle = ctx.fillStyle = colour;
  ctx.lineWidth = width;
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.bezierCurveTo(x0, y0 + bend, x1, y1 - bend, x1, y1 - sign * size);
  ctx.stroke();
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x1 - size * 0.6, y1 - sign * size);
  ctx.lineTo(x1 + size * 0.6, y1 - sign * size);
  ctx.fill();
  ctx.beginPath();
  ctx.arc(x0, y0, width > 1 ? 2.5 : 1.8, 0, 7);
  ctx.fill();
  ctx.globalAlpha = 1;
}

function fitted(text, width) {
  if (ctx.measureText(text).width <= width) return text;
  let keep = Math.max(1, Math.floor((text.length * width) / ctx.measureText(text).width));
  while (keep > 1 && ctx.measureText(text.slice(0, keep) + "\u2026").width > width) keep--;
  return text.slice(0, keep) + "\u2026";
}

function drawLabels() {
  ctx.fillStyle = theme.lane;
  ctx.fillRect(0, TOP, LABELS - 1, view.height - TOP);
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  for (const group of groups) {
    const top = TOP + group.y - view.y;
    if (top > view.height || top + GROUP_H < TOP) continue;
    ctx.fillStyle = theme.panel;
    ctx.fillRect(0, top, LABELS - 1, GROUP_H);
    ctx.fillStyle = theme.ink;
    triangle(12, top + GROUP_H / 2, group.folded);
    ctx.font = `600 12px ${FONT}`;
    ctx.fillText(fitted(group.name || "(no group)", LABELS - 70), 22, top + GROUP_H / 2 + 0.5);
    ctx.font = `11px ${FONT}`;
    ctx.fillStyle = theme.soft;
    ctx.textAlign = "right";
    ctx.fillText(group.lanes.length === 1 ? "1 lane" : `${group.lanes.length} lanes`, LABELS - 8, top + GROUP_H / 2 + 0.5);
    ctx.textAlign = "left";
  }
  forVisibleLanes((lane, top) => {
    const middle = top + Math.min(lane.h / 2, 60);
    const twoLines = lane.h >= 34;
    ctx.fillStyle = theme.line;
    ctx.fillRect(0, Math.round(top + lane.h) - 1, LABELS - 1, 1);
    ctx.font = `12px ${FONT}`;
    ctx.fillStyle = theme.ink;
    ctx.fillText(fitted(lane.name, LABELS - 36), 22, twoLines ? middle - 7 : middle);
    drawGlyph(lane.kind, 11, twoLines ? middle - 7 : middle);
    if (!twoLines) return;
    ctx.font = `10.5px ${FONT}`;
    ctx.fillStyle = theme.soft;
    const deep = lane.kind === LANE.queue && lane.rows.length > 1 ? `, up to ${lane.rows.length}${lane.rows.length === MAX_ROWS ? "+" : ""} deep` : "";
    ctx.fillText(meta.lane_kinds[lane.kind] + deep, 22, middle + 8);
  });
  ctx.fillStyle = theme.line;
  ctx.fillRect(LABELS - 1, TOP, 1, view.height - TOP);
}

function triangle(x, y, folded) {
  ctx.beginPath();
  if (folded) (ctx.moveTo(x - 3, y - 4), ctx.lineTo(x - 3, y + 4), ctx.lineTo(x + 3, y));
  else (ctx.moveTo(x - 4, y - 3), ctx.lineTo(x + 4, y - 3), ctx.lineTo(x, y + 3));
  ctx.fill();
}

/** A small sign for each kind of lane: thread, queue, engine, display, interrupt. */
function drawGlyph(kind, x, y) {
  ctx.fillStyle = ctx.strokeStyle = theme.soft;
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  if (kind === LANE.cpu) (ctx.arc(x, y, 4, 0, 7), ctx.stroke());
  else if (kind === LANE.queue) for (const dy of [-4, -1, 2]) ctx.fillRect(x - 4, y + dy, 8, 2);
  else if (kind === LANE.engine) ctx.fillRect(x - 4, y - 4, 8, 8);
  else if (kind === LANE.display) (ctx.strokeRect(x - 5, y - 4, 10, 6), ctx.fillRect(x - 3, y + 4, 6, 1.5));
  else (ctx.moveTo(x + 1, y - 5), ctx.lineTo(x - 3, y + 1), ctx.lineTo(x, y + 1), ctx.lineTo(x - 1, y + 5), ctx.lineTo(x + 3, y - 1), ctx.lineTo(x, y - 1), ctx.fill());
}

const scrollable = () => contentHeight - (view.height - TOP);
function drawScrollbar() {
  const x = view.width - SCROLLBAR, room = view.height - TOP;
  ctx.fillStyle = theme.lane;
  ctx.fillRect(x, TOP, SCROLLBAR, room);
  if (scrollable() <= 0) return;
  const size = Math.max(24, (room * room) / contentHeight);
  ctx.fillStyle = theme.soft;
  ctx.globalAlpha = 0.55;
  ctx.fillRect(x + 2, TOP + (view.y / scrollable()) * (room - size), SCROLLBAR - 4, size);
  ctx.globalAlpha = 1;
}

/** Ticks at round times, some hundred pixels apart. Where numbers grow long they count from a base that is shown once. */
function rulerTicks() {
  const span = view.t1 - view.t0, rough = (span / plotWidth()) * 105;
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1e-3)));
  const step = Math.max(1, [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) ?? 10 * power);
  const [size, unit] = UNITS.find(([size]) => step * 5 >= size) ?? UNITS[3];
  const from = view.t0 + T.origin, first = Math.ceil(from / step) * step;
  const long = from / size >= 100000;
  const base = long ? Math.floor(from / (size * 1000)) * size * 1000 : 0;
  const digits = Math.max(0, Math.round(Math.log10(size) - Math.floor(Math.log10(step) + 1e-9)));
  const list = [];
  for (let t = first; t <= view.t1 + T.origin; t += step) {
    const shown = ((t - base) / size).toFixed(digits);
    list.push({ x: xOf(t - T.origin), text: `${long ? "+" : ""}${shown} ${unit}` });
  }
  return { list, base: long ? moment(base - T.origin) : "" };
}

function drawRuler(ticks) {
  const y = OVERVIEW_H;
  ctx.fillStyle = theme.panel;
  ctx.fillRect(0, y, view.width, RULER_H);
  ctx.font = `11px ${FONT}`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  for (const { x, text } of ticks.list) {
    if (x < LABELS) continue;
    ctx.fillStyle = theme.soft;
    ctx.fillRect(Math.round(x), y + RULER_H - 7, 1, 7);
    ctx.fillStyle = theme.ink;
    if (x + 60 < view.width) ctx.fillText(text, x + 4, y + 11);
  }
  ctx.fillStyle = theme.panel;
  ctx.fillRect(0, y, LABELS - 1, RULER_H);
  ctx.fillStyle = theme.soft;
  ctx.fillText(ticks.base ? `from ${ticks.base}` : `${duration(view.t1 - view.t0)} in view`, 10, y + 12);
  ctx.fillStyle = theme.line;
  ctx.fillRect(0, y + RULER_H - 1, view.width, 1);
}

/** The overview above the ruler: how busy each lane was over the whole run, painted once. */
let overview = null;
function paintOverview() {
  const w = Math.ceil(plotWidth()), h = OVERVIEW_H - 8;
  overview = document.createElement("canvas");
  overview.width = w;
  overview.height = h;
  const pen = overview.getContext("2d"), scale = w / Math.max(1, T.last);
  const shown = lanes.filter((l) => l.rows.length);
  shown.forEach((lane, at) => {
    const y0 = Math.floor((at * h) / shown.length), y1 = Math.max(y0 + 1, Math.floor(((at + 1) * h) / shown.length));
    const painted = new Int8Array(w + 1);
    for (const { ids } of lane.rows) {
      for (const i of ids) {
        const from = Math.max(0, Math.floor(T.start[i] * scale)), to = Math.min(w, Math.floor(T.end[i] * scale));
        if (painted[from] && painted[to]) continue;
        pen.fillStyle = colours[T.kind[i]].solid;
        pen.fillRect(from, y0, Math.max(1, to - from), Math.max(1, y1 - y0 - (h / shown.length > 3 ? 1 : 0)));
        painted.fill(1, from, to + 1);
      }
    }
  });
}

function drawOverview() {
  if (!overview || overview.width !== Math.ceil(plotWidth())) paintOverview();
  const y = 4, h = OVERVIEW_H - 8, w = plotWidth(), last = Math.max(1, T.last);
  ctx.fillStyle = theme.panel;
  ctx.fillRect(0, 0, view.width, OVERVIEW_H);
  ctx.globalAlpha = 0.75;
  ctx.drawImage(overview, LABELS, y);
  ctx.globalAlpha = 1;
  ctx.fillStyle = theme.match;
  let painted = -1;
  for (const i of matches.ids) {
    const x = Math.floor((T.start[i] / last) * w);
    if (x !== painted) ctx.fillRect(LABELS + x, y, 1.5, 5);
    painted = x;
  }
  const x0 = LABELS + Math.max(0, (view.t0 / last) * w), x1 = LABELS + Math.min(w, (view.t1 / last) * w);
  ctx.fillStyle = theme.back;
  ctx.globalAlpha = 0.6;
  ctx.fillRect(LABELS, y, Math.max(0, x0 - LABELS), h);
  ctx.fillRect(x1, y, Math.max(0, LABELS + w - x1), h);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = theme.accent;
  ctx.lineWidth = 1.5;
  ctx.strokeRect(x0 + 0.5, y - 1, Math.max(3, x1 - x0 - 1), h + 2);
  ctx.font = `11px ${FONT}`;
  ctx.fillStyle = theme.soft;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  ctx.fillText(`Whole run: ${duration(T.last)}`, 10, OVERVIEW_H / 2);
}

/** The record under a point of the canvas, or -1. A narrow box may be missed by three pixels. */
function hit(x, y) {
  if (x < LABELS || x > view.width - SCROLLBAR || y < TOP) return -1;
  const inner = y - TOP + view.y;
  const lane = lanes.find((l) => l.y >= 0 && inner >= l.y && inner < l.y + l.h);
  if (!lane) return -1;
  const number = lane.rows.findIndex((_, row) => inner >= rowTop(lane, row) && inner < rowTop(lane, row) + lane.rowH);
  if (number < 0) return -1;
  const { ids, reach } = lane.rows[number];
  const slack = (3 * (view.t1 - view.t0)) / plotWidth(), t = tOf(x);
  let best = -1, distance = Infinity;
  for (let at = lowerBound(reach, t - slack); at < ids.length && left[ids[at]] <= t + slack; at++) {
    const i = ids[at];
    if (view.hidden[T.kind[i]]) continue;
    const off = t < left[i] ? left[i] - t : t > T.end[i] ? t - T.end[i] : 0;
    if (off < distance || (off === distance && T.end[i] - left[i] < T.end[best] - left[best])) (best = i), (distance = off);
  }
  return best;
}
