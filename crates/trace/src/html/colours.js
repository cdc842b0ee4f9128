// Colours: of each kind, and of each kernel's name, from the palette of all pages. Read again when the browser changes
// between light and dark.
// Names get colours in the order of their total time, so that the names that matter most differ most.

const BASE = meta.kind_colours, NAME_BASE = meta.name_colours;
const FIRST_NAME = BASE.length;
let theme, colours, hatch, packed, byName = true;

/** The names of work with their total time, the longest first. */
const workNames = (() => {
  const total = new Map(), onEngines = lanes.some((l) => l.kind === LANE.engine && l.busy.to.length);
  for (let i = 0; i < T.n; i++) {
    if (!isWork(i) || !T.name[i] || (onEngines && lanes[T.lane[i]].kind !== LANE.engine)) continue;
    const sum = total.get(T.name[i]) ?? { name: T.name[i], ns: 0, count: 0 };
    sum.ns += T.end[i] - T.start[i];
    sum.count++;
    total.set(T.name[i], sum);
  }
  return [...total.values()].sort((a, b) => b.ns - a.ns || a.name - b.name);
})();
/** The colour of each name as an index into `colours`. */
const colourOfName = new Uint8Array(meta.names.length);
workNames.forEach(({ name }, rank) => (colourOfName[name] = FIRST_NAME + (rank % NAME_BASE.length)));
{
  // Labels of lists stand on queues alone; they take the colours that follow.
  let rank = workNames.length;
  for (let i = 0; i < T.n; i++) {
    if (isWork(i) && T.name[i] && !colourOfName[T.name[i]]) colourOfName[T.name[i]] = FIRST_NAME + (rank++ % NAME_BASE.length);
  }
}

/** The colour of each record as an index into `colours`. */
const shade = new Uint8Array(T.n);
function chooseShades() {
  for (let i = 0; i < T.n; i++) shade[i] = byName && isWork(i) && T.name[i] ? colourOfName[T.name[i]] : T.kind[i];
}
chooseShades();

/** The colours of a record. */
const paint = (i) => colours[shade[i]];

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
function blend(a, b, share) {
  const from = channels(a), to = channels(b);
  return "#" + from.map((c, i) => Math.round(c + (to[i] - c) * share).toString(16).padStart(2, "0")).join("");
}
function readable(hex) {
  const [r, g, b] = channels(hex);
  return r * 0.299 + g * 0.587 + b * 0.114 > 150 ? "#20242c" : "#ffffff";
}

/** For each colour the solid one, the paler one of what pends, and both while a search dims. */
function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const named = (name) => style.getPropertyValue("--" + name).trim();
  theme = Object.fromEntries(["back", "panel", "lane", "line", "grid", "ink", "soft", "accent", "match", "select", "arrow", "danger", "band"].map((n) => [n, named(n)]));
  const dark = readable(theme.back) === "#ffffff";
  colours = [...BASE, ...NAME_BASE].map((base, kind) => {
    const solid = kind === KIND.lost && dark ? "#e8e8e8" : kind === KIND.preempted ? blend(base, theme.back, 0.5) : base;
    const waits = kind === KIND.wait || kind === KIND.cpuWait;
    const pending = blend(solid, theme.back, waits ? 0.6 : 0.74);
    const edge = waits ? blend(solid, "#a0104c", 0.25) : blend(solid, dark ? "#ffffff" : "#000000", 0.22);
    const dimSolid = blend(solid, theme.back, 0.82);
    return { solid, pending, edge, ink: readable(solid), pendingInk: readable(pending),
      dimSolid, packedSolid: pixelOf(solid), packedDim: pixelOf(dimSolid), dimPending: blend(solid, theme.back, 0.92), dimEdge: blend(solid, theme.back, 0.7) };
  });
  hatch = { soft: hatched(theme.line), danger: hatched(theme.danger) };
  packed = { grid: pixelOf(theme.grid), match: pixelOf(theme.match) };
  overview = null;
}

/** A colour as one pixel of an image: red, green, blue, alpha in the order of memory. */
const pixelOf = (hex) => new Uint32Array(Uint8ClampedArray.of(...channels(hex), 255).buffer)[0];

/** Diagonal lines of one colour. */
function hatched(colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour;
  pen.lineWidth = 1.5;
  for (const shift of [-8, 0, 8]) (pen.moveTo(shift - 1, 9), pen.lineTo(shift + 9, -1));
  pen.stroke();
  return ctx.createPattern(tile, "repeat");
}
