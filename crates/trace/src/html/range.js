// The selected range of time: its sums per lane and per name of work, in the panel below the lanes.

/** Selects the times from `a` to `b`, or nothing. */
function selectRange(a, b) {
  const from = Math.max(0, Math.min(a, b)), to = Math.min(T.last, Math.max(a, b));
  view.range = to > from ? [from, to] : null;
  view.selected = -1;
  showDetails();
  resize();
}

function clearRange() {
  view.range = null;
  showDetails();
  resize();
}

/** The range of the selected box. */
function rangeOfSelected() {
  if (view.selected >= 0) selectRange(left[view.selected], T.end[view.selected]);
}

function table(head, rows) {
  const made = document.createElement("table"), first = made.insertRow();
  for (const text of head) first.append(element("th", text));
  for (const row of rows) {
    const line = made.insertRow();
    for (const cell of row) (cell instanceof Node ? line.insertCell().append(cell) : (line.insertCell().textContent = cell));
  }
  return made;
}

const MOST_ROWS = 60;

function showRange(panel) {
  const [a, b] = view.range, { rows, names } = sumsOf(a, b), length = b - a;
  const top = element("div", "", { class: "top" });
  const zoom = element("button", "Zoom to", { title: "Zoom to this range" }), close = element("button", "\u00d7", { title: "Close (Esc)", "aria-label": "Close" });
  zoom.onclick = () => zoomTo(a, b);
  close.onclick = clearRange;
  top.append(element("b", duration(length)), element("span", `from ${moment(a)} to ${moment(b)}`, { class: "where" }), zoom, close);
  const share = (ns) => (ns ? percent(ns / length) : "");
  const time = (ns) => (ns ? duration(ns) : "");
  const perLane = table(["Lane", "Boxes", "Busy", "", "Waiting", ""],
    rows.slice(0, MOST_ROWS).map(({ lane, count, busy, waiting }) => [placeOf(lane), count.toLocaleString("en"), time(busy), share(busy), time(waiting), share(waiting)]));
  const perName = table(["Work on engines", "Boxes", "Sum", "Mean"], names.slice(0, MOST_ROWS).map(({ name, count, ns, first }) => {
    const cell = element("span", "", { class: "named" });
    cell.append(swatch(paint(first)), name);
    return [cell, count.toLocaleString("en"), duration(ns), duration(ns / count)];
  }));
  const tables = element("div", "", { class: "sums" });
  tables.append(perLane, ...(names.length ? [perName] : []));
  panel.append(top, tables);
}
