// What a box is: the panel of the selected one, the tip of the one under the pointer, the legend, the help.
// Text of the trace only ever enters the page as text content, never as markup.

const byId = (id) => document.getElementById(id);

function element(tag, text = "", attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function swatch(colour) {
  const made = document.createElement("i");
  made.style.background = colour.solid;
  made.style.borderColor = colour.edge;
  return made;
}

/** Where a lane is: its band on a page of several traces, its group, its name. */
const placeOf = (lane) => [...(meta.bands.length ? [bands[lane.band].name] : []), lane.group, lane.name].join(" / ");
const place = (i) => placeOf(lanes[T.lane[i]]);

/** What the extra number of a record counts, in the words of the other formats. */
const AMOUNTS = new Map([[KIND.copy, "Bytes"], [KIND.fill, "Bytes"], [KIND.mapWrite, "Bytes"], [KIND.dispatch, "Groups"], [KIND.draw, "Groups"],
  [KIND.submit, "Lists"], [KIND.lost, "Records"], [KIND.recovery, "Code"], [KIND.store, "Stored"], [KIND.flush, "Stored"]]);

function facts(i) {
  const list = [["Kind", meta.kinds[T.kind[i]]]];
  const pending = T.start[i] - T.queued[i], length = T.end[i] - T.start[i];
  if (pending > 0 || onQueue(i)) list.push(["Queued", moment(T.queued[i])], ["Pending", duration(pending)]);
  if (length > 0) {
    list.push([isWait(i) ? "Began to block" : "Start", moment(T.start[i])]);
    list.push([isWait(i) ? "Unblocked" : isSignal(i) ? "Executed" : "End", moment(T.end[i])]);
    list.push([isWait(i) ? "Blocked for" : "Duration", duration(length)]);
  } else list.push(["At", moment(T.start[i])]);
  if (T.fence[i] >= 0) list.push(["Fence", meta.fences[T.fence[i]]], ["Value", valueText(i)]);
  if (T.arg[i] && T.kind[i] === KIND.execute) list.push(["Engine", lanes[T.arg[i] - 1].name]);
  else if (T.arg[i]) list.push([AMOUNTS.get(T.kind[i]) ?? "Amount", argText(i)]);
  if (firstStretch[i] >= 0) list.push(["On the critical path", onPathInWords(i)]);
  return list;
}

function jump(i, what) {
  const text = what ?? `${label(i)} \u00b7 ${lanes[T.lane[i]].name} \u00b7 ${moment(T.end[i])}`;
  const button = element("button", text, { "data-record": i });
  button.onclick = () => reveal(i);
  return button;
}

const MOST_JUMPS = 24;

/** Rows of buttons that lead to the box's signal, its waits, and the other parts of its submission. */
function links(i) {
  const rows = [];
  const row = (text, ids, what) => {
    const made = element("div", "", { class: "links" });
    made.append(element("span", text), ...Array.from(ids.slice(0, MOST_JUMPS), (j) => jump(j, what?.(j))));
    if (ids.length > MOST_JUMPS) made.append(element("span", `and ${ids.length - MOST_JUMPS} more`));
    rows.push(made);
  };
  const part = (j) => `${meta.lane_kinds[lanes[T.lane[j]].kind]} ${lanes[T.lane[j]].name}: ${label(j)} \u00b7 ${moment(T.start[j])}`;
  const others = mates(i);
  if (others.length && T.kind[i] !== KIND.store && T.kind[i] !== KIND.flush) row("Submission", others, part);
  if (T.kind[i] === KIND.flush) row("Makes visible", releasedBy[i] >= 0 ? [releasedBy[i]] : []);
  else if (T.kind[i] === KIND.store) row(releases(i).length ? "Visible to other agents at" : "Never flushed", releases(i));
  else if (isWait(i)) {
    if (releasedBy[i] >= 0) row("Released by", [releasedBy[i]]);
    else row("No recorded signal released it: the value stood from the start, or its record is missing.", []);
  } else if (isSignal(i)) {
    const all = releases(i);
    row(all.length ? `Released ${all.length === 1 ? "one wait" : all.length + " waits"}` : "Released no wait", all);
  }
  if (firstStretch[i] >= 0) {
    const around = [-1, 1].map((by) => neighbourOnPath(i, by));
    row("Critical path", around.filter((j) => j >= 0), (j) => `${j === around[0] ? "before" : "after"}: ${label(j)} \u00b7 ${lanes[T.lane[j]].name}`);
  }
  const found = findingsOf.get(i) ?? [];
  if (found.length) {
    row(found.length === 1 ? "Finding" : "Findings", []);
    rows[rows.length - 1].append(...found.slice(0, MOST_JUMPS).map((number) => findingButton(number, findings[number].title)));
  }
  return rows;
}

function showDetails() {
  const panel = byId("details"), i = view.selected;
  panel.hidden = i < 0 && !view.range && view.finding < 0;
  panel.replaceChildren();
  if (i < 0) return view.range ? showRange(panel) : view.finding >= 0 && showFinding(panel);
  const top = element("div", "", { class: "top" });
  const close = element("button", "\u00d7", { title: "Close (Esc)", "aria-label": "Close" });
  const zoom = element("button", "Zoom to", { title: "Zoom to this box (Z)" });
  const before = element("button", "\u2039", { title: "Previous on this lane ([)", "aria-label": "Previous on this lane" });
  const after = element("button", "\u203a", { title: "Next on this lane (])", "aria-label": "Next on this lane" });
  close.onclick = () => select(-1);
  zoom.onclick = () => zoomToRecord(view.selected);
  before.onclick = () => step(-1);
  after.onclick = () => step(1);
  top.append(swatch(paint(i)), element("b", label(i)), element("span", place(i), { class: "where" }), before, after, zoom, close);
  const list = element("dl", "", { class: "facts", style: "margin:0" });
  for (const [name, text] of facts(i)) {
    const cell = document.createElement("div");
    cell.append(element("dt", name), element("dd", text));
    list.append(cell);
  }
  panel.append(top, list, ...links(i), ...(isWait(i) ? [chainList()] : []));
}

function showTip(i, x, y) {
  const tip = byId("tip");
  const stretch = stretchAt(x, y), strip = stretch >= 0 ? stretchText(stretch) : i < 0 && x >= 0 ? stripText(x, y) : "";
  tip.hidden = i < 0 && !strip;
  if (tip.hidden) return;
  if (strip) tip.replaceChildren(element("b", strip));
  else fillTip(tip, i);
  const roomX = view.width - tip.offsetWidth - 8, roomY = view.height - tip.offsetHeight - 8;
  tip.style.left = `${Math.max(4, Math.min(x + 14, roomX))}px`;
  tip.style.top = `${y + 18 > roomY ? Math.max(4, y - tip.offsetHeight - 10) : y + 18}px`;
}

function fillTip(tip, i) {
  const pending = T.start[i] - T.queued[i], length = T.end[i] - T.start[i];
  const parts = [length > 0 ? `${isWait(i) ? "blocked" : "ran"} ${duration(length)}` : `at ${moment(T.start[i])}`];
  if (pending > 0) parts.unshift(`pending ${duration(pending)}`);
  tip.replaceChildren(element("b", label(i)), element("span", `${meta.kinds[T.kind[i]]} on ${place(i)}: ${parts.join(", ")}`));
}

/** A button of the legend that is pressed while `on` holds. */
function legendButton(text, attributes, on, act) {
  const button = element("button", text, attributes);
  const show = () => button.setAttribute("aria-pressed", String(on()));
  button.onclick = () => (act(), show(), redraw());
  show();
  byId("legend").append(button);
  return button;
}

const MOST_NAMES = 8;

function buildLegend() {
  const legend = byId("legend"), present = new Set(T.kind);
  legend.replaceChildren();
  legend.hidden = !T.n;
  if (workNames.length) {
    legendButton("colour by name", { title: "Colour work by its name, or by its kind", id: "by-name" }, () => byName, () => {
      byName = !byName;
      chooseShades();
      overview = null;
      buildLegend();
    });
  }
  for (const kind of [...present].sort((a, b) => a - b)) {
    const shown = () => !view.hidden[kind];
    const button = legendButton("", { "data-kind": kind, title: "Show or hide" }, shown, () => (view.hidden[kind] ^= 1));
    const special = [KIND.gap, KIND.neverRan, KIND.waitQueued, KIND.signalQueued].includes(kind) ? "hatched" : byName && kind <= KIND.timed && workNames.length ? "many" : "";
    button.append(special ? element("i", "", { class: special }) : swatch(colours[kind]), meta.kinds[kind]);
  }
  if (T.flows) {
    legendButton("\u2197 arrows", { title: STEPS ? "From a store to its flush" : "From a signal to the waits that it released", id: "arrows" }, () => view.arrows, () => (view.arrows = !view.arrows));
  }
  if (lanes.some(hasCounter)) {
    legendButton("depth and load", { title: "How deep each queue is, and how much of the time each engine works", id: "counters" }, () => counters, () => {
      counters = !counters;
      layOut(layoutRoom());
    });
  }
  if (lanes.some((lane) => lane.kind === LANE.queue)) {
    const pair = element("span", "", { class: "pending", title: "On a queue a box runs from queued to executed" });
    const half = document.createElement("i"), colour = colours[KIND.execute];
    half.style.background = `linear-gradient(90deg, ${colour.pending} 50%, ${colour.solid} 50%)`;
    half.style.borderColor = colour.edge;
    pair.append(half, "pending, running");
    legend.append(pair);
  }
  if (byName) for (const { name, ns } of workNames.slice(0, MOST_NAMES)) legend.append(nameButton(meta.names[name], ns, colours[colourOfName[name]]));
  if (byName && workNames.length > MOST_NAMES) legend.append(element("span", `and ${(workNames.length - MOST_NAMES).toLocaleString("en")} more names`, { class: "pending" }));
  if (path.n) legend.append(pathLegend());
  legend.append(element("span", "", { class: "note", id: "note" }));
}

/** The switch of the critical path, and its parts; a click on a part shows the definitions. */
function pathLegend() {
  const group = element("span", "", { class: "group" });
  group.append(legendButton("critical path", { title: "The strip of its parts, and the line along the boxes that took the time", id: "path" }, () => pathShown, () => {
    pathShown = !pathShown;
    layOut(layoutRoom());
  }));
  PARTS.forEach(({ label, colour, meaning }, part) => {
    if (!partSums[part]) return;
    const button = element("button", "", { class: "part-of-path", title: `${label}: ${meaning}` }), mark = element("i");
    mark.style.background = mark.style.borderColor = colour;
    button.append(mark, label);
    button.onclick = () => byId("help").showModal();
    group.append(button);
  });
  return group;
}

/** A name of work in the legend: a click searches for it. */
function nameButton(name, ns, colour) {
  const button = element("button", "", { title: `${name}: ${duration(ns)} in all; click to search`, class: "name" });
  button.append(swatch(colour), element("span", name));
  button.onclick = () => {
    byId("query").value = `name:"${name.replaceAll('"', "")}"`;
    search(byId("query").value);
  };
  return button;
}

function showNote() {
  const note = byId("note");
  if (!note) return;
  const text = hiddenArrows ? `${hiddenArrows.toLocaleString("en")} arrows in view: zoom in` : "";
  if (note.textContent !== text) note.textContent = text;
}

const KEYS = [[meta.bands.length ? "W S, + \u2212, Ctrl+wheel" : "W S, + \u2212, wheel", "zoom in and out"], ["A D, \u2190 \u2192, drag, Shift+wheel", "move in time"],
  ["\u2191 \u2193, Page keys, wheel over names", "scroll lanes"], ["F", "show the whole run"], ["drag on the ruler", "zoom to a range"],
  ["Shift+drag, M", "select a range of time; the range of the selected box"],
  ["click, double click", "details of a box, zoom to it"], ["Z", "zoom to the selected box"], ["[ ]", "previous and next box on the lane"],
  ["/", "search"], ["Enter, Shift+Enter, N", "next and previous match"], ["click on a name", "fold a group, make a lane taller"],
  ["Esc", "close, end the search"], ["?", "this list"]];

function buildHelp() {
  const help = byId("help"), table = document.createElement("table");
  for (const [keys, what] of KEYS) {
    const row = table.insertRow();
    row.insertCell().append(element("kbd", keys));
    row.insertCell().textContent = what;
  }
  const close = element("button", "Close"), parts = document.createElement("table");
  close.onclick = () => help.close();
  for (const { label, colour, meaning } of path.n ? PARTS : []) {
    const row = parts.insertRow(), mark = element("i", "", { class: "mark" });
    mark.style.background = colour;
    row.insertCell().append(mark, label);
    row.insertCell().textContent = meaning;
  }
  const fields = element("p", 'Search words are joined by "and". fence:NAME, kind:wait, lane:NAME, name:TEXT and value:7 look in one place; "quotes" keep blanks together.');
  const defined = path.n ? [element("h2", "Parts of the critical path"), parts] : [];
  help.replaceChildren(element("h2", "Keys"), table, fields, ...defined, close);
}
