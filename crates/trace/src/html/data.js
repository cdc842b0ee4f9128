// What the page holds: the records, decoded from the columns, and what connects them.
// - Reads the two data elements and nothing else; every other part of the script reads `T`.
// - The page counts as loaded when it is drawn: an open frame holds the load event back until then.

const meta = JSON.parse(document.getElementById("trace-meta").textContent);
const KIND = { execute: 0, copy: 1, fill: 2, dispatch: 3, draw: 4, timed: 5, wait: 6, signal: 7, cpuWait: 8,
  cpuSignal: 9, submit: 10, kernelCall: 11, interrupt: 12, dpc: 13, doorbell: 14, mapWrite: 15, mark: 16, lost: 17, waitQueued: 18,
  signalQueued: 19, flip: 20, vsync: 21, gap: 22, neverRan: 23, preempted: 24, recovery: 25, step: 26, store: 27, flush: 28,
  executeQueued: 29 };
const LANE = { cpu: 0, queue: 1, engine: 2, interrupt: 3, display: 4 };

const hold = document.body.appendChild(document.createElement("iframe"));
hold.hidden = true;
hold.contentDocument.open();
function pageIsDrawn() {
  hold.contentDocument.close();
  hold.remove();
}
const scriptErrors = [];
window.addEventListener("error", (event) => scriptErrors.push(event.message));

/** The bytes of the columns: base64 of deflated varints. */
async function unpacked(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(inflated).arrayBuffer());
}

/** Reads varints one after the other; beyond 2^53 a number comes back as a BigInt. */
class Varints {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }
  next() {
    const bytes = this.bytes, from = this.at;
    let value = 0, factor = 1;
    for (;;) {
      const byte = bytes[this.at++];
      value += (byte & 127) * factor;
      if (byte < 128) break;
      factor *= 128;
    }
    return value <= Number.MAX_SAFE_INTEGER ? value : this.exact(from);
  }
  exact(from) {
    let value = 0n;
    for (let i = from, shift = 0n; i < this.at; i++, shift += 7n) value |= BigInt(this.bytes[i] & 127) << shift;
    return value;
  }
  fill(column) {
    for (let i = 0; i < column.length; i++) column[i] = Number(this.next());
    return column;
  }
  /** A column in which a number may be too large for a double: those are kept beside it, exact. */
  fillExact(column, exact) {
    for (let i = 0; i < column.length; i++) {
      const value = this.next();
      column[i] = Number(value);
      if (typeof value === "bigint") exact.set(i, value);
    }
    return column;
  }
}

const unzigzag = (value) => (value % 2 ? -(value + 1) / 2 : value / 2);

/** The critical path: the stretches of band b are `first[b] .. first[b + 1]`, ascending; `record` and `lane` are -1 for none. */
function decodedPath(input) {
  const first = [0], from = [], to = [], part = [], record = [], lane = [];
  for (let band = 0; band < Math.max(1, meta.bands.length); band++) {
    const count = input.next();
    for (let s = 0, at = 0, last = 0; s < count; s++) {
      from.push((at += input.next()));
      to.push((at += input.next()));
      part.push(input.next());
      const step = input.next();
      if (step) record.push((last += unzigzag(step - 1)));
      else record.push(-1);
      lane.push(step ? -1 : input.next() - 1);
    }
    first.push(from.length);
  }
  return { n: from.length, first, from: Float64Array.from(from), to: Float64Array.from(to), part: Uint8Array.from(part), record: Int32Array.from(record), lane: Int32Array.from(lane) };
}

/** The records as columns; times are nanoseconds (or steps) since `origin`. */
function decoded(bytes) {
  const n = meta.records, input = new Varints(bytes);
  const lane = input.fill(new Uint32Array(n)), kind = input.fill(new Uint8Array(n)), name = input.fill(new Uint32Array(n));
  const start = input.fill(new Float64Array(n)), end = input.fill(new Float64Array(n)), queued = input.fill(new Float64Array(n));
  for (let i = 0, at = 0; i < n; i++) {
    at += start[i];
    start[i] = at;
    end[i] += at;
    queued[i] = at - queued[i];
  }
  const fence = input.fill(new Int32Array(n));
  for (let i = 0; i < n; i++) fence[i]--;
  const exactValue = new Map(), exactArg = new Map();
  const value = input.fillExact(new Float64Array(n), exactValue), arg = input.fillExact(new Float64Array(n), exactArg);
  const link = input.fill(new Uint32Array(n));
  let links = 0;
  for (let i = 0, last = 0; i < n; i++) {
    if (!link[i]) continue;
    link[i] = last += unzigzag(link[i] - 1);
    links = Math.max(links, last);
  }
  const flows = input.next(), flowFrom = new Int32Array(flows), flowTo = new Int32Array(flows);
  for (let i = 0, to = 0; i < flows; i++) {
    to += input.next();
    flowTo[i] = to;
    flowFrom[i] = to - unzigzag(input.next());
  }
  const path = decodedPath(input);
  let last = path.n ? path.to[path.n - 1] : 0;
  for (let i = 0; i < n; i++) if (end[i] > last) last = end[i];
  return { n, path, lane, kind, name, start, end, queued, fence, value, arg, link, links, exactValue, exactArg,
    flows, flowFrom, flowTo, last, origin: Number(meta.origin_ns) };
}
const T = decoded(await unpacked(document.getElementById("trace-columns").textContent.trim()));

/** Which of `members` belong to each of `count` keys: those of key k are `list[first[k] .. first[k + 1]]`, in order. */
function grouped(members, count, key) {
  const first = new Int32Array(count + 1), list = new Int32Array(members);
  for (let i = 0; i < members; i++) if (key(i) >= 0) first[key(i) + 1]++;
  for (let k = 0; k < count; k++) first[k + 1] += first[k];
  const at = first.slice();
  for (let i = 0; i < members; i++) if (key(i) >= 0) list[at[key(i)]++] = i;
  return { first, list, of: (k) => list.subarray(first[k], first[k + 1]) };
}

/** For each record the signal that released it (or the store that it makes visible), or -1. */
const releasedBy = new Int32Array(T.n).fill(-1);
for (let f = 0; f < T.flows; f++) releasedBy[T.flowTo[f]] = T.flowFrom[f];
const flowsOf = grouped(T.flows, T.n, (f) => T.flowFrom[f]);
/** The waits that a signal released, or the flush of a store. */
const releases = (i) => flowsOf.of(i).map((f) => T.flowTo[f]);
/** The arrows in the order of their tails' starts and of their heads' ends, to find those in view. */
const flowsByTail = flowsOf.list;
const flowsByHead = Int32Array.from({ length: T.flows }, (_, f) => f).sort((a, b) => T.end[T.flowTo[a]] - T.end[T.flowTo[b]]);

const linked = grouped(T.n, T.links + 1, (i) => (T.link[i] ? T.link[i] : -1));
/** The other records of the same submission, in order of start. */
const mates = (i) => (T.link[i] ? Array.from(linked.of(T.link[i])).filter((j) => j !== i) : []);

const lanes = meta.lanes.map(([kind, name, group, band], id) => ({ id, kind, name, group, band, rows: [], tall: false, y: -1, h: 0, rowH: 0, strip: 0 }));

const valueText = (i) => String(T.exactValue.get(i) ?? T.value[i]);
const argText = (i) => String(T.exactArg.get(i) ?? T.arg[i]);
const isWait = (i) => T.kind[i] === KIND.wait || T.kind[i] === KIND.cpuWait;
/** Queued, and not done when the run ended. */
const isUnfinished = (i) => T.kind[i] === KIND.neverRan || T.kind[i] === KIND.waitQueued || T.kind[i] === KIND.signalQueued;
const isSignal = (i) => T.kind[i] === KIND.signal || T.kind[i] === KIND.cpuSignal;
const isWork = (i) => T.kind[i] <= KIND.timed;
const onQueue = (i) => lanes[T.lane[i]].kind === LANE.queue;

/** What a box says: its name, else its kind; then the fence and the value. */
function label(i) {
  const own = meta.names[T.name[i]], name = own || meta.kinds[T.kind[i]];
  if (T.fence[i] < 0) return name;
  return `${name}${own ? " \u00b7" : ""} ${meta.fences[T.fence[i]]} ${isWait(i) || T.kind[i] === KIND.waitQueued ? "\u2265" : "="} ${valueText(i)}`;
}

const STEPS = meta.unit === "step";
const UNITS = STEPS ? [[1, "steps"]] : [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"], [1, "ns"]];
const unitFor = (ns) => UNITS.find(([size]) => Math.abs(ns) >= size) ?? UNITS[UNITS.length - 1];

/** A length of time with up to three decimals, or a number of steps. */
function duration(ns) {
  const [size, unit] = unitFor(ns);
  if (STEPS) return `${Math.round(ns).toLocaleString("en")} ${Math.round(ns) === 1 ? "step" : unit}`;
  return `${+(ns / size).toFixed(size === 1 ? 0 : 3)} ${unit}`;
}

/** A moment, exact to the nanosecond or step. */
function moment(ns) {
  const at = ns + T.origin;
  if (STEPS) return `step ${at}`;
  const [size, unit] = unitFor(at);
  return `${+(at / size).toFixed(Math.round(Math.log10(size)))} ${unit}`;
}

/** The first index of `array` (ascending) from `lo` up to `hi` that is not below `value`. */
function lowerBound(array, value, lo = 0, hi = array.length) {
  while (lo < hi) {
    const middle = (lo + hi) >> 1;
    if (array[middle] < value) lo = middle + 1;
    else hi = middle;
  }
  return lo;
}

/** The same in a long array, where the index is likely to be near `lo`: steps double before the search halves. */
function lowerBoundNear(array, value, lo) {
  let step = 1;
  while (lo + step < array.length && array[lo + step] < value) {
    lo += step;
    step *= 2;
  }
  return lowerBound(array, value, lo, Math.min(array.length, lo + step + 1));
}
