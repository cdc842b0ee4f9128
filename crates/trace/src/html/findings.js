// Findings of a check: their list, the outlines of their records, and the edges that are missing: a dashed arrow from
// the end of the record that should precede to the start of the one that should follow.

const findings = meta.findings.map(([kind, title, text, records, edges]) => ({ kind, title, text, records, edges }));
/** For each record of a finding, the numbers of its findings. */
const findingsOf = new Map();
findings.forEach(({ records }, number) => records.forEach((i) => findingsOf.set(i, [...(findingsOf.get(i) ?? []), number])));
const MOST_FINDINGS = 24, MOST_EDGES = 100;

function drawFindings() {
  const chosen = findings[view.finding];
  for (const { edges } of findings.slice(0, MOST_EDGES)) for (const [from, to] of edges) missingEdge(from, to, 1.25, "");
  if (!chosen) return;
  for (const i of chosen.records) outline(i, theme.danger, 2.5);
  const said = chosen.kind === "hazard" ? "missing edge" : "cannot pass";
  for (const [from, to] of chosen.edges) missingEdge(from, to, 2.5, said);
}

/** A dashed arrow, and what it says in its middle. */
function missingEdge(from, to, width, said) {
  if (boxTop(from) < 0 || boxTop(to) < 0) return;
  const tail = boxPlace(from), head = boxPlace(to), size = width > 2 ? 9 : 6;
  // What was not done when the run ended has no end.
  const a = { x: xOf(isUnfinished(from) ? left[from] : T.end[from]), y: tail.y + tail.h / 2 }, b = { x: xOf(T.start[to]), y: head.y + head.h / 2 };
  if (Math.max(a.x, b.x) < LABELS || Math.min(a.x, b.x) > view.width || Math.max(a.y, b.y) < TOP || Math.min(a.y, b.y) > view.height) return;
  // It leaves to the right and arrives from the left, whichever of the two comes first.
  const bend = Math.max(30, Math.abs(b.x - a.x) * 0.4), lift = tail.y === head.y ? 26 : 0;
  const c = { x: a.x + bend, y: a.y - lift }, d = { x: b.x - bend, y: b.y - lift };
  const line = (colour, wide, dash) => {
    ctx.strokeStyle = ctx.fillStyle = colour;
    ctx.lineWidth = wide;
    ctx.setLineDash(dash);
    ctx.beginPath();
    ctx.moveTo(a.x, a.y);
    ctx.bezierCurveTo(c.x, c.y, d.x, d.y, b.x - size, b.y);
    ctx.stroke();
    ctx.setLineDash([]);
  };
  // On the boxes that it crosses, the edge of the chosen finding has a rim.
  if (said) line(theme.back, width + 3, []);
  line(theme.danger, width, [7, 4]);
  ctx.beginPath();
  ctx.moveTo(b.x, b.y);
  ctx.lineTo(b.x - size, b.y - size * 0.6);
  ctx.lineTo(b.x - size, b.y + size * 0.6);
  ctx.fill();
  if (said) edgeText(said, (a.x + 3 * c.x + 3 * d.x + b.x) / 8, (a.y + 3 * c.y + 3 * d.y + b.y) / 8);
}

function edgeText(text, x, y) {
  ctx.font = `600 11px ${FONT}`;
  const width = ctx.measureText(text).width + 10, from = Math.max(LABELS + 2, Math.min(x - width / 2, view.width - SCROLLBAR - width - 2));
  ctx.fillStyle = theme.back;
  ctx.fillRect(from, y - 8, width, 16);
  ctx.lineWidth = 1;
  ctx.strokeRect(from + 0.5, y - 8.5, width - 1, 16);
  ctx.fillStyle = theme.danger;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  ctx.fillText(text, from + 5, y);
}

function findingButton(number, text) {
  const button = element("button", text, { "data-finding": number, "aria-pressed": view.finding === number });
  button.onclick = () => revealFinding(number);
  return button;
}

function showFindings() {
  const list = byId("findings");
  list.hidden = !findings.length;
  const head = findings.length === 1 ? "1 finding" : `${findings.length.toLocaleString("en")} findings`;
  const shown = findings.slice(0, MOST_FINDINGS).map(({ title }, number) => findingButton(number, title));
  list.replaceChildren(element("b", head), ...shown);
  if (findings.length > MOST_FINDINGS) list.append(element("span", `and ${(findings.length - MOST_FINDINGS).toLocaleString("en")} more`));
}

/** Chooses a finding and shows all of its records, or none with -1. */
function revealFinding(number) {
  view.finding = findings[number] ? number : -1;
  view.selected = -1;
  view.range = null;
  showFindings();
  showDetails();
  resize();
  const ids = findings[view.finding]?.records ?? [];
  if (!ids.length) return;
  for (const i of ids) groups.find((g) => g.lanes.includes(lanes[T.lane[i]])).folded = false;
  layOut(layoutRoom());
  const from = Math.min(...ids.map((i) => T.start[i])), to = Math.max(...ids.map((i) => T.end[i])), margin = Math.max((to - from) * 0.25, 20);
  zoomTo(from - margin, to + margin);
  const tops = ids.map(boxTop), top = Math.min(...tops), bottom = Math.max(...tops) + ROW, room = view.height - TOP;
  if (top < view.y || bottom > view.y + room) scrollTo(bottom - top > room ? top - 10 : (top + bottom - room) / 2);
}

/** The panel of the chosen finding. */
function showFinding(panel) {
  const { kind, title, text, records } = findings[view.finding];
  const top = element("div", "", { class: "top" }), close = element("button", "\u00d7", { title: "Close (Esc)", "aria-label": "Close" });
  close.onclick = () => revealFinding(-1);
  top.append(element("b", title), element("span", kind, { class: "where" }), close);
  const row = element("div", "", { class: "links" });
  row.append(element("span", records.length ? "On the timeline" : "None of its records is on the timeline."), ...records.slice(0, MOST_JUMPS).map((i) => jump(i)));
  panel.append(top, element("pre", text, { class: "text" }), row);
}
