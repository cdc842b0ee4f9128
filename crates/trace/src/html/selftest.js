// The page checks itself: it does what a reader does, through the same events, and writes down what came of it.
// Runs when the page is opened with `#selftest`, before the page counts as loaded.

/** Milliseconds of each of `n` redraws, reading one pixel back so that painting is done and not only asked for. */
function redrawTimes(n, change) {
  const times = [];
  for (let i = 0; i < n; i++) {
    change(i);
    const from = performance.now();
    draw();
    ctx.getImageData(0, 0, 1, 1);
    times.push(performance.now() - from);
  }
  return times.sort((a, b) => a - b);
}

/** The median of `n` redraws of the whole run, which is the most there is to draw; each is shifted a little. */
function redrawMedianMs(n = 100) {
  const kept = { t0: view.t0, t1: view.t1 };
  fit();
  const { t0, t1 } = view, nudge = (t1 - t0) / plotWidth();
  const times = redrawTimes(n, (i) => ((view.t0 = t0 + (i % 7) * nudge), (view.t1 = t1 + (i % 7) * nudge)));
  zoomTo(kept.t0, kept.t1);
  return times[times.length >> 1];
}

/** The median of `n` redraws while zooming from the whole run to a thousandth of it. */
function zoomMedianMs(n) {
  const middle = T.last / 2;
  const times = redrawTimes(n, (i) => {
    const half = (T.last / 2) * 1000 ** (-i / n);
    (view.t0 = middle - half), (view.t1 = middle + half);
  });
  fit();
  return times[times.length >> 1];
}

const press = (key, target = document.body) => target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
function pointer(type, x, y, more = {}) {
  const box = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new PointerEvent(type, { clientX: box.left + x, clientY: box.top + y, bubbles: true, pointerId: 1, ...more }));
}
function wheel(x, y, deltaY, more = {}) {
  const box = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new WheelEvent("wheel", { clientX: box.left + x, clientY: box.top + y, deltaY, cancelable: true, ...more }));
}
const span = () => view.t1 - view.t0;
const near = (a, b) => Math.abs(a - b) <= 1e-6 * Math.max(1, Math.abs(a), Math.abs(b));

/** Two texts of one drawing that lie on each other; "" where there are none. */
function overlappingTexts() {
  const texts = [];
  ctx.fillText = (text, x, y, most = Infinity) => {
    const width = Math.min(ctx.measureText(text).width, most), from = ctx.textAlign === "right" ? x - width : x;
    texts.push({ text, from, to: from + width, y });
  };
  draw();
  delete ctx.fillText;
  for (const a of texts) for (const b of texts) {
    if (a !== b && Math.abs(a.y - b.y) < 9 && a.from < b.to - 1 && b.from < a.to - 1) return `'${a.text}' lies on '${b.text}'`;
  }
  return "";
}

const CHECKS = {
  "every record is decoded"() {
    return T.n === meta.records && T.end.every((end, i) => end >= T.start[i] && T.start[i] >= T.queued[i]);
  },
  "every kind has its number and its colour"() {
    const numbered = Object.entries(KIND).every(([name, number]) => {
      const words = name.replace(/[A-Z]/g, (c) => " " + c.toLowerCase()), shown = meta.kinds[number].toLowerCase().replace("-", " ");
      return shown === words || shown === words + " records";
    });
    return numbered && Object.keys(KIND).length === meta.kinds.length && BASE.length === meta.kinds.length;
  },
  "the critical path is a strip, a switch and a legend that defines its parts"() {
    if (!path.n) return !byId("path") && !document.querySelector(".part-of-path");
    const { height } = { height: contentHeight };
    byId("path").click();
    const hidden = !pathShown && contentHeight === height - PATH_H * bands.length;
    byId("path").click();
    if (!hidden || !pathShown) return "the switch does not hide it";
    for (let s = 1; s < path.n; s++) if (path.first.indexOf(s) < 0 && path.from[s] < path.to[s - 1]) return `stretch ${s} overlaps`;
    const used = PARTS.filter((_, part) => partSums[part]);
    const legend = [...document.querySelectorAll(".part-of-path")].map((button) => button.title);
    if (legend.join() !== used.map(({ label, meaning }) => `${label}: ${meaning}`).join()) return "the legend lacks a definition";
    if (!PARTS.every(({ meaning }) => byId("help").textContent.includes(meaning))) return "the help lacks a definition";
    const s = path.record.findIndex((i) => i >= 0), t = (path.from[s] + path.to[s]) / 2, length = path.to[s] - path.from[s];
    zoomTo(t - length, t + length);
    view.y = 0;
    select(-1);
    draw();
    const y = TOP + bands[bandOfStretch(s)].path + PATH_H / 2 - view.y;
    if (stretchAt(xOf(t), y) !== s) return "a point of the strip is not its stretch";
    const { data } = ctx.getImageData(xOf(t) * (canvas.width / view.width), (y - 7) * (canvas.width / view.width), 1, 1);
    if (`${data[0]},${data[1]},${data[2]}` !== channels(PARTS[path.part[s]].colour).join()) return "the strip has another colour";
    pointer("pointerdown", xOf(t), y), pointer("pointerup", xOf(t), y);
    const shown = view.selected === path.record[s] && byId("details").textContent.includes(onPathInWords(path.record[s]));
    select(-1);
    return shown || "a click on the strip does not select the record";
  },
  "the hops of a wait sum to its time"() {
    const waits = Array.from(T.kind.keys()).filter((i) => isWait(i) && releasedBy[i] >= 0 && T.end[i] > T.start[i]).slice(0, 200);
    for (const wait of waits) {
      const hops = chainOf(wait), sum = hops.reduce((sum, { from, to }) => sum + to - from, 0);
      const reached = hops[hops.length - 1].from;
      if (hops.some(({ from, to }) => to < from) || !near(sum, T.end[wait] - reached)) return label(wait);
      if (hops.length < MOST_HOPS && reached > T.start[wait] && hops[hops.length - 1].lane === T.lane[wait]) return `${label(wait)} ends early`;
    }
    if (!waits.length) return true;
    reveal(waits[0]);
    const listed = byId("chain").querySelectorAll("li").length >= Math.min(2, chainOf(waits[0]).length);
    draw();
    select(-1);
    return listed;
  },
  "fit shows the whole run"() {
    if (!T.n) return true;
    press("f");
    return view.t0 <= 0 && view.t1 >= T.last;
  },
  "wheel zooms and keeps the time under the pointer"() {
    if (!T.n) return true;
    fit();
    const x = Math.round(LABELS + plotWidth() * 0.3), t = tOf(x), before = span();
    wheel(x, TOP + 40, -200, { ctrlKey: true });
    return span() < before * 0.8 && near(tOf(x), t);
  },
  "keys zoom in and out"() {
    if (!T.n) return true;
    fit();
    const before = span();
    press("w");
    const closer = span();
    press("-");
    return closer < before && near(span(), before);
  },
  "drag pans"() {
    zoomTo(T.last * 0.4, T.last * 0.5);
    const t0 = view.t0, x = LABELS + 200;
    pointer("pointerdown", x, view.height - 5), pointer("pointermove", x - 100, view.height - 5), pointer("pointerup", x - 100, view.height - 5);
    return view.t0 > t0 && near(view.t0 - t0, (100 / plotWidth()) * span());
  },
  "keys pan"() {
    zoomTo(T.last * 0.4, T.last * 0.5);
    const t0 = view.t0;
    press("d");
    const right = view.t0;
    press("a");
    return right > t0 && near(view.t0, t0);
  },
  "a range dragged on the ruler is zoomed to"() {
    if (!T.n) return true;
    fit();
    const a = tOf(LABELS + 100), b = tOf(LABELS + 300), y = OVERVIEW_H + 10;
    pointer("pointerdown", LABELS + 100, y), pointer("pointermove", LABELS + 300, y), pointer("pointerup", LABELS + 300, y);
    return near(view.t0, a) && near(view.t1, b);
  },
  "search by kind counts right"() {
    return search("kind:signal") === T.kind.filter((k) => k === KIND.signal || k === KIND.cpuSignal).length;
  },
  "search by fence counts right"() {
    if (!meta.fences.length) return true;
    const wanted = meta.fences[0].toLowerCase(), fits = meta.fences.map((f) => f.toLowerCase().includes(wanted));
    return search(`fence:"${meta.fences[0]}"`) === T.fence.filter((f) => f >= 0 && fits[f]).length;
  },
  "search finds nothing where there is nothing"() {
    return search("no such thing anywhere") === 0 && byId("matches").textContent === "no match";
  },
  "next and previous match walk and select"() {
    fit();
    const found = search("kind:signal");
    if (found < 2) return true;
    press("Enter", byId("query"));
    const first = view.selected;
    press("Enter", byId("query"));
    const second = view.selected;
    byId("previous").click();
    const ok = T.kind[first] === KIND.signal && second !== first && view.selected === first && byId("matches").textContent.includes(" / ");
    search("");
    select(-1);
    return ok;
  },
  "a click selects the box under it"() {
    const wanted = T.kind.findIndex((k, i) => k !== KIND.lost && !isMark(i));
    if (wanted < 0) return true;
    zoomToRecord(wanted);
    select(-1);
    const { y, h } = boxPlace(wanted), x = xOf((left[wanted] + T.end[wanted]) / 2);
    pointer("pointerdown", x, y + h / 2), pointer("pointerup", x, y + h / 2);
    return view.selected === wanted && !byId("details").hidden && byId("details").textContent.includes(meta.kinds[T.kind[wanted]]);
  },
  "the tip names the box"() {
    const wanted = T.kind.findIndex((_, i) => !isMark(i));
    if (wanted < 0) return true;
    zoomToRecord(wanted);
    const { y, h } = boxPlace(wanted);
    pointer("pointermove", xOf((left[wanted] + T.end[wanted]) / 2), y + h / 2);
    return !byId("tip").hidden && byId("tip").textContent.includes(label(wanted));
  },
  "a wait leads to its signal and back"() {
    if (!T.flows) return true;
    const wait = T.flowTo[0], signal = T.flowFrom[0];
    reveal(wait);
    byId("details").querySelector(`[data-record="${signal}"]`).click();
    const there = view.selected === signal && left[signal] >= view.t0 - 1 && T.end[signal] <= view.t1 + 1;
    byId("details").querySelector(`[data-record="${wait}"]`)?.click();
    return there && (view.selected === wait || releases(signal).length > MOST_JUMPS);
  },
  "boxes of one row do not overlap"() {
    const ends = (lane) => lane.rows.slice(0, MAX_ROWS - 1).every(({ ids }) => ids.every((i, at) => !at || left[i] >= T.end[ids[at - 1]]));
    return lanes.every(ends);
  },
  "a group folds and unfolds"() {
    if (!groups.length) return true;
    select(-1);
    const before = contentHeight;
    view.y = 0;
    pointer("pointerdown", 40, TOP + groups[0].y + 8), pointer("pointerup", 40, TOP + groups[0].y + 8);
    const folded = contentHeight;
    fold(groups[0]);
    return folded < before && contentHeight === before;
  },
  "the legend hides a kind and shows it again"() {
    const button = byId("legend").querySelector("[data-kind]");
    if (!button) return true;
    const kind = +button.dataset.kind;
    button.click();
    const hidden = view.hidden[kind] === 1 && button.getAttribute("aria-pressed") === "false";
    button.click();
    return hidden && view.hidden[kind] === 0;
  },
  "boxes are on the canvas"() {
    if (!T.n) return true;
    select(-1);
    fit();
    view.y = 0;
    draw();
    const ratio = canvas.width / view.width, back = channels(theme.back).join(), lines = [theme.grid, theme.line, theme.panel, theme.lane].map((c) => channels(c).join());
    const { data } = ctx.getImageData(LABELS * ratio, TOP * ratio, plotWidth() * ratio, (view.height - TOP) * ratio);
    let painted = 0;
    for (let at = 0; at < data.length; at += 4) {
      const pixel = `${data[at]},${data[at + 1]},${data[at + 2]}`;
      if (pixel !== back && !lines.includes(pixel)) painted++;
    }
    return painted > 200;
  },
  "a signal and an execution without commands are marks at their moments"() {
    for (let i = 0; i < T.n; i++) if (onQueue(i) && runsForNoTime(i) && !(isMark(i) && left[i] === T.start[i])) return label(i);
    return true;
  },
  "a gap has no colour of work"() {
    const gap = T.kind.indexOf(KIND.gap);
    if (gap < 0) return true;
    zoomToRecord(gap);
    select(-1);
    draw();
    const { y, h } = boxPlace(gap), ratio = canvas.width / view.width, x = xOf(left[gap]);
    const { data } = ctx.getImageData(x * ratio, y * ratio, Math.max(1, (xOf(T.end[gap]) - x) * ratio), h * ratio);
    const ofWork = new Set(colours.filter((_, c) => c <= KIND.timed || c >= FIRST_NAME).map((c) => channels(c.solid).join()));
    for (let at = 0; at < data.length; at += 4) if (ofWork.has(`${data[at]},${data[at + 1]},${data[at + 2]}`)) return false;
    return sort[KIND.gap] === 0;
  },
  "an engine's box leads to the queue and to the call"() {
    const has = (i, kind) => mates(i).find((j) => lanes[T.lane[j]].kind === kind);
    const wanted = T.link.findIndex((link, i) => link && lanes[T.lane[i]].kind === LANE.engine);
    if (wanted < 0) return true;
    return [LANE.queue, LANE.cpu].every((kind) => {
      reveal(wanted);
      const other = has(wanted, kind);
      byId("details").querySelector(`[data-record="${other}"]`)?.click();
      return view.selected === other && left[other] >= view.t0 - 1 && left[other] <= view.t1;
    });
  },
  "a range is selected with Shift and its sums are shown"() {
    if (!T.n) return true;
    select(-1);
    fit();
    const y = view.height - 5, shift = { shiftKey: true }, a = tOf(LABELS + 60), b = tOf(LABELS + 160);
    pointer("pointerdown", LABELS + 60, y, shift), pointer("pointermove", LABELS + 160, y, shift), pointer("pointerup", LABELS + 160, y, shift);
    const right = near(view.range[0], Math.max(0, a)) && near(view.range[1], Math.min(T.last, b)) && !byId("details").hidden;
    const shown = byId("details").textContent.includes(duration(view.range[1] - view.range[0]));
    press("Escape");
    return right && shown && view.range === null && byId("details").hidden;
  },
  "busy time agrees with a plain sum"() {
    const a = T.last * 0.2, b = T.last * 0.7;
    return lanes.slice(0, 12).every((lane) => {
      let sum = 0, reached = a;
      for (let i = 0; i < T.n; i++) {
        if (T.lane[i] !== lane.id || sort[T.kind[i]] !== BUSY || (lane.kind === LANE.engine && !isWork(i))) continue;
        const from = Math.max(T.start[i], reached), to = Math.min(T.end[i], b);
        if (to > from) (sum += to - from), (reached = to);
      }
      return near(sum, lane.busy.within(a, b)) && busyShare(lane, a, b) <= 1 + 1e-9;
    });
  },
  "depth agrees with a plain count"() {
    const lane = lanes.find((l) => l.kind === LANE.queue && l.queuedAt.length);
    if (!lane) return true;
    return [0.1, 0.35, 0.6].every((share) => {
      const t = T.last * share, open = (i) => Math.min(T.queued[i], T.start[i]) < t && T.end[i] >= t && sort[T.kind[i]] !== 0;
      const signals = (i) => (T.kind[i] === KIND.signal || T.kind[i] === KIND.gap || isUnfinished(i)) && T.queued[i] < t && T.end[i] >= t;
      let plain = 0;
      for (let i = 0; i < T.n; i++) if (T.lane[i] === lane.id && T.kind[i] !== KIND.preempted && (open(i) || signals(i))) plain++;
      return plain === depthAt(lane, t);
    });
  },
  "texts do not overlap"() {
    select(-1);
    fit();
    view.y = 0;
    const plainly = overlappingTexts();
    view.range = [T.last * 0.3, T.last * 0.6];
    const ranged = overlappingTexts();
    view.range = null;
    return !plainly && !ranged || plainly || ranged;
  },
  "the pointer's time is shown, and so are depth and load"() {
    if (!T.n) return true;
    const t = Math.round(tOf(LABELS + 90)), lane = lanes.find((l) => l.strip && l.y >= 0);
    pointer("pointermove", LABELS + 90, OVERVIEW_H + 5);
    const right = !byId("cursor").hidden && byId("cursor").textContent === moment(t);
    view.y = 0;
    if (lane) pointer("pointermove", LABELS + 90, TOP + lane.y + 4);
    const strip = !lane || / (deep|busy)$/.test(byId("tip").textContent);
    canvas.dispatchEvent(new PointerEvent("pointerleave"));
    return right && strip && byId("cursor").hidden;
  },
  "nothing of the page is cut off at its sides"() {
    const page = document.documentElement;
    return page.scrollWidth <= page.clientWidth || `${page.scrollWidth} px on ${page.clientWidth} px`;
  },
  "a recovery is a band over its group"() {
    const i = recoveries[0];
    if (i === undefined) return true;
    zoomToRecord(i);
    view.y = 0;
    draw();
    const group = groups.find((g) => g.lanes.includes(lanes[T.lane[i]])), t = (T.start[i] + T.end[i]) / 2;
    return recoveryAt(xOf(t), group.y + 2) === i && recoveryAt(xOf(t), group.bottom - 2) === i && recoveryAt(xOf(T.end[i]) + 9, group.y + 2) < 0;
  },
  "time has its unit"() {
    return !T.n || (meta.unit === "step" ? moment(0).startsWith("step ") && !duration(7).includes("ns") : / (s|ms|\u00b5s|ns)$/.test(moment(T.last)));
  },
  "the verdict is shown"() {
    return meta.verdict.every((sentence) => byId("verdict").textContent.includes(sentence)) && byId("verdict").hidden === !meta.verdict.length;
  },
  "a finding is listed, leads to its boxes, and its missing edge is drawn"() {
    if (!findings.length) return byId("findings").hidden;
    const listed = byId("findings").querySelectorAll("[data-finding]").length === Math.min(findings.length, MOST_FINDINGS);
    const number = Math.max(0, findings.findIndex(({ edges }) => edges.length)), { text, records, edges } = findings[number];
    if (!listed || byId("findings").hidden) return "not listed";
    byId("findings").querySelector(`[data-finding="${number}"]`)?.click();
    if (view.finding !== number || !byId("details").textContent.includes(text)) return "its text is not shown";
    const hidden = records.find((i) => T.start[i] < view.t0 || T.end[i] > view.t1 || boxTop(i) < view.y || boxTop(i) > view.y + view.height - TOP);
    if (hidden !== undefined) return `${label(hidden)} is not in view`;
    if (edges.length) {
      const [from, to] = edges[0], ratio = canvas.width / view.width, head = boxPlace(to), red = channels(theme.danger).join();
      draw();
      const { data } = ctx.getImageData((xOf(T.start[to]) - 4) * ratio, (head.y + head.h / 2) * ratio, 1, 1);
      if (`${data[0]},${data[1]},${data[2]}` !== red) return `no head at the start of ${label(to)}`;
      reveal(from);
      byId("details").querySelector(`[data-finding="${number}"]`).click();
      if (view.selected !== -1 || view.finding !== number) return "a box does not lead to its finding";
    }
    press("Escape");
    return view.finding === -1 && byId("details").hidden;
  },
  "a store leads to its flush"() {
    const store = T.kind.findIndex((k, i) => k === KIND.store && releases(i).length);
    if (store < 0) return !T.kind.includes(KIND.flush);
    reveal(store);
    const flush = releases(store)[0];
    byId("details").querySelector(`[data-record="${flush}"]`).click();
    return view.selected === flush && T.kind[flush] === KIND.flush;
  },
  "the bars of a comparison sum to the makespans"() {
    return [...document.querySelectorAll("#bars .bar")].every((bar) => {
      const parts = [...bar.querySelectorAll(".part")], longest = Math.max(...[...document.querySelectorAll("#bars .bar")].map((b) => +b.dataset.makespan));
      const sum = parts.reduce((all, part) => all + Number(part.dataset.ns), 0);
      const room = bar.clientWidth - parseFloat(getComputedStyle(bar).paddingRight);
      const drawn = parts.reduce((all, part) => all + part.getBoundingClientRect().width, 0);
      return sum === Number(bar.dataset.makespan) && Math.abs(drawn - (room * sum) / longest) < 2;
    });
  },
  "signals are marks in the slimmest rows too"() {
    const signal = T.kind.findIndex((k, i) => k === KIND.signal && onQueue(i) && T.end[i] > T.start[i]);
    if (signal < 0 || matches.text) return true;
    const lane = lanes[T.lane[signal]], height = lane.rowH, solid = channels(colours[KIND.signal].solid).join(), ratio = canvas.width / view.width;
    zoomToRecord(signal);
    select(-1);
    view.arrows = false;
    const path = pathShown;
    pathShown = false;
    lane.rowH = SLIM;
    draw();
    const { y, h } = boxPlace(signal), x = (xOf(T.start[signal]) + xOf(T.end[signal])) / 2;
    const { data } = ctx.getImageData(x * ratio, (y + h / 2) * ratio, 1, 1);
    lane.rowH = height;
    view.arrows = true;
    pathShown = path;
    return `${data[0]},${data[1]},${data[2]}` !== solid;
  },
  "a band states the makespan of its bar"() {
    const bars = [...document.querySelectorAll("#bars .bar")];
    return !meta.bands.length || bars.every((bar, number) => Number(bar.dataset.makespan) === bands[number].makespan);
  },
  "bands have one zoom, and a box of each can be selected"() {
    return bands.length < 2 || bands.every((band, number) => {
      const wanted = T.kind.findIndex((k, i) => lanes[T.lane[i]].band === number && lanes[T.lane[i]].kind === LANE.engine && !isMark(i));
      zoomToRecord(wanted);
      select(-1);
      draw();
      const { y, h } = boxPlace(wanted), x = xOf((left[wanted] + T.end[wanted]) / 2);
      pointer("pointerdown", x, y + h / 2), pointer("pointerup", x, y + h / 2);
      const inside = boxTop(wanted) > band.y && boxTop(wanted) < band.bottom;
      return view.selected === wanted && inside && byId("details").textContent.includes(band.name);
    });
  },
  "lost records are announced"() {
    return byId("banner").hidden === (meta.lost === "0") && (meta.lost === "0" || byId("banner").textContent.includes("lost"));
  },
  "nothing recorded is said so"() {
    return byId("empty").hidden === T.n > 0;
  },
  "the numbers of every model are in view"() {
    const numbers = byId("parts"), room = numbers?.parentElement.clientWidth;
    return !numbers || meta.bands.length > 3 || numbers.offsetWidth <= room || `${numbers.offsetWidth} px on ${room} px`;
  },
  "a sheet of paper has every lane in light colours, and the window comes back"() {
    const kept = { t0: view.t0, t1: view.t1, y: view.y, width: view.width, height: view.height };
    dispatchEvent(new Event("beforeprint"));
    const { width, height } = view, whole = Math.min(MOST_PRINT_HEIGHT, TOP + contentHeight), light = readable(theme.back) !== "#ffffff";
    dispatchEvent(new Event("afterprint"));
    if (width !== PRINT_WIDTH || height < whole || !light) return `${width} x ${height} for ${PRINT_WIDTH} x ${whole}, light: ${light}`;
    return Object.keys(kept).every((name) => view[name] === kept[name]) || JSON.stringify([kept, view]);
  },
  "every text of the trace stays text"() {
    return document.scripts.length === 3 && document.querySelectorAll("#details script, #legend script, #verdict script, #findings script, #lead script").length === 0;
  },
  "help opens and closes"() {
    press("?");
    const open = byId("help").open;
    byId("help").close();
    return open;
  },
};

function selftest() {
  const results = {};
  let ok = true;
  for (const [name, check] of Object.entries(CHECKS)) {
    let outcome;
    try {
      const said = check();
      outcome = said === true || (typeof said === "string" && said);
    } catch (problem) {
      outcome = String(problem);
    }
    results[name] = outcome;
    ok &&= outcome === true;
  }
  select(-1);
  results["no script failed"] = scriptErrors.length === 0 || scriptErrors.join("; ");
  ok &&= results["no script failed"] === true;
  const redraws = redrawMedianMs(100), zooming = zoomMedianMs(100);
  const report = { ok, records: T.n, arrows: T.flows, findings: findings.length, bands: meta.bands.length, checks: results, redraws: 100, redraw_median_ms: redraws,
    zoom_redraw_median_ms: zooming, width: view.width, height: view.height };
  document.body.append(element("pre", JSON.stringify(report), { id: "selftest" }));
}
