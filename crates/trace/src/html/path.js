// The critical path: a strip of its parts above the lanes of a band, and on the lanes a line along the boxes that took
// the time, in the colours of the parts. Both are drawn while `pathShown`.
// - A redraw costs what is on the screen: stretches of one pixel are merged, and the rest of a crowded pixel is skipped.

const path = T.path;
const PARTS = meta.parts.map(([label, colour, meaning]) => ({ label, colour, meaning }));
/** The stretches of a record: the first and the last one, or -1. */
const firstStretch = new Int32Array(T.n).fill(-1), lastStretch = new Int32Array(T.n).fill(-1);
/** The time of the path that each record took. */
const timeOnPath = new Float64Array(T.n);
for (let s = 0; s < path.n; s++) {
  const i = path.record[s];
  if (i < 0) continue;
  if (firstStretch[i] < 0) firstStretch[i] = s;
  lastStretch[i] = s;
  timeOnPath[i] += path.to[s] - path.from[s];
}

const bandOfStretch = (s) => path.first.findIndex((first) => first > s) - 1;
/** What took the time of a stretch: a record, else a lane between its records, else nothing. */
const takerOf = (s) => (path.record[s] >= 0 ? `${label(path.record[s])} on ${place(path.record[s])}` : path.lane[s] >= 0 ? `${placeOf(lanes[path.lane[s]])}, between its calls` : "nothing on the timeline");

/** Calls `act` with each stretch of a band in view and its ends on the canvas, and with one stretch of a crowded pixel. */
function forPathInView(band, act) {
  const scale = plotWidth() / (view.t1 - view.t0), stop = path.first[band + 1];
  for (let s = lowerBound(path.to, view.t0, path.first[band], stop); s < stop && path.from[s] <= view.t1; ) {
    let longest = s, next = s + 1;
    const x0 = LABELS + (path.from[s] - view.t0) * scale, edge = view.t0 + (Math.floor(x0) + 1 - LABELS) / scale;
    for (; next < stop && next < s + CROWD && path.to[next] <= edge; next++) {
      if (path.to[next] - path.from[next] > path.to[longest] - path.from[longest]) longest = next;
    }
    if (next === s + CROWD) next = lowerBoundNear(path.to, edge, next - 1) + 1;
    next = Math.min(next, stop);
    act(longest, x0, LABELS + (path.to[next - 1] - view.t0) * scale, next - s > 1);
    s = next;
  }
}

function drawPath() {
  if (!pathShown) return;
  bands.forEach((band, number) => {
    drawPathLine(number);
    drawPathStrip(band, number);
  });
}

function drawPathStrip(band, number) {
  const y = TOP + band.path - view.y + 3, h = PATH_H - 8;
  if (y > view.height || y + h < TOP) return;
  ctx.font = `11px ${FONT}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  forPathInView(number, (s, from, to) => {
    const x0 = Math.max(from, LABELS - 1), x1 = Math.min(to, view.width), part = PARTS[path.part[s]];
    ctx.fillStyle = part.colour;
    ctx.fillRect(x0, y, Math.max(1, x1 - x0 - (x1 - x0 > 4 ? 1 : 0)), h);
    if (x1 - x0 < 30) return;
    // A text that would be cut is left out.
    const fits = (text) => ctx.measureText(text).width <= x1 - x0 - 8;
    const text = [`${part.label} ${duration(path.to[s] - path.from[s])}`, part.label].find(fits);
    ctx.fillStyle = "#ffffff";
    if (text) ctx.fillText(text, x0 + 4, y + h / 2 + 0.5);
  });
}

/** The line along the boxes. It is left out where a stretch is too narrow to be seen. */
function drawPathLine(number) {
  let before = null;
  forPathInView(number, (s, x0, x1, merged) => {
    const here = merged || x1 - x0 < 2 ? null : pathPlace(s);
    if (before && here && Math.abs(before.y - here.y) > 1) pathStep(x0, before.y, here.y);
    if (here) pathBar(x0, x1, here.y, PARTS[path.part[s]].colour);
    before = here;
  });
}

function pathBar(x0, x1, y, colour) {
  const from = Math.max(x0, LABELS - 4), to = Math.min(x1, view.width);
  ctx.fillStyle = theme.back;
  ctx.fillRect(from, y - 3, to - from, 1);
  ctx.fillStyle = colour;
  ctx.fillRect(from, y - 2, to - from, 4);
}

/** From one lane to the next: the moment at which the path goes on elsewhere. */
function pathStep(x, from, to) {
  ctx.fillStyle = theme.back;
  ctx.fillRect(x - 1.75, Math.min(from, to), 3.5, Math.abs(to - from));
  ctx.fillStyle = theme.ink;
  ctx.fillRect(x - 0.75, Math.min(from, to), 1.5, Math.abs(to - from));
}

/** Where the line of a stretch runs: along the lower edge of its box, or at the foot of its lane; `null` in a folded group. */
function pathPlace(s) {
  const i = path.record[s];
  if (i >= 0 && !view.hidden[T.kind[i]] && boxTop(i) >= 0) {
    const { y, h } = boxPlace(i);
    return { y: y + h };
  }
  const lane = path.lane[s] >= 0 ? lanes[path.lane[s]] : null;
  return lane && lane.y >= 0 ? { y: TOP + lane.y + lane.h - LANE_GAP - view.y } : null;
}

/** The stretch under a point of a strip, or -1. */
function stretchAt(x, y) {
  if (!pathShown || x < LABELS || x > view.width - SCROLLBAR || y < TOP) return -1;
  const inner = y - TOP + view.y, number = bands.findIndex((band) => inner >= band.path && inner < band.path + PATH_H);
  if (number < 0) return -1;
  const stop = path.first[number + 1], s = lowerBound(path.to, tOf(x), path.first[number], stop);
  return s < stop && path.from[s] <= tOf(x) ? s : -1;
}

const stretchText = (s) => `${PARTS[path.part[s]].label} ${duration(path.to[s] - path.from[s])}: ${takerOf(s)}`;

/** The record before or after the stretches of a record on the path, past time without a record; -1 at the ends. */
function neighbourOnPath(i, by) {
  const band = bandOfStretch(firstStretch[i]), first = path.first[band], stop = path.first[band + 1];
  for (let s = (by < 0 ? firstStretch : lastStretch)[i] + by; s >= first && s < stop; s += by) if (path.record[s] >= 0 && path.record[s] !== i) return path.record[s];
  return -1;
}

/** The time of a record on the path by part, as text. */
function onPathInWords(i) {
  const sums = new Map();
  for (let s = firstStretch[i]; s <= lastStretch[i]; s++) {
    if (path.record[s] === i) sums.set(path.part[s], (sums.get(path.part[s]) ?? 0) + path.to[s] - path.from[s]);
  }
  return [...sums].map(([part, ns]) => `${PARTS[part].label} ${duration(ns)}`).join(", ");
}

/** The sum of each part over all bands. */
const partSums = PARTS.map((_, part) => {
  let sum = 0;
  for (let s = 0; s < path.n; s++) if (path.part[s] === part) sum += path.to[s] - path.from[s];
  return sum;
});
