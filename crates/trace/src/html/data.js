// What the page holds: the records, decoded from the columns, and the arrows between them.
// Reads the two data elements and nothing else; every other part of the script reads `T`.

const meta = JSON.parse(document.getElementById("trace-meta").textContent);
const KIND = { execute: 0, copy: 1, fill: 2, dispatch: 3, draw: 4, timed: 5, wait: 6, signal: 7, cpuWait: 8,
  cpuSignal: 9, submit: 10, kernelCall: 11, interrupt: 12, dpc: 13, doorbell: 14, mapWrite: 15, mark: 16, lost: 17, waitQueued: 18,
  signalQueued: 19, flip: 20, vsync: 21 };
const LANE = { cpu: 0, queue: 1, engine: 2, interrupt: 3, display: 4 };

/** Reads varints one after the other; beyond 2^53 a number comes back as a BigInt. */
class Varints {
  constructor(base64) {
    const text = atob(base64);
    this.bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) this.bytes[i] = text.charCodeAt(i);
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

/** The records as columns; times are nanoseconds since `origin`. */
const T = (() => {
  const n = meta.records, input = new Varints(document.getElementById("trace-columns").textContent.trim());
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
  const flows = input.next(), flowFrom = new Int32Array(flows), flowTo = new Int32Array(flows);
  for (let i = 0, to = 0; i < flows; i++) {
    to += input.next();
    flowTo[i] = to;
    flowFrom[i] = input.next();
  }
  let last = 0;
  for (let i = 0; i < n; i++) if (end[i] > last) last = end[i];
  return { n, lane, kind, name, start, end, queued, fence, value, arg, exactValue, exactArg,
    flows, flowFrom, flowTo, last, origin: Number(meta.origin_ns) };
})();

/** For each record the signal that released it, or -1. */
const releasedBy = new Int32Array(T.n).fill(-1);
/** For each signal the waits it released: `releases[first[i] .. first[i + 1]]`. */
const releases = new Int32Array(T.flows), firstRelease = new Int32Array(T.n + 1);
for (let f = 0; f < T.flows; f++) {
  releasedBy[T.flowTo[f]] = T.flowFrom[f];
  firstRelease[T.flowFrom[f] + 1]++;
}
for (let i = 0; i < T.n; i++) firstRelease[i + 1] += firstRelease[i];
{
  const at = firstRelease.slice();
  for (let f = 0; f < T.flows; f++) releases[at[T.flowFrom[f]]++] = T.flowTo[f];
}
/** The arrows in the order of their signals' starts and of their waits' ends, to find those in view. */
const flowsByTail = Int32Array.from({ length: T.flows }, (_, f) => f).sort((a, b) => T.flowFrom[a] - T.flowFrom[b]);
const flowsByHead = Int32Array.from({ length: T.flows }, (_, f) => f).sort((a, b) => T.end[T.flowTo[a]] - T.end[T.flowTo[b]]);

const lanes = meta.lanes.map(([kind, name, group], id) => ({ id, kind, name, group, rows: [], tall: false, y: -1, h: 0, rowH: 0 }));

const valueText = (i) => String(T.exactValue.get(i) ?? T.value[i]);
const argText = (i) => String(T.exactArg.get(i) ?? T.arg[i]);
const isWait = (i) => T.kind[i] === KIND.wait || T.kind[i] === KIND.cpuWait;
const isSignal = (i) => T.kind[i] === KIND.signal || T.kind[i] === KIND.cpuSignal;

/** What a box says: its name, else its kind; then the fence and the value. */
function label(i) {
  const own = meta.names[T.name[i]], name = own || meta.kinds[T.kind[i]];
  if (T.fence[i] < 0) return name;
  return `${name}${own ? " \u00b7" : ""} ${meta.fences[T.fence[i]]} ${isWait(i) ? "\u2265" : "="} ${valueText(i)}`;
}

const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"], [1, "ns"]];

/** A length of time with four significant digits or all nanoseconds, whichever is shorter. */
function duration(ns) {
  const [size, unit] = UNITS.find(([size]) => Math.abs(ns) >= size) ?? UNITS[3];
  return `${+(ns / size).toFixed(size === 1 ? 0 : 3)} ${unit}`;
}

/** A moment, exact to the nanosecond. */
function moment(ns) {
  const at = ns + T.origin;
  const [size, unit] = UNITS.find(([size]) => at >= size) ?? UNITS[3];
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
