// Puts the page together: title, verdict, listeners, first view. Runs last.

readTheme();
byId("title").textContent = document.title = meta.title || "timeline";
byId("summary").textContent = `${meta.clock} \u00b7 ${T.n.toLocaleString("en")} records \u00b7 ${T.n ? duration(T.last) : "empty"}`;
if (meta.lost !== "0") {
  byId("banner").hidden = false;
  byId("banner").textContent = `${BigInt(meta.lost).toLocaleString("en")} records were lost: boxes and arrows are missing from this timeline.`;
}
byId("verdict").hidden = !meta.verdict.length;
byId("verdict").replaceChildren(...meta.verdict.map((sentence) => element("p", sentence)));
byId("empty").hidden = T.n > 0;
showFindings();
buildLegend();
buildHelp();

canvas.addEventListener("pointerdown", pressed);
canvas.addEventListener("pointermove", moved);
canvas.addEventListener("pointerup", released);
canvas.addEventListener("pointercancel", () => (drag = null));
canvas.addEventListener("pointerleave", () => (showCursor(-1, -1), drag || hovered(-1, -1)));
canvas.addEventListener("wheel", wheeled, { passive: false });
canvas.addEventListener("dblclick", (event) => {
  const { x, y } = point(event);
  zoomToRecord(hit(x, y));
});
document.addEventListener("keydown", keyed);
byId("query").addEventListener("input", (event) => search(event.target.value));
byId("next").onclick = () => nextMatch(1);
byId("previous").onclick = () => nextMatch(-1);
byId("fit").onclick = fit;
byId("zoom-in").onclick = ACTIONS.w;
byId("zoom-out").onclick = ACTIONS.s;
byId("range").onclick = () => byId("range").setAttribute("aria-pressed", String(!rangeButton()));
byId("help-button").onclick = () => byId("help").showModal();
new ResizeObserver(resize).observe(byId("stage"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  readTheme();
  buildLegend();
  showDetails();
  redraw();
});

resize();
fit();
draw();
showNote();

/** For tests: the same doors that the events go through. Times are nanoseconds since the first record. */
window.tidegate = { redrawMedianMs, search, zoomTo, select: reveal, selectRange, revealFinding, fit, nextMatch, zoomToRecord,
  view: () => ({ t0: view.t0, t1: view.t1, selected: view.selected, range: view.range, matches: matches.ids.length }) };

/** A page can be opened at a place: `#view=FROM,TO`, `#range=FROM,TO` (since the first record), `#search=TEXT`,
 * `#select=INDEX`, `#finding=NUMBER` (from 1). */
function openAt(place) {
  if (place.has("search")) {
    byId("query").value = place.get("search");
    search(place.get("search"));
    nextMatch(1);
  }
  if (place.has("select")) reveal(Number(place.get("select")) || 0);
  if (place.has("finding")) revealFinding(Number(place.get("finding")) - 1);
  const pair = (name) => (place.get(name) ?? "").split(",").map(Number);
  const [from, to] = pair("view"), [a, b] = pair("range");
  if (b > a) selectRange(a, b);
  if (to > from) zoomTo(from, to);
}

if (location.hash === "#selftest") selftest();
else if (T.n) openAt(new URLSearchParams(location.hash.slice(1)));
draw();
pageIsDrawn();
