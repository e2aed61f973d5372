/** Charts in SVG with labelled axes. */

import { draw } from "./dom.js";

const HEIGHT = 260, LEFT = 52, RIGHT = 14, TOP = 14, BOTTOM = 46;

/** The scale of an axis, from values to coordinates; `log` for powers of ten. */
function axis([least, most], [from, to], log) {
  const place = log ? Math.log10 : (value) => value;
  return (value) => from + ((place(value) - place(least)) / (place(most) - place(least))) * (to - from);
}

/**
 * An empty chart with axes, and its scales.
 * @param {{width: number, x: number[], y: number[], xName: string, yName: string, xTicks: number[], yTicks: number[], logY?: boolean, title: string}} how
 */
export function chart(how) {
  const { width } = how;
  const x = axis(how.x, [LEFT, width - RIGHT], false), y = axis(how.y, [HEIGHT - BOTTOM, TOP], how.logY);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": how.title, class: "chart" });
  for (const value of how.yTicks) {
    svg.append(line("grid", LEFT, y(value), width - RIGHT, y(value)), text(LEFT - 8, y(value) + 4, shown(value), "end"));
  }
  for (const value of how.xTicks) svg.append(text(x(value), HEIGHT - BOTTOM + 18, shown(value), "middle"));
  svg.append(
    line("axis", LEFT, HEIGHT - BOTTOM, width - RIGHT, HEIGHT - BOTTOM),
    text((LEFT + width - RIGHT) / 2, HEIGHT - 8, how.xName, "middle", "axis-name"),
    draw("text", { class: "axis-name", "text-anchor": "middle", transform: `translate(14 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)` }, how.yName),
  );
  return { svg, x, y, bottom: HEIGHT - BOTTOM, top: TOP };
}

export const line = (kind, x1, y1, x2, y2) => draw("line", { class: kind, x1, y1, x2, y2 });

export const text = (x, y, said, anchor = "start", kind = "tick") => draw("text", { x, y, class: kind, "text-anchor": anchor }, said);

/** A curve through points [x, y] of a chart, clipped at its edges. */
export function curve({ x, y, bottom, top }, points, kind) {
  const path = points.map(([a, b], i) => `${i ? "L" : "M"}${x(a).toFixed(1)} ${Math.min(bottom, Math.max(top, y(b))).toFixed(1)}`);
  return draw("path", { class: `curve ${kind}`, d: path.join("") });
}

/** A point of a curve. */
export const dot = ({ x, y, bottom, top }, a, b, kind) => draw("circle", { class: `dot ${kind}`, r: 4.5, cx: x(a), cy: Math.min(bottom, Math.max(top, y(b))) });

function shown(value) {
  if (value >= 1000) return value.toLocaleString("en");
  return String(Number(value.toPrecision(3)));
}
