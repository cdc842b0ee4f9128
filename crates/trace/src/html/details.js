// What a box is: the panel of the selected one, the tip of the one under the pointer, the legend, the help.
// Text of the trace only ever enters the page as text content, never as markup.

const byId = (id) => document.getElementById(id);

function element(tag, text = "", attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function swatch(kind) {
  const made = document.createElement("i");
  made.style.background = colours[kind].solid;
  made.style.borderColor = colours[kind].edge;
  return made;
}

const place = (i) => `${lanes[T.lane[i]].group} / ${lanes[T.lane[i]].name}`;

function facts(i) {
  const list = [["Kind", meta.kinds[T.kind[i]]]];
  const pending = T.start[i] - T.queued[i], length = T.end[i] - T.start[i];
  const onQueue = lanes[T.lane[i]].kind === LANE.queue;
  if (pending > 0 || onQueue) list.push(["Queued", moment(T.queued[i])], ["Pending", duration(pending)]);
  if (length > 0) {
    list.push([isWait(i) ? "Began to block" : "Start", moment(T.start[i])]);
    list.push([isWait(i) ? "Unblocked" : isSignal(i) ? "Executed" : "End", moment(T.end[i])]);
    list.push([isWait(i) ? "Blocked for" : "Duration", duration(length)]);
  } else list.push(["At", moment(T.start[i])]);
  if (T.fence[i] >= 0) list.push(["Fence", meta.fences[T.fence[i]]], ["Value", valueText(i)]);
  if (T.arg[i]) list.push([T.kind[i] === KIND.copy || T.kind[i] === KIND.mapWrite ? "Bytes" : "Argument", argText(i)]);
  return list;
}

function jump(i) {
  const button = element("button", `${label(i)} \u00b7 ${lanes[T.lane[i]].name} \u00b7 ${moment(T.end[i])}`, { "data-record": i });
  button.onclick = () => reveal(i);
  return button;
}

function links(i) {
  const row = element("div", "", { class: "links" });
  if (isWait(i)) {
    if (releasedBy[i] >= 0) row.append(element("span", "Released by"), jump(releasedBy[i]));
    else row.append(element("span", "No recorded signal released it: the value stood from the start, or its record is missing."));
  } else if (isSignal(i)) {
    const all = releases.subarray(firstRelease[i], firstRelease[i + 1]);
    row.append(element("span", all.length ? `Released ${all.length === 1 ? "one wait" : all.length + " waits"}` : "Released no wait"));
    row.append(...Array.from(all.subarray(0, 24), jump));
    if (all.length > 24) row.append(element("span", `and ${all.length - 24} more`));
  }
  return row;
}

function showDetails() {
  const panel = byId("details"), i = view.selected;
  panel.hidden = i < 0;
  panel.replaceChildren();
  if (i < 0) return;
  const top = element("div", "", { class: "top" });
  const close = element("button", "\u00d7", { title: "Close (Esc)", "aria-label": "Close" });
  const zoom = element("button", "Zoom to", { title: "Zoom to this box (Z)" });
  const before = element("button", "\u2039", { title: "Previous on this lane ([)", "aria-label": "Previous on this lane" });
  const after = element("button", "\u203a", { title: "Next on this lane (])", "aria-label": "Next on this lane" });
  close.onclick = () => select(-1);
  zoom.onclick = () => zoomToRecord(view.selected);
  before.onclick = () => step(-1);
  after.onclick = () => step(1);
  top.append(swatch(T.kind[i]), element("b", label(i)), element("span", place(i), { class: "where" }), before, after, zoom, close);
  const list = element("dl", "", { class: "facts", style: "margin:0" });
  for (const [name, text] of facts(i)) {
    const cell = document.createElement("div");
    cell.append(element("dt", name), element("dd", text));
    list.append(cell);
  }
  panel.append(top, list, links(i));
}

function showTip(i, x, y) {
  const tip = byId("tip");
  tip.hidden = i < 0;
  if (i < 0) return;
  const pending = T.start[i] - T.queued[i], length = T.end[i] - T.start[i];
  const parts = [length > 0 ? `${isWait(i) ? "blocked" : "ran"} ${duration(length)}` : `at ${moment(T.start[i])}`];
  if (pending > 0) parts.unshift(`pending ${duration(pending)}`);
  tip.replaceChildren(element("b", label(i)), element("span", `${meta.kinds[T.kind[i]]} on ${place(i)}: ${parts.join(", ")}`));
  const roomX = view.width - tip.offsetWidth - 8, roomY = view.height - tip.offsetHeight - 8;
  tip.style.left = `${Math.max(4, Math.min(x + 14, roomX))}px`;
  tip.style.top = `${y + 18 > roomY ? Math.max(4, y - tip.offsetHeight - 10) : y + 18}px`;
}

function buildLegend() {
  const legend = byId("legend"), present = new Set(T.kind);
  legend.replaceChildren();
  for (const kind of [...present].sort((a, b) => a - b)) {
    const button = element("button", "", { "aria-pressed": view.hidden[kind] ? "false" : "true", "data-kind": kind, title: "Show or hide" });
    button.append(swatch(kind), meta.kinds[kind]);
    button.onclick = () => {
      view.hidden[kind] ^= 1;
      button.setAttribute("aria-pressed", view.hidden[kind] ? "false" : "true");
      redraw();
    };
    legend.append(button);
  }
  if (T.flows) {
    const button = element("button", "\u2197 arrows", { title: "From a signal to the waits that it released", "aria-pressed": String(view.arrows), id: "arrows" });
    button.onclick = () => {
      view.arrows = !view.arrows;
      button.setAttribute("aria-pressed", String(view.arrows));
      redraw();
    };
    legend.append(button);
  }
  if (lanes.some((lane) => lane.kind === LANE.queue)) {
    const pair = element("span", "", { class: "pending", title: "On a queue a box runs from queued to executed" });
    const half = document.createElement("i");
    half.style.background = `linear-gradient(90deg, ${colours[KIND.draw].pending} 50%, ${colours[KIND.draw].solid} 50%)`;
    half.style.borderColor = colours[KIND.draw].edge;
    pair.append(half, "pending, running");
    legend.append(pair);
  }
  legend.append(element("span", "", { class: "note", id: "note" }));
  legend.hidden = !T.n;
}

function showNote() {
  const note = byId("note");
  if (!note) return;
  const text = hiddenArrows ? `${hiddenArrows.toLocaleString("en")} arrows in view: zoom in` : "";
  if (note.textContent !== text) note.textContent = text;
}

const KEYS = [["W S, + \u2212, wheel", "zoom in and out"], ["A D, \u2190 \u2192, drag, Shift+wheel", "move in time"],
  ["\u2191 \u2193, Page keys, wheel over names", "scroll lanes"], ["F", "show the whole run"], ["drag on the ruler", "zoom to a range"],
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
  const close = element("button", "Close");
  close.onclick = () => help.close();
  const fields = element("p", 'Search words are joined by "and". fence:NAME, kind:wait, lane:NAME, name:TEXT and value:7 look in one place; "quotes" keep blanks together.');
  help.replaceChildren(element("h2", "Keys"), table, fields, close);
}
