// Sums over a range of time: busy and waiting time of each lane, the depth of each queue.
// - Busy time counts overlapping boxes once, so that a lane is at most 100 % busy. Gaps and waits are not busy.
// - Built once from the records; a question costs two binary searches, so that labels can follow the view.

const BUSY = 1, WAITING = 2;
const NEITHER = [KIND.signal, KIND.cpuSignal, KIND.doorbell, KIND.mark, KIND.lost, KIND.waitQueued, KIND.signalQueued, KIND.flip, KIND.vsync, KIND.gap,
  KIND.neverRan, KIND.recovery, KIND.step, KIND.store, KIND.flush];
const WAITS = [KIND.wait, KIND.cpuWait, KIND.preempted];
const sort = meta.kinds.map((_, kind) => (NEITHER.includes(kind) ? 0 : WAITS.includes(kind) ? WAITING : BUSY));

/** Time covered by some intervals: `from` and `to` of each, ascending and apart, and the sum of those before. */
class Cover {
  constructor() {
    this.from = [];
    this.to = [];
    this.before = [0];
  }
  /** Intervals come in order of their start. */
  add(from, to) {
    const last = this.to.length - 1;
    if (last >= 0 && from <= this.to[last]) {
      if (to <= this.to[last]) return;
      this.before[last + 1] += to - this.to[last];
      this.to[last] = to;
    } else if (to > from) {
      this.from.push(from);
      this.to.push(to);
      this.before.push(this.before[last + 1] + to - from);
    }
  }
  until(t) {
    const at = lowerBound(this.from, t);
    return this.before[at] - (at ? Math.max(0, this.to[at - 1] - t) : 0);
  }
  within(a, b) {
    return this.until(b) - this.until(a);
  }
}

for (const lane of lanes) (lane.busy = new Cover()), (lane.waiting = new Cover()), (lane.queuedAt = []), (lane.doneAt = []);
for (let i = 0; i < T.n; i++) {
  const lane = lanes[T.lane[i]], of = lane.kind === LANE.engine && !isWork(i) ? 0 : sort[T.kind[i]];
  if (of === BUSY) lane.busy.add(T.start[i], T.end[i]);
  if (of === WAITING) lane.waiting.add(T.start[i], T.end[i]);
  const counts = isWork(i) || T.kind[i] === KIND.wait || T.kind[i] === KIND.signal || T.kind[i] === KIND.gap || isUnfinished(i);
  if (lane.kind === LANE.queue && counts) {
    lane.queuedAt.push(Math.min(T.queued[i], T.start[i]));
    lane.doneAt.push(T.end[i]);
  }
}
for (const lane of lanes) {
  lane.queuedAt = Float64Array.from(lane.queuedAt).sort();
  lane.doneAt = Float64Array.from(lane.doneAt).sort();
  lane.deepest = 0;
  for (let q = 0, d = 0; q < lane.queuedAt.length; q++) {
    while (lane.doneAt[d] <= lane.queuedAt[q]) d++;
    lane.deepest = Math.max(lane.deepest, q + 1 - d);
  }
}

/** How many operations of a queue are queued and not done just before `t`. */
const depthAt = (lane, t) => lowerBound(lane.queuedAt, t) - lowerBound(lane.doneAt, t);

/** The busy share of a lane from `a` to `b`, from 0 to 1. */
const busyShare = (lane, a, b) => (b > a ? lane.busy.within(a, b) / (b - a) : 0);

/** The share as text: "0 %" only where it is nothing at all. */
function percent(share) {
  const text = (share * 100).toFixed(share < 0.1 && share > 0 ? 1 : 0);
  return share > 0 && +text === 0 ? "<0.1 %" : `${text} %`;
}

/** What happens from `a` to `b`: for each lane that has a box there its sums, and the names of work by their sum. */
function sumsOf(a, b) {
  const counts = new Int32Array(lanes.length), names = new Map(), stop = lowerBound(T.start, b);
  for (let i = 0; i < stop; i++) {
    if (T.end[i] < a || (T.end[i] === a && T.end[i] > T.start[i])) continue;
    counts[T.lane[i]]++;
    if (!isWork(i) || lanes[T.lane[i]].kind !== LANE.engine) continue;
    const key = meta.names[T.name[i]] || meta.kinds[T.kind[i]], sum = names.get(key) ?? { name: key, count: 0, ns: 0, first: i };
    sum.count++;
    sum.ns += Math.min(T.end[i], b) - Math.max(T.start[i], a);
    names.set(key, sum);
  }
  const rows = lanes.filter((lane) => counts[lane.id]).map((lane) => ({ lane, count: counts[lane.id], busy: lane.busy.within(a, b), waiting: lane.waiting.within(a, b) }));
  return { rows, names: [...names.values()].sort((x, y) => y.ns - x.ns) };
}
