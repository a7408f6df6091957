// Lines over a common time axis. Without a graphics card, drawing long dashed lines takes most of a
// frame's time. Therefore the drawn lines are shifted with the view, and only changed parts are
// redrawn.
import type { View } from "./drawn";
import type { Grid } from "./thin";

type Values = readonly (number | null)[];

/** How a line is drawn; lengths are CSS pixels. */
export interface Style {
  color: string;
  width: number;
  dash: readonly number[];
  /** Upper end of its scale. */
  max: number;
  /** The colour of the area below it, or between it and another line. */
  area?: string;
  /** The number of that line. */
  to?: number;
}

/** Where and how lines are drawn. */
export interface LineGround {
  grid: Grid;
  view: View;
  styles: readonly Style[];
}

/** Maximum distance from a point that its line and the antialiased edges cover, CSS pixels. */
const REACH_PX = 3;
/** A stretch is redrawn from this many points before it on: those whose lines reach into its
 * pixels, rounded to whole pixels at both ends. */
const REACH = 2 * (REACH_PX + 2) + 1;

/** A line as it was drawn. Points are numbered from time 0 on, and stored by their number modulo the
 * capacity. */
interface Past {
  values: (number | null)[];
  /** Length of the line up to each point, device pixels, at which its dash pattern continues. */
  lengths: Float64Array;
}

/** A stretch of points, the last one excluded. */
type Stretch = [from: number, to: number];

/** Where a point or a value is on the canvas, device pixels. */
type Place = (of: number) => number;

/** Fills the area between a line and another one, or the lower end of the scale. */
function fill(c: CanvasRenderingContext2D, values: Values, other: Values | undefined, [from, to]: Stretch, x: Place, y: Place): void {
  const below = (i: number): number | null | undefined => (other === undefined ? 0 : other[i]);
  let begin = from;
  for (let i = from; i <= to; i += 1) {
    const [upper, lower] = i < to ? [values[i], below(i)] : [null, null];
    if (upper !== null && upper !== undefined && lower !== null && lower !== undefined) continue;
    if (i - begin > 1) {
      c.beginPath();
      for (let n = begin; n < i; n += 1) c.lineTo(x(n), y(values[n] as number));
      if (other === undefined) {
        c.lineTo(x(i - 1), y(0));
        c.lineTo(x(begin), y(0));
      } else {
        for (let n = i - 1; n >= begin; n -= 1) c.lineTo(x(n), y(other[n] as number));
      }
      c.fill();
    }
    begin = i + 1;
  }
}

export class Lines {
  readonly canvas = document.createElement("canvas");
  private readonly context = this.canvas.getContext("2d");
  private ratio = 1;
  private past: Past[] = [];
  /** Numbers of the points that were drawn. */
  private known: Stretch = [0, 0];
  private viewFrom = 0;
  /** Number of points for which there is room. */
  private capacity = 0;
  private key = "";
  private placed = "";

  constructor() {
    this.canvas.className = "lines";
  }

  /** Places the canvas, device pixels; at a new place, what was drawn is forgotten. */
  place({ left, top, width, height }: { left: number; top: number; width: number; height: number }): void {
    const ratio = window.devicePixelRatio || 1;
    const key = [left, top, width, height, ratio].join();
    if (key === this.placed) return;
    this.placed = key;
    this.ratio = ratio;
    this.canvas.width = Math.round(width);
    this.canvas.height = Math.round(height);
    const px = (device: number): string => `${device / ratio}px`;
    Object.assign(this.canvas.style, { left: px(left), top: px(top), width: px(width), height: px(height) });
    this.key = "";
  }

  /** Draws lines: two points per pixel of the grid each, null where there is nothing. */
  draw(lines: readonly Values[], ground: LineGround): void {
    const { context: c, ratio, canvas } = this;
    const { grid, view, styles } = ground;
    if (c === null) return;
    const first = 2 * Math.round(grid.start / grid.pixel);
    const count = grid.pixels * 2;
    const key = [grid.pixel, ...styles.map(({ color, area, max, dash }) => `${color} ${area} ${max} ${dash.join(" ")}`)].join();
    const moved = ((view.from - this.viewFrom) / grid.pixel) * ratio;
    const columns = Math.round(moved);
    // Less than a thousandth of a pixel comes from rounding.
    const isKept = key === this.key && Math.abs(moved - columns) < 1e-3 && columns >= 0 && columns < canvas.width && count <= this.capacity;
    if (!isKept) {
      // Rounding may add a pixel to the grid.
      this.capacity = count + 4;
      this.past = lines.map(() => ({ values: [], lengths: new Float64Array(this.capacity) }));
      this.known = [0, 0];
      this.viewFrom = view.from;
    } else if (columns > 0) {
      c.globalCompositeOperation = "copy";
      c.drawImage(canvas, -columns, 0);
      c.globalCompositeOperation = "source-over";
      this.viewFrom += (columns / ratio) * grid.pixel;
    }
    this.key = key;
    const [begin, end] = this.unchanged(lines, first, count);
    c.lineJoin = "round";
    const x: Place = (point) => ((grid.start - view.from) / grid.pixel + point / 2) * ratio;
    for (const [from, to] of begin === end ? [[0, count]] : [[0, begin], [end, count]]) {
      if (from === to) continue;
      // Redraws up to the next unchanged point, and as far as the line's ends reach.
      const left = from === 0 ? 0 : Math.max(Math.floor(x(from - 1) - REACH_PX * ratio), 0);
      const right = to === count ? canvas.width : Math.min(Math.ceil(x(to) + REACH_PX * ratio), canvas.width);
      c.save();
      c.beginPath();
      c.rect(left, 0, right - left, canvas.height);
      c.clip();
      c.clearRect(left, 0, right - left, canvas.height);
      const stretch: Stretch = [Math.max(from - REACH, 0), Math.min(to + REACH, count)];
      lines.forEach((values, n) => {
        const { color, area, to: other, width, dash, max } = styles[n];
        // A horizontal line covers whole pixels, also at 0, so it is sharp.
        const offset = ((width * ratio) % 2) / 2;
        const lowest = canvas.height - Math.ceil(width * ratio);
        const y: Place = (value) => Math.min(Math.round(canvas.height * (1 - value / max)), lowest) + offset;
        if (area !== undefined) {
          c.fillStyle = area;
          fill(c, values, other === undefined ? undefined : lines[other], stretch, x, y);
        }
        c.strokeStyle = color;
        c.lineWidth = width * ratio;
        c.setLineDash(dash.map((length) => length * ratio));
        this.stroke(c, values, n, first, stretch, x, y);
      });
      c.restore();
    }
    // Points beyond the right edge were not drawn, and lines near it only in part.
    const shown = Math.floor(2 * (canvas.width / ratio - (grid.start - view.from) / grid.pixel)) - REACH;
    this.known = [first, first + Math.max(Math.min(shown, count), 0)];
  }

  /** Returns the longest stretch in which no line has changed, and stores the lines. */
  private unchanged(lines: readonly Values[], first: number, count: number): Stretch {
    const [from, to] = this.known;
    let best: Stretch = [0, 0];
    let begin = 0;
    for (let i = 0; i <= count; i += 1) {
      const place = (first + i) % this.capacity;
      let same = i < count && first + i >= from && first + i < to;
      if (i < count) {
        for (let n = 0; n < lines.length; n += 1) {
          const { values } = this.past[n];
          if (values[place] !== lines[n][i]) same = false;
          values[place] = lines[n][i];
        }
      }
      if (same) continue;
      if (i - begin > best[1] - best[0]) best = [begin, i];
      begin = i + 1;
    }
    return best;
  }

  /** Draws a stretch of the n-th line, and measures it. */
  private stroke(c: CanvasRenderingContext2D, values: Values, n: number, first: number, [from, to]: Stretch, x: Place, y: Place): void {
    const { lengths } = this.past[n];
    let [lastX, lastY, length, open] = [0, 0, 0, false];
    for (let i = from; i < to; i += 1) {
      const value = values[i];
      if (value === null || value === undefined) {
        if (open) c.stroke();
        open = false;
        continue;
      }
      const place = (first + i) % this.capacity;
      const [atX, atY] = [x(i), y(value)];
      if (!open) {
        // A line that comes from further left continues its dashes.
        length = i === from ? lengths[place] : 0;
        c.beginPath();
        c.lineDashOffset = length;
        c.moveTo(atX, atY);
        open = true;
      } else {
        length += Math.hypot(atX - lastX, atY - lastY);
        // Points within a level stretch change nothing.
        if (atY !== lastY || i + 1 === to || values[i + 1] !== value) c.lineTo(atX, atY);
      }
      lengths[place] = length;
      [lastX, lastY] = [atX, atY];
    }
    if (open) c.stroke();
  }
}
