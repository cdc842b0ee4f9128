// Arrows: from a signal to the waits that it released, from a store to its flush, and between the parts of a submission.
// All arrows in view are drawn unless they are too many; those of the selected and of the hovered box always are.

function visibleFlows() {
  const below = (order, at) => (t) => {
    let lo = 0, hi = T.flows;
    while (lo < hi) {
      const middle = (lo + hi) >> 1;
      if (at(order[middle]) < t) lo = middle + 1;
      else hi = middle;
    }
    return lo;
  };
  const tails = below(flowsByTail, (f) => T.start[T.flowFrom[f]]), heads = below(flowsByHead, (f) => T.end[T.flowTo[f]]);
  const from = tails(view.t0), to = tails(view.t1), first = heads(view.t0), last = heads(view.t1);
  return { from, to, first, last, count: Math.max(to - from, last - first) };
}

function drawArrows() {
  hiddenArrows = 0;
  if (view.arrows) {
    const seen = visibleFlows();
    if (seen.count > MAX_ARROWS) hiddenArrows = seen.count;
    else {
      for (let at = seen.from; at < seen.to; at++) drawArrow(flowsByTail[at], theme.arrow, 1, 0.6);
      for (let at = seen.first; at < seen.last; at++) {
        const f = flowsByHead[at];
        if (T.start[T.flowFrom[f]] < view.t0) drawArrow(f, theme.arrow, 1, 0.6);
      }
    }
  }
  for (const i of new Set([view.selected, view.hover])) if (i >= 0) drawArrowsOf(i);
}

function drawArrowsOf(i) {
  if (releasedBy[i] >= 0) arrow(releasedBy[i], i, theme.accent, 2, 1);
  for (const to of releases(i).subarray(0, MAX_ARROWS)) arrow(i, to, theme.accent, 2, 1);
  const submission = [i, ...mates(i).slice(0, MAX_ARROWS)].filter((j) => T.kind[j] !== KIND.store && T.kind[j] !== KIND.flush);
  const on = (kind) => submission.filter((j) => lanes[T.lane[j]].kind === kind);
  const [call] = on(LANE.cpu), [box] = on(LANE.queue);
  if (call !== undefined && box !== undefined) connect(call, T.end[call], box, left[box]);
  if (box !== undefined) for (const j of on(LANE.engine)) connect(box, T.start[j], j, T.start[j]);
}

/** A dashed line between two parts of one submission. */
function connect(from, at, to, until) {
  if (boxTop(from) < 0 || boxTop(to) < 0) return;
  const tail = boxPlace(from), head = boxPlace(to), down = head.y > tail.y;
  ctx.strokeStyle = theme.accent;
  ctx.lineWidth = 1.5;
  ctx.setLineDash([5, 4]);
  ctx.beginPath();
  ctx.moveTo(xOf(at), down ? tail.y + tail.h : tail.y);
  ctx.lineTo(xOf(until), down ? head.y : head.y + head.h);
  ctx.stroke();
  ctx.setLineDash([]);
}

const drawArrow = (f, colour, width, alpha) => arrow(T.flowFrom[f], T.flowTo[f], colour, width, alpha);

/** An arrow within one row: an arc above the row. */
function arrowAlong(x0, x1, y, colour, width, alpha) {
  const size = width > 1 ? 6 : 4.5;
  ctx.globalAlpha = alpha;
  ctx.strokeStyle = ctx.fillStyle = colour;
  ctx.lineWidth = width;
  ctx.beginPath();
  ctx.moveTo(x0, y);
  ctx.bezierCurveTo(x0, y - 14, x1, y - 14, x1, y - size);
  ctx.stroke();
  ctx.beginPath();
  ctx.moveTo(x1, y + 1);
  ctx.lineTo(x1 - size * 0.6, y - size + 1);
  ctx.lineTo(x1 + size * 0.6, y - size + 1);
  ctx.fill();
  ctx.globalAlpha = 1;
}

/** From the end of a signal to the end of a wait: the moment at which it was released. */
function arrow(from, to, colour, width, alpha) {
  if (boxTop(from) < 0 || boxTop(to) < 0 || view.hidden[T.kind[from]] || view.hidden[T.kind[to]]) return;
  const tail = boxPlace(from), head = boxPlace(to), down = head.y > tail.y;
  const x0 = xOf(T.end[from]), y0 = down ? tail.y + tail.h : tail.y;
  const x1 = xOf(T.end[to]) - 1, y1 = down ? head.y : head.y + head.h;
  const sign = down ? 1 : -1, size = width > 1 ? 6 : 4.5;
  if (tail.y === head.y) return arrowAlong(x0, x1, tail.y, colour, width, alpha);
  if (Math.max(y0, y1) < TOP || Math.min(y0, y1) > view.height) return;
  const bend = Math.max(8, Math.abs(y1 - y0) * 0.45) * sign;
  ctx.globalAlpha = alpha;
  ctx.strokeStyle = ctx.fillStyle = colour;
  ctx.lineWidth = width;
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.bezierCurveTo(x0, y0 + bend, x1, y1 - bend, x1, y1 - sign * size);
  ctx.stroke();
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x1 - size * 0.6, y1 - sign * size);
  ctx.lineTo(x1 + size * 0.6, y1 - sign * size);
  ctx.fill();
  ctx.beginPath();
  ctx.arc(x0, y0, width > 1 ? 2.5 : 1.8, 0, 7);
  ctx.fill();
  ctx.globalAlpha = 1;
}
