// A flow's last half minute as a sparkline: throughput as an area, and the window. It is SVG and
// not a canvas: each canvas is a layer of its own in the browser, and many of them reduce the
// chart's frame rate.
import { svg } from "./dom";
import { SPARK_POINTS, type Flow } from "./flows";

/** Units of the picture, which is stretched to its place; half of the lines' width stays free above
 * and below. */
const [WIDTH, HEIGHT, FREE] = [SPARK_POINTS - 1, 26, 2];

/** The points of a line that ends at the right edge, the largest value on top; empty without a line. */
export function linePath(values: readonly number[]): string {
  if (values.length < 2) return "";
  const most = Math.max(...values, 1);
  const left = WIDTH - (values.length - 1);
  return values.map((value, n) => `${n === 0 ? "M" : "L"}${left + n} ${(HEIGHT - FREE - (value / most) * (HEIGHT - 2 * FREE)).toFixed(1)}`).join("");
}

export class Spark {
  readonly root = svg("svg");
  private readonly ground = this.path("ground");
  private readonly rate = this.path("rate");
  private readonly cwnd = this.path("cwnd");

  constructor() {
    this.root.setAttribute("class", "spark-picture");
    this.root.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    this.root.setAttribute("preserveAspectRatio", "none");
    this.root.setAttribute("aria-hidden", "true");
  }

  private path(kind: string): SVGPathElement {
    const path = svg("path");
    path.setAttribute("class", kind);
    this.root.append(path);
    return path;
  }

  draw(flow: Flow): void {
    const rate = linePath(flow.rates);
    this.ground.setAttribute("d", rate === "" ? "" : `${rate}V${HEIGHT}H${WIDTH - (flow.rates.length - 1)}Z`);
    this.rate.setAttribute("d", rate);
    this.cwnd.setAttribute("d", linePath(flow.windows));
  }
}
