// Draws the canvas: lanes, boxes, marks, strips. Reads the view and the layout, changes neither.
// - Each row finds its first visible box by binary search.
// - Boxes narrower than two pixels are merged per pixel column, and the rest of a crowded column is skipped by binary
//   search. The columns are written into one image, which is drawn once. A redraw therefore costs what is on the screen.

const canvas = document.getElementById("canvas"), ctx = canvas.getContext("2d");
const OVERVIEW_H = 40, RULER_H = 24, TOP = OVERVIEW_H + RULER_H, SCROLLBAR = 10, MAX_ARROWS = 400;
const FONT = 'system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';
/** The width of the column of lane names: less on a narrow page. */
let LABELS = 190;

/** What is shown: times from `t0` to `t1`, the content scrolled by `y`; `range` is the selected range of time. */
const view = { t0: 0, t1: 1, y: 0, width: 0, height: 0, selected: -1, hover: -1, hidden: new Uint8Array(meta.kinds.length), arrows: true, range: null, finding: -1 };
let hiddenArrows = 0;

const plotWidth = () => Math.max(50, view.width - LABELS - SCROLLBAR);
const xOf = (t) => LABELS + ((t - view.t0) / (view.t1 - view.t0)) * plotWidth();
const tOf = (x) => view.t0 + ((x - LABELS) / plotWidth()) * (view.t1 - view.t0);

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
  drawBandEnds();
  clearLayer();
  forVisibleLanes(drawLane);
  showLayer();
  drawRecoveries();
  drawRange();
  drawPath();
  drawArrows();
  drawFindings();
  drawChain();
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
  ctx.fillStyle = theme.panel;
  for (const group of groups) ctx.fillRect(0, TOP + group.y - view.y, view.width, GROUP_H);
  ctx.fillStyle = theme.grid;
  for (const tick of ticks.list) ctx.fillRect(Math.round(tick.x), TOP, 1, view.height - TOP);
  ctx.fillStyle = theme.line;
  forVisibleLanes((lane, top) => ctx.fillRect(0, Math.round(top + lane.h) - 1, view.width, 1));
}

/** Where each trace of the page ends: after it the band is shaded. */
function drawBandEnds() {
  if (!meta.bands.length) return;
  for (const band of bands) {
    const x = Math.max(LABELS, xOf(band.length)), y = TOP + band.y - view.y;
    if (x >= view.width) continue;
    ctx.fillStyle = theme.panel;
    ctx.globalAlpha = 0.8;
    ctx.fillRect(x, y + BAND_H, view.width - x, band.bottom - band.y - BAND_H);
    ctx.globalAlpha = 1;
    ctx.fillStyle = theme.accent;
    ctx.fillRect(Math.round(x), y + BAND_H, 2, band.bottom - band.y - BAND_H);
  }
}

/** The pixels of boxes too narrow to be seen alone, and the column that is being gathered. */
const layer = { canvas: document.createElement("canvas"), image: null, pixels: null, used: false };
const column = { x: -1, colour: 0, rank: -1 };

function clearLayer() {
  const { width, height } = view;
  if (!layer.image || layer.image.width !== Math.ceil(width) || layer.image.height !== Math.ceil(height)) {
    layer.image = new ImageData(Math.ceil(width), Math.ceil(height));
    layer.pixels = new Uint32Array(layer.image.data.buffer);
    layer.canvas.width = layer.image.width;
    layer.canvas.height = layer.image.height;
  } else if (layer.used) layer.pixels.fill(0);
  layer.used = false;
}

function showLayer() {
  if (!layer.used) return;
  layer.canvas.getContext("2d").putImageData(layer.image, 0, 0);
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(layer.canvas, 0, 0);
}

function fillColumn(x, y, h, colour) {
  const { width, height } = layer.image, last = Math.min(y + h, height);
  if (x < 0 || x >= width) return;
  for (let at = Math.max(y, TOP); at < last; at++) layer.pixels[at * width + x] = colour;
  layer.used = true;
}

function flushColumn(y, h) {
  if (column.x >= 0) fillColumn(column.x, y, h, column.colour);
  column.x = -1;
}

function drawLane(lane, top) {
  const shift = top - lane.y, gap = lane.rowH > 8 ? 2 : lane.rowH > 4 ? 1 : 0;
  if (lane.strip) drawStrip(lane, top + 2);
  lane.rows.forEach((row, number) => {
    const y = Math.round(rowTop(lane, number) + shift);
    if (y + lane.rowH > TOP && y < view.height) drawRow(lane, row, y + (gap >> 1), lane.rowH - gap);
  });
}

/** The strip above a lane's rows: how deep a queue is, or what share of each pixel's time an engine works. */
function drawStrip(lane, y) {
  const h = STRIP - 3, w = Math.ceil(plotWidth()), queue = lane.kind === LANE.queue;
  const dt = (view.t1 - view.t0) / plotWidth();
  ctx.beginPath();
  ctx.moveTo(LABELS, y + h);
  let queued = 0, done = 0, last = -1, before = lane.busy.until(view.t0);
  for (let x = 0; x <= w; x++) {
    const t = view.t0 + x * dt;
    let share;
    if (queue) {
      queued = lowerBound(lane.queuedAt, t, queued);
      done = lowerBound(lane.doneAt, t, done);
      share = (queued - done) / lane.deepest;
    } else {
      const after = lane.busy.until(t + dt);
      share = (after - before) / dt;
      before = after;
    }
    const top = y + h - Math.round(Math.min(1, share) * h * 2) / 2;
    if (top !== last) {
      if (last >= 0) ctx.lineTo(LABELS + x, last);
      ctx.lineTo(LABELS + x, top);
    }
    last = top;
  }
  ctx.lineTo(LABELS + w, last);
  ctx.lineTo(LABELS + w, y + h);
  ctx.fillStyle = theme.soft;
  ctx.globalAlpha = 0.45;
  ctx.fill();
  ctx.globalAlpha = 1;
}

/** The most boxes of one pixel column that are looked at one by one. */
const CROWD = 4;

function drawRow(lane, row, y, h) {
  const { ids, from, to, reach } = row, { t0, t1, hidden } = view, skipsMarks = row.marks.length > 0;
  const scale = plotWidth() / (t1 - t0), searching = matches.text !== "", isMatch = matches.is;
  let crowd = 0;
  for (let at = lowerBound(reach, t0); at < ids.length; at++) {
    if (from[at] > t1) break;
    const i = ids[at];
    if (hidden[T.kind[i]] || (skipsMarks && isMark(i))) continue;
    const x0 = LABELS + (from[at] - t0) * scale, x1 = LABELS + (to[at] - t0) * scale;
    if (x1 - x0 >= 2) {
      flushColumn(y, h);
      drawBox(i, x0, x1, y, h, lane, scale);
      continue;
    }
    const pixel = Math.floor(x0), c = paint(i), match = isMatch[i];
    if (pixel !== column.x) {
      flushColumn(y, h);
      column.x = pixel;
      column.rank = -1;
      crowd = 0;
    }
    // A match outranks the rest of its column, then the longer box does.
    const rank = match ? Infinity : x1 - x0;
    if (rank > column.rank) {
      column.rank = rank;
      column.colour = T.kind[i] === KIND.gap ? packed.grid : searching ? (match ? packed.match : c.packedDim) : c.packedSolid;
    }
    // The next box that reaches beyond this column; a longer one that begins in it is never skipped.
    if (++crowd >= CROWD && !searching) {
      at = Math.max(at, lowerBoundNear(reach, t0 + (pixel + 1 - LABELS) / scale, at) - 1);
      crowd = 0;
    }
  }
  flushColumn(y, h);
  drawMarks(row, y, h, scale);
}

/** Marks: a line at the moment, with a head where there is room. A signal's head points up, any other's down. */
function drawMarks({ marks, markAt }, y, h, scale) {
  const heads = h >= 9, apart = (heads ? 4 : 2) / scale;
  for (let at = lowerBound(markAt, view.t0 - 8 / scale); at < marks.length; at++) {
    const i = marks[at];
    if (markAt[at] > view.t1) break;
    if (view.hidden[T.kind[i]]) continue;
    const x = Math.round(LABELS + (T.end[i] - view.t0) * scale), signal = isSignal(i);
    const c = paint(i), wide = (T.end[i] - left[i]) * scale;
    if (heads) {
      ctx.fillStyle = matches.text ? (matches.is[i] ? theme.match : c.dimSolid) : c.solid;
      if (wide >= 2) ctx.fillRect(x - wide, y + h / 2 - 1, wide, 2);
      ctx.fillRect(x - 1, y, 2, h);
      const base = signal ? y + h : y, tip = signal ? base - 6 : base + 6;
      ctx.beginPath();
      ctx.moveTo(x - 4, base);
      ctx.lineTo(x + 4, base);
      ctx.lineTo(x, tip);
      ctx.fill();
    } else if (x >= LABELS) fillColumn(x, y, h, matches.text ? (matches.is[i] ? packed.match : c.packedDim) : c.packedSolid);
    // Marks that would lie on each other are drawn once.
    if (!matches.text) at = Math.max(at, lowerBoundNear(markAt, markAt[at] + apart, at) - 1);
  }
}

function drawBox(i, from, to, y, h, lane, scale) {
  const c = paint(i), dim = matches.text !== "" && !matches.is[i], kind = T.kind[i];
  const x0 = Math.max(from, LABELS - 3), x1 = Math.min(to, view.width);
  const wide = x1 - x0 > 4, right = wide ? x1 - 0.5 : x1;
  if (kind === KIND.gap || isUnfinished(i)) return drawEmpty(i, x0, x1, y, h, c);
  const middle = lane.kind === LANE.queue ? Math.min(x1, Math.max(x0, LABELS + (T.start[i] - view.t0) * scale)) : x0;
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

/** A gap, or what was not done when the run ended: hatched, in no colour of work. */
function drawEmpty(i, x0, x1, y, h, c) {
  const never = isUnfinished(i);
  ctx.fillStyle = never ? hatch.danger : hatch.soft;
  ctx.globalAlpha = never ? 0.35 : 1;
  ctx.fillRect(x0, y, x1 - x0, h);
  ctx.globalAlpha = 1;
  if (!never && !matches.is[i]) return;
  ctx.strokeStyle = matches.is[i] ? theme.match : theme.danger;
  ctx.lineWidth = 1;
  ctx.setLineDash([4, 3]);
  ctx.strokeRect(Math.round(x0) + 0.5, y + 0.5, Math.max(1, Math.round(x1 - x0) - 1), h - 1);
  ctx.setLineDash([]);
  if (h >= 11) drawText(i, Math.max(x0, LABELS), x1, y, h, theme.ink);
}

/** A recovery is a band over all lanes of its group, with its name on top. */
function drawRecoveries() {
  for (const i of recoveries) {
    if (view.hidden[KIND.recovery] || T.end[i] < view.t0 || T.start[i] > view.t1) continue;
    const group = groups.find((g) => g.lanes.includes(lanes[T.lane[i]]));
    const x0 = Math.max(LABELS, xOf(T.start[i])), x1 = Math.max(x0 + 2, Math.min(view.width, xOf(T.end[i])));
    const y = TOP + group.y - view.y, h = group.bottom - group.y;
    ctx.globalAlpha = 0.3;
    ctx.fillStyle = hatch.danger;
    ctx.fillRect(x0, y, x1 - x0, h);
    ctx.globalAlpha = 1;
    ctx.fillStyle = theme.danger;
    ctx.fillRect(x0, y, 1.5, h);
    ctx.fillRect(x1 - 1.5, y, 1.5, h);
    ctx.fillRect(x0, y, x1 - x0, 3);
    drawText(i, x0, x1, y + 3, GROUP_H - 4, theme.ink);
  }
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
  ctx.fillText(text.length <= room ? text : text.slice(0, room - 1) + "\u2026", x0 + 4, y + h / 2 + 0.5, x1 - x0 - 5);
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
