// Where things stand: which row of its lane a box is in, how high lanes are, which groups are folded.
// - Rows are packed once. Heights are laid out again when a group folds or a lane is made tall.
// - A queue's lane and an engine's lane have a strip above their rows: depth, or load.

const MAX_ROWS = 40, ROW = 17, SLIM = 5, MOST_LANE = 440, GROUP_H = 22, BAND_H = 26, LANE_GAP = 5, STRIP = 15, PATH_H = 24;
/** Several traces share one page, so each is laid out closer. */
const LEAST_LANE = meta.bands.length ? 48 : 104;

/** The row of each record within its lane. */
const rowOf = new Uint8Array(T.n);
/** On a queue, what runs for no time does not pend as a box: a signal, and an execution without commands. */
const runsForNoTime = (i) => T.kind[i] === KIND.signal || (T.kind[i] === KIND.execute && T.end[i] === T.start[i]);
/** Where the box of a record begins. On a queue: when it was queued. What runs for no time begins when it is carried out. */
const left = new Float64Array(T.n);
for (let i = 0; i < T.n; i++) left[i] = onQueue(i) && !runsForNoTime(i) ? Math.min(T.queued[i], T.start[i]) : T.start[i];
/** Drawn as a mark: a signal, and whatever has no length. */
const isMark = (i) => T.kind[i] === KIND.signal || T.end[i] === left[i];

/** Puts each box in the lowest row that is free: what pends on a queue piles up, what is nested lies above its caller. */
function packRows(lane, ids) {
  // Queued at one moment: a queue runs what was submitted first. Elsewhere the caller goes below what it calls.
  const first = lane.kind === LANE.queue ? (a, b) => T.start[a] - T.start[b] : (a, b) => T.end[b] - T.end[a];
  ids.sort((a, b) => left[a] - left[b] || first(a, b) || a - b);
  const rows = [];
  for (const i of ids) {
    let row = rows.findIndex((r) => r.until < left[i] || (r.until === left[i] && r.instant !== left[i]));
    if (row < 0) {
      row = Math.min(rows.length, MAX_ROWS - 1);
      if (row === rows.length) rows.push({ ids: [], until: -1, instant: -1 });
    }
    const r = rows[row];
    r.ids.push(i);
    r.until = Math.max(r.until, T.end[i]);
    if (T.end[i] === left[i]) r.instant = left[i];
    rowOf[i] = row;
  }
  // `reach` is the furthest right end so far: it ascends even where boxes share the last row. Columns of their own keep
  // a redraw from reading all over the records.
  lane.rows = rows.map((r) => {
    const reach = new Float64Array(r.ids.length);
    let furthest = -1;
    r.ids.forEach((i, at) => (reach[at] = furthest = Math.max(furthest, T.end[i])));
    const marks = Int32Array.from(r.ids.filter(isMark));
    return { ids: Int32Array.from(r.ids), from: Float64Array.from(r.ids, (i) => left[i]), to: Float64Array.from(r.ids, (i) => T.end[i]), reach, marks, markAt: Float64Array.from(marks, (i) => left[i]) };
  });
}

{
  const members = grouped(T.n, lanes.length, (i) => T.lane[i]);
  lanes.forEach((lane, id) => packRows(lane, Array.from(members.of(id))));
}

/** The traces of this page; a page of one trace has one band without a header. */
const bands = (meta.bands.length ? meta.bands : [["", T.last, T.last]]).map(([name, length, makespan]) => ({ name, length: Number(length), makespan: Number(makespan), groups: [], y: 0, path: 0, bottom: 0 }));
const groups = [];
for (const lane of lanes) {
  let group = groups.find((g) => g.name === lane.group && g.band === lane.band);
  if (!group) {
    groups.push((group = { name: lane.group, band: lane.band, lanes: [], folded: false, y: 0, bottom: 0 }));
    bands[lane.band].groups.push(group);
  }
  group.lanes.push(lane);
}
const recoveries = [];
for (let i = 0; i < T.n; i++) if (T.kind[i] === KIND.recovery) recoveries.push(i);

let contentHeight = 0, counters = !meta.bands.length, pathShown = T.path.n > 0;

/** Lays lanes out; each may be as high as lets everything fit into `room` pixels, but never less than its least. */
function layOut(room) {
  let most = MOST_LANE;
  while (most > LEAST_LANE && stack(most) > room) most -= 8;
  contentHeight = stack(Math.max(most, LEAST_LANE));
}

function stack(most) {
  let y = 0;
  for (const band of bands) {
    band.y = y;
    if (meta.bands.length) y += BAND_H;
    band.path = y;
    if (pathShown) y += PATH_H;
    for (const group of band.groups) {
      group.y = y;
      y += GROUP_H;
      for (const lane of group.lanes) {
        const rows = Math.max(1, lane.rows.length);
        lane.strip = counters && hasCounter(lane) ? STRIP : 0;
        lane.rowH = lane.tall ? ROW : Math.max(SLIM, Math.min(ROW, Math.floor(most / rows)));
        lane.h = Math.max(20, rows * lane.rowH) + LANE_GAP + lane.strip;
        lane.y = group.folded ? -1 : y;
        if (!group.folded) y += lane.h;
      }
      group.bottom = y;
    }
    band.bottom = y;
  }
  return y;
}

/** A queue that is ever deeper than one, and an engine that works, have a strip. */
const hasCounter = (lane) => !STEPS && (lane.kind === LANE.queue ? lane.deepest > 1 : lane.kind === LANE.engine && lane.busy.to.length > 0);
layOut(0);

/** The top of a record's box in the content, or -1 in a folded group. Row 0 is at the bottom, as a pile is. */
function boxTop(i) {
  const lane = lanes[T.lane[i]];
  return lane.y < 0 ? -1 : rowTop(lane, rowOf[i]);
}

function rowTop(lane, row) {
  return lane.y + lane.h - LANE_GAP / 2 - (row + 1) * lane.rowH;
}
