// Draws what frames the lanes: names, ruler, overview, scroll bar, the selected range. Finds the box under a point.

function fitted(text, width) {
  if (ctx.measureText(text).width <= width) return text;
  let keep = Math.max(1, Math.floor((text.length * width) / ctx.measureText(text).width));
  while (keep > 1 && ctx.measureText(text.slice(0, keep) + "\u2026").width > width) keep--;
  return text.slice(0, keep) + "\u2026";
}

const narrow = () => LABELS < 150;

function drawLabels() {
  ctx.fillStyle = theme.lane;
  ctx.fillRect(0, TOP, LABELS - 1, view.height - TOP);
  ctx.textBaseline = "middle";
  if (meta.bands.length) bands.forEach(drawBandHeader);
  if (pathShown) bands.forEach(drawPathLabel);
  for (const group of groups) {
    const top = TOP + group.y - view.y;
    if (top > view.height || top + GROUP_H < TOP) continue;
    ctx.fillStyle = theme.panel;
    ctx.fillRect(0, top, LABELS - 1, GROUP_H);
    ctx.fillStyle = theme.ink;
    triangle(12, top + GROUP_H / 2, group.folded);
    ctx.font = `600 12px ${FONT}`;
    const count = narrow() ? "" : group.lanes.length === 1 ? "1 lane" : `${group.lanes.length} lanes`;
    leftAndRight(group.name || "(no group)", count, top + GROUP_H / 2 + 0.5);
  }
  forVisibleLanes(drawLaneLabel);
  ctx.fillStyle = theme.line;
  ctx.fillRect(LABELS - 1, TOP, 1, view.height - TOP);
}

/** A name and, in soft ink, what stands right of it; the name is cut so that the two never meet. */
function leftAndRight(name, right, y) {
  const font = ctx.font;
  ctx.font = `11px ${FONT}`;
  const taken = right ? ctx.measureText(right).width + 8 : 0;
  ctx.textAlign = "right";
  ctx.fillStyle = theme.soft;
  if (right) ctx.fillText(right, LABELS - 7, y);
  ctx.textAlign = "left";
  ctx.font = font;
  ctx.fillStyle = theme.ink;
  ctx.fillText(fitted(name, LABELS - 22 - 7 - taken), 22, y);
}

function drawBandHeader(band) {
  const top = TOP + band.y - view.y;
  if (top > view.height || top + BAND_H < TOP) return;
  ctx.fillStyle = theme.band;
  ctx.fillRect(0, top, view.width - SCROLLBAR, BAND_H);
  ctx.textAlign = "left";
  ctx.font = `700 13px ${FONT}`;
  ctx.fillStyle = theme.ink;
  const text = `${band.name}: makespan ${duration(band.makespan)}`;
  ctx.fillText(fitted(text, view.width - SCROLLBAR - 16), 10, top + BAND_H / 2 + 0.5);
}

function drawPathLabel(band) {
  const top = TOP + band.path - view.y;
  if (top > view.height || top + PATH_H < TOP) return;
  ctx.font = `600 12px ${FONT}`;
  leftAndRight("critical path", "", top + PATH_H / 2);
}

function drawLaneLabel(lane, top) {
  const middle = top + Math.min(lane.h / 2, 60), twoLines = lane.h >= 34 && !narrow();
  const y = twoLines ? middle - 7 : middle;
  ctx.fillStyle = theme.line;
  ctx.fillRect(0, Math.round(top + lane.h) - 1, LABELS - 1, 1);
  const [a, b] = view.range ?? [view.t0, view.t1];
  ctx.font = `12px ${FONT}`;
  leftAndRight(lane.name, STEPS || !lane.busy.to.length ? "" : percent(busyShare(lane, Math.max(a, 0), Math.min(b, T.last))), y);
  drawGlyph(lane.kind, 11, y);
  if (!twoLines) return;
  ctx.font = `10.5px ${FONT}`;
  ctx.fillStyle = theme.soft;
  ctx.textAlign = "left";
  const deep = lane.deepest > 1 ? `, up to ${lane.deepest.toLocaleString("en")} deep` : "";
  ctx.fillText(fitted(meta.lane_kinds[lane.kind] + deep, LABELS - 30), 22, middle + 8);
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
  const [size, unit] = unitFor(step * 5);
  const from = view.t0 + T.origin, first = Math.ceil(from / step) * step;
  const long = from / size >= 100000;
  const base = long ? Math.floor(from / (size * 1000)) * size * 1000 : 0;
  const digits = Math.max(0, Math.round(Math.log10(size) - Math.floor(Math.log10(step) + 1e-9)));
  const list = [];
  for (let t = first; t <= view.t1 + T.origin; t += step) {
    const shown = ((t - base) / size).toFixed(digits);
    list.push({ x: xOf(t - T.origin), text: `${long ? "+" : ""}${STEPS ? "step " : ""}${shown}${STEPS ? "" : " " + unit}` });
  }
  return { list, base: long ? moment(base - T.origin) : "" };
}

function drawRuler(ticks) {
  const y = OVERVIEW_H, range = rangeLabel();
  ctx.fillStyle = theme.panel;
  ctx.fillRect(0, y, view.width, RULER_H);
  ctx.font = `11px ${FONT}`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  for (const { x, text } of ticks.list) {
    if (x < LABELS) continue;
    ctx.fillStyle = theme.soft;
    ctx.fillRect(Math.round(x), y + RULER_H - 7, 1, 7);
    const end = x + 4 + ctx.measureText(text).width, covered = range && x < range.x + range.width + 8 && end > range.x - 4;
    ctx.fillStyle = theme.ink;
    if (end < view.width && !covered) ctx.fillText(text, x + 4, y + 11);
  }
  if (range) {
    ctx.fillStyle = theme.accent;
    ctx.fillRect(range.from, y + RULER_H - 4, range.to - range.from, 4);
    ctx.fillText(range.text, range.x, y + 11);
  }
  ctx.fillStyle = theme.panel;
  ctx.fillRect(0, y, LABELS - 1, RULER_H);
  ctx.fillStyle = theme.soft;
  const inView = duration(view.t1 - view.t0);
  ctx.fillText(fitted(ticks.base ? `from ${ticks.base}` : narrow() ? inView : `${inView} in view`, LABELS - 16), 10, y + 12);
  ctx.fillStyle = theme.line;
  ctx.fillRect(0, y + RULER_H - 1, view.width, 1);
}

/** Where the length of the selected range stands on the ruler; `null` while no range is in view. */
function rangeLabel() {
  if (!view.range) return null;
  const from = Math.max(LABELS, xOf(view.range[0])), to = Math.min(view.width, xOf(view.range[1]));
  if (to < LABELS || from > view.width) return null;
  ctx.font = `11px ${FONT}`;
  const text = duration(view.range[1] - view.range[0]), width = ctx.measureText(text).width;
  return { from, to, text, width, x: Math.max(LABELS + 2, Math.min((from + to - width) / 2, view.width - width - 4)) };
}

/** The selected range over the lanes: what lies outside is dimmed. */
function drawRange() {
  if (!view.range) return;
  const x0 = Math.max(LABELS, xOf(view.range[0])), x1 = Math.min(view.width, xOf(view.range[1]));
  ctx.fillStyle = theme.back;
  ctx.globalAlpha = 0.45;
  ctx.fillRect(LABELS, TOP, x0 - LABELS, view.height - TOP);
  ctx.fillRect(x1, TOP, view.width - x1, view.height - TOP);
  ctx.globalAlpha = 1;
  ctx.fillStyle = theme.accent;
  ctx.fillRect(x0 - 0.5, TOP, 1, view.height - TOP);
  ctx.fillRect(x1 - 0.5, TOP, 1, view.height - TOP);
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
        if (T.kind[i] === KIND.gap || isUnfinished(i)) continue;
        pen.fillStyle = paint(i).solid;
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
  ctx.fillText(fitted(`${narrow() ? "" : "Whole run: "}${duration(T.last)}`, LABELS - 16), 10, OVERVIEW_H / 2);
}

/** The record under a point of the canvas, or -1. A narrow box may be missed by three pixels. */
function hit(x, y) {
  if (x < LABELS || x > view.width - SCROLLBAR || y < TOP) return -1;
  const stretch = stretchAt(x, y);
  if (stretch >= 0) return path.record[stretch];
  const inner = y - TOP + view.y;
  const lane = lanes.find((l) => l.y >= 0 && inner >= l.y && inner < l.y + l.h);
  if (!lane) return recoveryAt(x, inner);
  const number = lane.rows.findIndex((_, row) => inner >= rowTop(lane, row) && inner < rowTop(lane, row) + lane.rowH);
  if (number < 0) return recoveryAt(x, inner);
  const { ids, reach } = lane.rows[number];
  const slack = (3 * (view.t1 - view.t0)) / plotWidth(), t = tOf(x);
  let best = -1, distance = Infinity;
  for (let at = lowerBound(reach, t - slack); at < ids.length && left[ids[at]] <= t + slack; at++) {
    const i = ids[at];
    if (view.hidden[T.kind[i]]) continue;
    const from = T.kind[i] === KIND.signal ? T.end[i] : left[i];
    const off = t < from ? from - t : t > T.end[i] ? t - T.end[i] : 0;
    if (off < distance || (off === distance && T.end[i] - left[i] < T.end[best] - left[best])) (best = i), (distance = off);
  }
  return best < 0 ? recoveryAt(x, inner) : best;
}

/** The recovery whose band lies under a point, or -1. */
function recoveryAt(x, inner) {
  const t = tOf(x);
  return recoveries.find((i) => {
    const group = groups.find((g) => g.lanes.includes(lanes[T.lane[i]]));
    return t >= T.start[i] && t <= T.end[i] && inner >= group.y && inner < group.bottom && !view.hidden[KIND.recovery];
  }) ?? -1;
}

/** What a lane's strip says at a point: the depth of a queue, or the load of an engine; "" beside every strip. */
function stripText(x, y) {
  const inner = y - TOP + view.y, t = tOf(x), pixel = tOf(x + 1) - t;
  const lane = lanes.find((l) => l.strip && l.y >= 0 && inner >= l.y && inner < l.y + l.strip);
  if (!lane || x < LABELS) return "";
  return lane.kind === LANE.queue ? `${lane.name}: ${depthAt(lane, t)} deep` : `${lane.name}: ${percent(busyShare(lane, t, t + pixel))} busy`;
}

/** Shows the time under the pointer, without a redraw. */
function showCursor(x, y) {
  const cursor = byId("cursor");
  cursor.hidden = !T.n || x < LABELS || x > view.width - SCROLLBAR || y < OVERVIEW_H || y > view.height;
  if (cursor.hidden) return;
  cursor.style.transform = `translateX(${Math.round(x)}px)`;
  cursor.firstElementChild.textContent = moment(Math.round(tOf(x)));
  cursor.classList.toggle("flipped", x > view.width - 130);
}
