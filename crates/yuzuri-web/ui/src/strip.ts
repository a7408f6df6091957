// The area below the lines: a strip of states per flow and, for one flow, event marks.
import { GLYPHS, STATE_COLORS, drawGlyph, drawState, glyphOf, glyphsOfKinds, type Glyph } from "./marks";
import { UNKNOWN, limitColor, limitShort } from "./limits";
import { isSingle, type Drawn, type PanelKind, type View } from "./drawn";
import { FONT } from "./plots";
import { color, flowColor, flowLetter } from "./theme";
import type { Columns, Grid } from "./thin";
import { E, Mark, type EventData } from "./wire";

const LINES = ["resent", "ACKs", "other"];
const LINE_HEIGHT = 17;
const MARK_WIDTH = 14;
const ROOM_FOR_WORDS = 50;
/** Height of the states, and the top of the lanes of marks below them, CSS pixels. */
const MARKS_TOP = 30;
/** Heights of the lanes of states and of limits and how far the lanes of the next flow are below them, CSS pixels. */
const LANES = {
  one: { state: 13, limit: 12, next: 30 },
  seq: { state: 13, limit: 12, next: 30 },
  small: { state: 8, limit: 5, next: 15 },
  over: { state: 9, limit: 5, next: 17 },
} as const;
const SHORT_FONT = "600 9.5px system-ui, sans-serif";

/** What is drawn, and where. */
export interface StripGround {
  /** Left edge and width of the lines, CSS pixels. */
  edges: { left: number; width: number };
  xOf(time: number): number;
  view: View;
  grid: Grid;
  flows: readonly Drawn[];
  columns: readonly Columns[];
}

/** A placed mark; several events may share one. */
export interface PlacedMark {
  x: number;
  y: number;
  glyph: Glyph;
  events: EventData[];
}

/** Calls back for each stretch of one value: pixels `first` to `last` (exclusive). */
function stretches(values: Uint8Array, each: (value: number, first: number, last: number) => void): void {
  let first = 0;
  for (let p = 1; p <= values.length; p += 1) {
    if (p < values.length && values[p] === values[first]) continue;
    each(values[first], first, p);
    first = p;
  }
}

/** Calls back for each stretch of a state other than Open: pixels `first` to `last` (exclusive). */
export function runs({ state }: Columns, each: (state: number, first: number, last: number) => void): void {
  stretches(state, (value, first, last) => {
    if (value !== 0 && value !== 255) each(value, first, last);
  });
}

/** More serious marks before less serious ones. */
const ORDER: readonly Glyph[] = Object.values(GLYPHS);

/** The height of a strip, CSS pixels. */
export const stripHeight = (kind: PanelKind, flows: number): number => (isSingle(kind) ? MARKS_TOP + LINES.length * LINE_HEIGHT : flows * LANES[kind].next + 4);

export class Strip {
  readonly canvas = document.createElement("canvas");
  private placed: PlacedMark[] = [];

  constructor(private readonly kind: PanelKind) {
    this.canvas.className = "strip";
  }

  size(width: number, flows: number): void {
    const height = stripHeight(this.kind, flows);
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
  }

  draw(ground: StripGround): void {
    const c = this.canvas.getContext("2d");
    if (c === null) return;
    const ratio = window.devicePixelRatio || 1;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, this.canvas.width, this.canvas.height);
    const { left, width } = ground.edges;
    const ink = color("--ink");
    const x = (pixel: number): number => Math.max(ground.xOf(ground.grid.start + pixel * ground.grid.pixel), left);
    const right = left + width;
    const lanes = LANES[this.kind];
    const height = lanes.state;
    c.font = FONT;
    ground.columns.forEach((columns, n) => {
      const y = isSingle(this.kind) ? 0 : 2 + n * lanes.next;
      c.fillStyle = color("--strip");
      c.fillRect(left, y, width, height);
      runs(columns, (state, first, last) => {
        const from = x(first);
        const to = Math.min(Math.max(x(last), from + 2), right);
        if (to > from) drawState(c, state, from, y, to - from, height, color(STATE_COLORS[state]), ink);
      });
      const limitY = y + height + 1;
      c.font = SHORT_FONT;
      c.textAlign = "center";
      c.textBaseline = "middle";
      stretches(columns.limit, (limit, first, last) => {
        const [from, to] = [x(first), Math.min(x(last), right)];
        if (limit === UNKNOWN || to <= from) return;
        c.fillStyle = color(limitColor(limit));
        c.fillRect(from, limitY, to - from, lanes.limit);
        const word = limitShort(limit) ?? "";
        if (lanes.limit < 10 || to - from < 6 * word.length + 4) return;
        c.fillStyle = ink;
        c.fillText(word, (from + to) / 2, limitY + lanes.limit / 2 + 0.5);
      });
      c.font = FONT;
      if (this.kind === "over") {
        c.fillStyle = flowColor(n);
        c.textAlign = "right";
        c.textBaseline = "middle";
        c.fillText(left < ROOM_FOR_WORDS ? flowLetter(n) : `${flowLetter(n)} state`, left - 6, y + height / 2 + 3);
      }
    });
    if (!isSingle(this.kind)) return;
    c.fillStyle = color("--muted");
    c.textAlign = "right";
    c.textBaseline = "middle";
    c.fillText("state", left - 6, 7);
    c.fillText("limit", left - 6, 21);
    LINES.forEach((name, n) => {
      const y = MARKS_TOP + n * LINE_HEIGHT + LINE_HEIGHT / 2;
      c.fillStyle = color("--muted");
      c.fillText(name, left - 6, y);
      c.fillStyle = color("--grid");
      c.fillRect(left, y + LINE_HEIGHT / 2 - 0.5, width, 1);
    });
    this.drawMarks(c, ground, left, right);
  }

  private drawMarks(c: CanvasRenderingContext2D, ground: StripGround, left: number, right: number): void {
    const flow = ground.flows[0];
    const columns = ground.columns[0];
    this.placed = [];
    if (flow === undefined || columns === undefined) return;
    const y = (line: number): number => MARKS_TOP + line * LINE_HEIGHT + LINE_HEIGHT / 2;
    // Duplicate ACKs and SACKs come in hundreds: ticks, not letters. Upper half duplicate ACKs, lower half SACKs.
    const perPixel = (ground.grid.pixel / (ground.view.to - ground.view.from)) * (right - left);
    for (let p = 0; p < columns.marks.length; p += 1) {
      const marks = columns.marks[p];
      if (marks === 0) continue;
      const x = ground.xOf(ground.grid.start + p * ground.grid.pixel);
      if (x < left || x > right) continue;
      if ((marks & Mark.DUP_ACK) !== 0) {
        c.fillStyle = color("--disorder");
        c.fillRect(x, y(1) - 6, Math.max(perPixel, 1.2), 5);
      }
      if ((marks & Mark.SACK) !== 0) {
        c.fillStyle = color("--recovery");
        c.fillRect(x, y(1) + 1, Math.max(perPixel, 1.2), 5);
      }
    }
    // Events are ordered by time, so an event close to the last mark of its lane joins that mark.
    const last: (PlacedMark | undefined)[] = [];
    const place = (glyph: Glyph, time: number, event: EventData | undefined): void => {
      const at = ground.xOf(time);
      if (at < left - 6 || at > right + 6) return;
      const mark = last[glyph.line];
      if (mark !== undefined && Math.abs(at - mark.x) < MARK_WIDTH) {
        if (event !== undefined) mark.events.push(event);
        // The more serious one is shown; pointing at it lists the others.
        if (ORDER.indexOf(glyph) < ORDER.indexOf(mark.glyph)) mark.glyph = glyph;
        return;
      }
      const placed = { x: Math.min(Math.max(at, left), right), y: y(glyph.line), glyph, events: event === undefined ? [] : [event] };
      last[glyph.line] = placed;
      this.placed.push(placed);
    };
    for (let p = 0; p < columns.kinds.length; p += 1) {
      const time = ground.grid.start + p * ground.grid.pixel;
      if (columns.kinds[p] > 3 && time < flow.store.eventsFrom) {
        for (const glyph of glyphsOfKinds(columns.kinds[p])) place(glyph, time, undefined);
      }
      if ((columns.marks[p] & Mark.DSACK) !== 0) place(GLYPHS.dsack, time, undefined);
      if ((columns.marks[p] & Mark.ECE) !== 0) place(GLYPHS.ece, time, undefined);
    }
    for (const event of flow.store.events) {
      if (event[E.TIME] < ground.view.from || event[E.TIME] > ground.view.to) continue;
      const glyph = glyphOf(event);
      if (glyph !== undefined) place(glyph, event[E.TIME], event);
    }
    for (const mark of this.placed) {
      drawGlyph(c, mark.glyph, mark.x, mark.y, 6.3, color(mark.glyph.color), color("--ink"));
    }
  }

  /** The mark under a point of the canvas, if any. */
  markAt(x: number, y: number): PlacedMark | undefined {
    return this.placed.find((mark) => Math.abs(mark.x - x) <= 8 && Math.abs(mark.y - y) <= 9);
  }
}
