// What a wait waited for, over several hops: its signal, the work before the signal, what that work waited for, and so
// on, back to the moment at which the wait began to block.
// - The hops go back in time and share the time for which the wait blocked: each has the time for which it was the last
//   thing that was missing. They sum to it.
// - A record waits for the latest of its dependencies, by the rules of the critical path (decisions/0038): the item
//   before it on its queue, the call that submitted it, its signal, the work before it on its engine.
// - Made when a wait is selected; the indexes of a lane are made when a chain first comes there.

const MOST_HOPS = 200, MOST_SHOWN_HOPS = 24, MOST_LOOKED_AT = 1024;

const indexes = { items: new Map(), calls: new Map(), submits: null, onEngine: null };

/** Work, waits and signals of a queue in the order of their ends. */
function itemsOf(lane) {
  if (!indexes.items.has(lane)) {
    const all = [];
    for (let i = 0; i < T.n; i++) if (T.lane[i] === lane && (isWork(i) || T.kind[i] === KIND.wait || T.kind[i] === KIND.signal)) all.push(i);
    all.sort((a, b) => T.end[a] - T.end[b] || T.start[a] - T.start[b] || a - b);
    indexes.items.set(lane, { all, ends: Float64Array.from(all, (i) => T.end[i]), placeOf: new Map(all.map((i, at) => [i, at])) });
  }
  return indexes.items.get(lane);
}

/** Calls of a thread in the order of their starts. */
function callsOf(lane) {
  if (!indexes.calls.has(lane)) {
    const all = [];
    for (let i = 0; i < T.n; i++) if (T.lane[i] === lane) all.push(i);
    indexes.calls.set(lane, { all, starts: Float64Array.from(all, (i) => T.start[i]) });
  }
  return indexes.calls.get(lane);
}

/** The item before one on its queue: work begins when that item is complete, a wait or a signal when it was queued before. */
function itemBefore(i) {
  const { all, ends, placeOf } = itemsOf(T.lane[i]), own = placeOf.get(i) ?? 0;
  if (isWork(i)) return all[Math.min(lowerBound(ends, T.start[i] + 0.5), own) - 1] ?? -1;
  for (let at = own - 1; at >= Math.max(0, own - MOST_LOOKED_AT); at--) if (T.queued[all[at]] <= T.queued[i]) return all[at];
  return -1;
}

/** The call that submitted a record of a queue: that of its submission, else one that was running when it was queued. */
function submitOf(i) {
  const linked = mates(i).find((j) => T.kind[j] === KIND.submit);
  if (linked !== undefined) return linked;
  if (!indexes.submits) {
    const all = [];
    for (let j = 0; j < T.n; j++) if (T.kind[j] === KIND.submit) all.push(j);
    indexes.submits = { all, starts: Float64Array.from(all, (j) => T.start[j]) };
  }
  const { all, starts } = indexes.submits, begun = lowerBound(starts, T.queued[i] + 0.5);
  const band = lanes[T.lane[i]].band, near = all.slice(Math.max(0, begun - MOST_LOOKED_AT), begun).reverse();
  const lasted = near.filter((j) => T.end[j] >= T.queued[i] && lanes[T.lane[j]].band === band);
  return lasted.find((j) => T.fence[j] === T.fence[i] && T.value[j] === T.value[i]) ?? lasted[0] ?? -1;
}

/** The last work that ended on the engine of a command buffer before it began. */
function onEngineBefore(i) {
  if (T.kind[i] !== KIND.execute || !T.arg[i]) return -1;
  if (!indexes.onEngine) {
    indexes.onEngine = new Map();
    for (let j = 0; j < T.n; j++) {
      if (T.kind[j] !== KIND.execute || !T.arg[j]) continue;
      if (!indexes.onEngine.has(T.arg[j])) indexes.onEngine.set(T.arg[j], []);
      indexes.onEngine.get(T.arg[j]).push(j);
    }
    for (const all of indexes.onEngine.values()) all.sort((a, b) => T.end[a] - T.end[b] || a - b);
  }
  const all = indexes.onEngine.get(T.arg[i]), before = all[lowerBound(all.map((j) => T.end[j]), T.start[i] + 0.5) - 1];
  return before === undefined || before === i ? -1 : before;
}

/** The latest thing that an item of a queue waited for, and when that was done; `null` without any. */
function latestDependency(i) {
  let latest = null;
  const consider = (j) => {
    if (j >= 0 && (!latest || T.end[j] > latest.at)) latest = { of: j, at: T.end[j] };
  };
  consider(itemBefore(i));
  consider(submitOf(i));
  consider(releasedBy[i]);
  consider(onEngineBefore(i));
  return latest;
}

/** The hops of a wait from its end backward: record (-1 for a thread between its calls), lane, and the time that each took. */
function chainOf(wait) {
  const hops = [], seen = new Set(), from = T.start[wait];
  let at = T.end[wait], here = releasedBy[wait];
  if (here < 0 || at <= from) return hops;
  /** The time back to `until` belongs to a hop. */
  const hop = (record, lane, until) => {
    const to = Math.max(from, Math.min(until, at));
    hops.push({ record, lane, from: to, to: at });
    at = to;
  };
  hop(wait, T.lane[wait], T.end[here]);
  while (here >= 0 && at > from && hops.length < MOST_HOPS && !seen.has(here)) {
    seen.add(here);
    const kind = lanes[T.lane[here]].kind;
    if (kind === LANE.cpu) here = hopOverThread(here, hop, seen);
    else if (kind === LANE.queue) {
      const latest = latestDependency(here);
      hop(here, T.lane[here], latest ? latest.at : from);
      here = latest ? latest.of : -1;
    } else {
      hop(here, T.lane[here], T.queued[here]);
      here = -1;
    }
  }
  return hops;
}

/** A thread from one of its calls back to its last wait that a signal ended: one hop for all of its own time. Returns that signal. */
function hopOverThread(call, hop, seen) {
  const { all, starts } = callsOf(T.lane[call]);
  for (let at = lowerBound(starts, T.start[call]) - 1; at >= 0; at--) {
    const i = all[at];
    if (T.kind[i] !== KIND.cpuWait || releasedBy[i] < 0 || T.end[releasedBy[i]] <= T.start[i] || T.end[i] > T.start[call] || seen.has(i)) continue;
    hop(call, T.lane[call], T.end[i]);
    hop(i, T.lane[i], T.end[releasedBy[i]]);
    return releasedBy[i];
  }
  hop(call, T.lane[call], -Infinity);
  return -1;
}

const lastChain = { of: -1, hops: [] };
/** The chain of the selected wait; nothing for other records. */
function selectedChain() {
  const i = view.selected;
  if (i < 0 || !isWait(i)) return [];
  if (lastChain.of !== i) (lastChain.of = i), (lastChain.hops = chainOf(i));
  return lastChain.hops;
}

/** What a hop is, in words. */
function hopText({ record }, number) {
  const lane = lanes[T.lane[record]], kind = meta.kinds[T.kind[record]], name = `${label(record)} on ${lane.name}`;
  const whole = meta.names[T.name[record]] ? `${kind} ${name}` : name;
  if (!number) return `${whole}: released at ${moment(T.end[record])}`;
  if (isSignal(record)) return `${whole}: done at ${moment(T.end[record])}`;
  if (isWait(record)) return `${whole}: blocked ${moment(T.start[record])} to ${moment(T.end[record])}`;
  if (lane.kind === LANE.cpu) return `thread ${lane.name}, up to ${label(record)} at ${moment(T.start[record])}`;
  return `${name}: ran ${moment(T.start[record])} to ${moment(T.end[record])}`;
}

/** The chain of the selected wait as a list, the nearest hop first. */
function chainList() {
  const hops = selectedChain(), list = element("ol", "", { id: "chain" });
  if (!hops.length) return list;
  const blocked = T.end[view.selected] - T.start[view.selected];
  for (const [number, one] of hops.slice(0, MOST_SHOWN_HOPS).entries()) {
    const row = element("li", "", { "data-ns": one.to - one.from });
    row.append(element("b", duration(one.to - one.from)), jump(one.record, hopText(one, number)));
    list.append(row);
  }
  const rest = hops.length - MOST_SHOWN_HOPS;
  if (rest > 0) list.append(element("li", `and ${rest} more, back to ${moment(hops[hops.length - 1].from)}`));
  const head = element("div", "", { class: "links" });
  head.append(element("span", `Waited for, from its end backward: of the ${duration(blocked)} of the wait, each took`));
  const both = element("div");
  both.append(head, list);
  return both;
}

/** The boxes of the chain are outlined, and an arrow leads from each signal to its wait. */
function drawChain() {
  for (const { record } of selectedChain()) {
    if (record === view.selected) continue;
    outline(record, theme.accent, 2);
    if (isWait(record) && releasedBy[record] >= 0) arrow(releasedBy[record], record, theme.accent, 2, 1);
  }
}
