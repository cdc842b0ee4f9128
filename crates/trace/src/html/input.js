// What a reader does: zoom, pan, scroll, search, select, fold. Everything that changes the view is here, and asks for
// a redraw; nothing here draws.

const MIN_SPAN = 5;

let asked = false;
function redraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    draw();
    showNote();
  });
}

/** Shows the times from `a` to `b`; the view always overlaps the run. */
function zoomTo(a, b) {
  const limit = Math.max(T.last, MIN_SPAN) * 1.5;
  let span = Math.min(Math.max(b - a, MIN_SPAN), limit), from = (a + b - span) / 2;
  from = Math.min(Math.max(from, -span * 0.5), Math.max(T.last, MIN_SPAN) - span * 0.5);
  view.t0 = from;
  view.t1 = from + span;
  redraw();
}

function fit() {
  const last = Math.max(T.last, MIN_SPAN);
  zoomTo(-last * 0.01, last * 1.02);
}

/** Zooms by `factor` (less than 1 is closer) and keeps the time at `x` where it is. */
function zoomAt(x, factor) {
  const t = tOf(x);
  zoomTo(t - (t - view.t0) * factor, t + (view.t1 - t) * factor);
}

const panBy = (pixels) => {
  const dt = (pixels / plotWidth()) * (view.t1 - view.t0);
  zoomTo(view.t0 + dt, view.t1 + dt);
};

/** The height that lanes are laid out for: that of the window without the details, lest a box moves when it is clicked. */
const layoutRoom = () => view.height - TOP + byId("details").offsetHeight;

function scrollTo(y) {
  view.y = Math.max(0, Math.min(y, scrollable()));
  redraw();
}

function select(i) {
  if (i < 0 && view.selected < 0) view.range = null;
  view.selected = i >= 0 && i < T.n ? i : -1;
  showDetails();
  resize();
}

/** Selects a record and brings it into view, unfolding its group where need be; the zoom stays unless it is too far off. */
function reveal(i) {
  const lane = lanes[T.lane[i]], group = groups.find((g) => g.lanes.includes(lane));
  if (group.folded) {
    group.folded = false;
    layOut(layoutRoom());
  }
  select(i);
  const span = view.t1 - view.t0, length = T.end[i] - left[i];
  if (left[i] < view.t0 || T.end[i] > view.t1) {
    const wanted = length > span * 0.8 ? length * 1.6 : span, middle = (left[i] + T.end[i]) / 2;
    zoomTo(middle - wanted / 2, middle + wanted / 2);
  }
  const top = boxTop(i), room = view.height - TOP;
  if (top < view.y + 10 || top + lane.rowH > view.y + room - 10) scrollTo(top - room / 2);
}

function zoomToRecord(i) {
  if (i < 0) return;
  reveal(i);
  const margin = Math.max((T.end[i] - left[i]) * 0.6, 20);
  zoomTo(left[i] - margin, T.end[i] + margin);
}

/** Selects the box before or after the selected one on its lane. */
function step(by) {
  const i = view.selected;
  if (i < 0) return;
  for (let j = i + by; j >= 0 && j < T.n; j += by) {
    if (T.lane[j] === T.lane[i] && !view.hidden[T.kind[j]]) return reveal(j);
  }
}

function search(text) {
  const found = findMatches(text);
  showMatches();
  redraw();
  return found;
}

function showMatches() {
  const { text, ids, at } = matches;
  byId("matches").textContent = !text ? "" : !ids.length ? "no match" : at < 0 ? `${ids.length.toLocaleString("en")} found` : `${(at + 1).toLocaleString("en")} / ${ids.length.toLocaleString("en")}`;
}

/** Goes to the next match (or the previous, with -1), the first time to the one nearest to what is in view. */
function nextMatch(by) {
  const { ids } = matches;
  if (!ids.length) return;
  if (matches.at < 0) {
    const first = ids.findIndex((i) => T.end[i] >= view.t0);
    matches.at = first < 0 ? 0 : first;
  } else matches.at = (matches.at + by + ids.length) % ids.length;
  showMatches();
  reveal(ids[matches.at]);
}

function fold(group) {
  group.folded = !group.folded;
  layOut(layoutRoom());
  scrollTo(view.y);
}

function clickLabel(y) {
  const inner = y - TOP + view.y;
  const group = groups.find((g) => inner >= g.y && inner < g.y + GROUP_H);
  if (group) return fold(group);
  const lane = lanes.find((l) => l.y >= 0 && inner >= l.y && inner < l.y + l.h);
  if (!lane) return;
  lane.tall = !lane.tall;
  layOut(layoutRoom());
  scrollTo(view.y);
}

// The pointer. A drag is a pan, unless it began on the ruler (zoom to a range), the overview (move the window) or the
// scroll bar; a press that did not move is a click.
let drag = null;

function point(event) {
  const box = canvas.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

function pressed(event) {
  const { x, y } = point(event);
  const part = y < OVERVIEW_H ? "overview" : y < TOP ? "ruler" : x > view.width - SCROLLBAR ? "bar" : x < LABELS ? "labels" : event.shiftKey || rangeButton() ? "range" : "plot";
  drag = { part, x, y, lastX: x, lastY: y, moved: false };
  if (part === "overview" && x >= LABELS) centreOverview(x);
  // A pointer that a script made up cannot be captured.
  if (event.isTrusted) canvas.setPointerCapture(event.pointerId);
}

function centreOverview(x) {
  const t = ((x - LABELS) / plotWidth()) * T.last, half = (view.t1 - view.t0) / 2;
  zoomTo(t - half, t + half);
}

function moved(event) {
  const { x, y } = point(event);
  showCursor(x, y);
  if (!drag) return hovered(x, y);
  if (Math.abs(x - drag.x) + Math.abs(y - drag.y) > 3) drag.moved = true;
  if (!drag.moved) return;
  if (drag.part === "range") {
    view.range = [Math.min(tOf(drag.x), tOf(x)), Math.max(tOf(drag.x), tOf(x))];
    byId("tip").hidden = true;
    redraw();
  } else if (drag.part === "plot" || drag.part === "labels") {
    if (drag.part === "plot") panBy(drag.lastX - x);
    scrollTo(view.y + drag.lastY - y);
    byId("tip").hidden = true;
  } else if (drag.part === "overview") centreOverview(x);
  else if (drag.part === "bar") scrollTo(view.y + ((y - drag.lastY) * contentHeight) / (view.height - TOP));
  drag.lastX = x;
  drag.lastY = y;
}

function hovered(x, y) {
  const i = hit(x, y);
  showTip(i, x, y);
  const pointsAt = i >= 0 || (x < LABELS && y > TOP);
  canvas.style.cursor = pointsAt ? "pointer" : y > OVERVIEW_H && y < TOP ? "col-resize" : "default";
  if (i !== view.hover) {
    view.hover = i;
    redraw();
  }
}

/** A drag over the lanes selects a range while Shift is held or the button for it is pressed. */
const rangeButton = () => byId("range").getAttribute("aria-pressed") === "true";

function released(event) {
  const was = drag, { x, y } = point(event);
  drag = null;
  if (!was) return;
  if (was.part === "ruler" && was.moved && was.x >= LABELS) return zoomTo(Math.min(tOf(was.x), tOf(x)), Math.max(tOf(was.x), tOf(x)));
  if (was.part === "range" && was.moved) return selectRange(tOf(was.x), tOf(x));
  if (was.moved) return;
  if (was.part === "labels") clickLabel(y);
  if (was.part === "plot" || was.part === "range") select(hit(x, y));
}

/** On a page of several traces Ctrl+wheel zooms. The plain wheel scrolls the lanes, and the page where they end. */
function wheeled(event) {
  if (meta.bands.length && !event.ctrlKey && !event.shiftKey) {
    const before = view.y;
    scrollTo(view.y + event.deltaY * (event.deltaMode === 1 ? 20 : 1));
    if (view.y !== before) event.preventDefault();
    return;
  }
  event.preventDefault();
  const { x, y } = point(event), unit = event.deltaMode === 1 ? 20 : 1;
  const dx = event.deltaX * unit, dy = event.deltaY * unit;
  if (x < LABELS && y > TOP) return scrollTo(view.y + dy);
  if (event.shiftKey) return panBy(dy || dx);
  if (Math.abs(dx) > Math.abs(dy)) return panBy(dx);
  zoomAt(Math.max(x, LABELS), Math.exp(Math.max(-1, Math.min(1, dy * 0.0022))));
}

const centre = () => LABELS + plotWidth() / 2;
const ACTIONS = {
  w: () => zoomAt(centre(), 0.7), "+": () => zoomAt(centre(), 0.7), "=": () => zoomAt(centre(), 0.7),
  s: () => zoomAt(centre(), 1 / 0.7), "-": () => zoomAt(centre(), 1 / 0.7), _: () => zoomAt(centre(), 1 / 0.7),
  a: () => panBy(-120), arrowleft: () => panBy(-120), d: () => panBy(120), arrowright: () => panBy(120),
  arrowup: () => scrollTo(view.y - 40), arrowdown: () => scrollTo(view.y + 40),
  pageup: () => scrollTo(view.y - (view.height - TOP) * 0.8), pagedown: () => scrollTo(view.y + (view.height - TOP) * 0.8),
  f: fit, 0: fit, home: fit, m: rangeOfSelected, z: () => zoomToRecord(view.selected), "[": () => step(-1), "]": () => step(1),
  enter: () => nextMatch(1), n: () => nextMatch(1), "/": () => byId("query").focus(), "?": () => byId("help").showModal(),
  escape: () => (view.selected >= 0 ? select(-1) : view.range ? clearRange() : view.finding >= 0 ? revealFinding(-1) : ((byId("query").value = ""), search(""))),
};

function keyed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
  if (event.target === byId("query")) return keyedInSearch(event);
  if (event.target instanceof HTMLButtonElement && (event.key === "Enter" || event.key === " ")) return;
  if (event.shiftKey && (event.key === "Enter" || event.key === "N")) nextMatch(-1);
  else {
    const action = ACTIONS[event.key.toLowerCase()];
    if (!action) return;
    action();
  }
  event.preventDefault();
}

function keyedInSearch(event) {
  if (event.key === "Enter") nextMatch(event.shiftKey ? -1 : 1);
  else if (event.key === "Escape") {
    byId("query").value = "";
    search("");
    canvas.focus();
  } else return;
  event.preventDefault();
}

function resize() {
  const box = byId("stage").getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
  const width = Math.max(300, box.width), height = Math.max(120, box.height);
  const changed = width !== view.width || height !== view.height;
  if (changed) {
    view.width = width;
    view.height = height;
    LABELS = width < 640 ? 116 : 190;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    layOut(layoutRoom());
  }
  view.y = Math.max(0, Math.min(view.y, scrollable()));
  // A canvas of another size is empty: it is drawn before the next picture is shown.
  if (changed) draw();
  redraw();
}
