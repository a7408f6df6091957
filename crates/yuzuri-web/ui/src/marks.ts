// Event marks and state strips: distinguished by letter, shape and pattern as well as by colour.
import { E, Kind, Reason, type EventData } from "./wire";

export type Shape = "up" | "down" | "diamond" | "circle" | "square" | "hexagon";

export interface Glyph {
  letter: string;
  label: string;
  shape: Shape;
  /** Custom property of the colour. */
  color: string;
  /** The lane of marks: 0 retransmissions, 1 marks in ACKs, 2 other. */
  line: 0 | 1 | 2;
}

const glyph = (letter: string, label: string, shape: Shape, color: string, line: 0 | 1 | 2): Glyph => ({ letter, label, shape, color, line });

export const GLYPHS = {
  timeout: glyph("T", "Retransmission timeout (RTO)", "diamond", "--loss", 0),
  fast: glyph("F", "Fast retransmission", "up", "--recovery", 0),
  afterTimeout: glyph("L", "Retransmission after a timeout", "down", "--loss", 0),
  probe: glyph("P", "Tail-loss probe", "circle", "--disorder", 0),
  resent: glyph("R", "Retransmission, cause not known", "up", "--recovery", 0),
  dsack: glyph("D", "DSACK: arrived twice", "square", "--disorder", 1),
  ece: glyph("E", "ECN echo", "hexagon", "--cwr", 1),
  local: glyph("Q", "Local congestion: the device's own queue was full", "square", "--cwr", 2),
  ecn: glyph("E", "Reduced because of ECN", "hexagon", "--cwr", 2),
  reneging: glyph("N", "The receiver dropped data that it had SACKed", "diamond", "--loss", 2),
  reordering: glyph("O", "Reordering, not loss", "circle", "--muted-strong", 2),
  undo: glyph("U", "Reduction undone", "up", "--good", 2),
  open: glyph("S", "Connection opened", "circle", "--good", 2),
  close: glyph("X", "Connection closed", "square", "--muted-strong", 2),
  control: glyph("C", "Congestion control changed", "hexagon", "--muted-strong", 2),
} as const satisfies Record<string, Glyph>;

/** The mark of an event; none for state changes that the strip shows. */
export function glyphOf(event: EventData): Glyph | undefined {
  const reason = event[E.REASON];
  switch (event[E.KIND]) {
    case Kind.TIMEOUT: return GLYPHS.timeout;
    case Kind.RETRANSMIT:
      if (reason === Reason.FAST_RETRANSMIT) return GLYPHS.fast;
      if (reason === Reason.TAIL_LOSS_PROBE) return GLYPHS.probe;
      if (reason === Reason.TIMEOUT || reason === Reason.LOSS_RECOVERY) return GLYPHS.afterTimeout;
      return GLYPHS.resent;
    case Kind.STATE:
      if (reason === Reason.LOCAL_CONGESTION) return GLYPHS.local;
      if (reason === Reason.ECN) return GLYPHS.ecn;
      if (reason === Reason.SACK_RENEGING) return GLYPHS.reneging;
      return undefined;
    case Kind.REORDERING: return GLYPHS.reordering;
    case Kind.UNDO: return GLYPHS.undo;
    case Kind.OPEN: return GLYPHS.open;
    case Kind.CLOSE: return GLYPHS.close;
    case Kind.CONTROL: return GLYPHS.control;
    default: return undefined;
  }
}

/** Marks from a bucket's kinds, where the events themselves are no longer known. */
export function glyphsOfKinds(kinds: number): Glyph[] {
  const found: Glyph[] = [];
  const has = (kind: number): boolean => (kinds & (1 << kind)) !== 0;
  if (has(Kind.TIMEOUT)) found.push(GLYPHS.timeout);
  if (has(Kind.RETRANSMIT)) found.push(GLYPHS.resent);
  if (has(Kind.REORDERING)) found.push(GLYPHS.reordering);
  if (has(Kind.UNDO)) found.push(GLYPHS.undo);
  if (has(Kind.OPEN)) found.push(GLYPHS.open);
  if (has(Kind.CLOSE)) found.push(GLYPHS.close);
  if (has(Kind.CONTROL)) found.push(GLYPHS.control);
  return found;
}

/** A shape's outline around a point as path data, for canvas and SVG; `r` is its nominal radius. */
export function outline(shape: Shape, x: number, y: number, r: number): string {
  const round = (n: number): string => String(Math.round(n * 100) / 100);
  const closed = (...points: [number, number][]): string => `M${points.map(([dx, dy]) => `${round(x + dx * r)} ${round(y + dy * r)}`).join("L")}Z`;
  switch (shape) {
    case "up": return closed([0, -1.25], [1.2, 0.95], [-1.2, 0.95]);
    case "down": return closed([0, 1.25], [1.2, -0.95], [-1.2, -0.95]);
    case "diamond": return closed([0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]);
    case "square": return closed([-1, -1], [1, -1], [1, 1], [-1, 1]);
    case "hexagon": return closed(...[0, 1, 2, 3, 4, 5].map((n): [number, number] => [1.15 * Math.cos((n * Math.PI) / 3), 1.15 * Math.sin((n * Math.PI) / 3)]));
    case "circle": {
      const radius = round(r * 1.05);
      return `M${round(x - r * 1.05)} ${round(y)}a${radius} ${radius} 0 1 1 ${round(r * 2.1)} 0a${radius} ${radius} 0 1 1 ${round(-r * 2.1)} 0Z`;
    }
  }
}

/** How far below a shape's point its letter is placed. */
export const letterShift = (shape: Shape, r: number): number => 0.5 + (shape === "up" ? r * 0.25 : shape === "down" ? -r * 0.2 : 0);

export function drawGlyph(c: CanvasRenderingContext2D, g: Glyph, x: number, y: number, r: number, color: string, ink: string): void {
  c.fillStyle = color;
  c.fill(new Path2D(outline(g.shape, x, y, r)));
  c.fillStyle = ink;
  c.font = `700 ${Math.round(r * 1.45)}px system-ui, sans-serif`;
  c.textAlign = "center";
  c.textBaseline = "middle";
  c.fillText(g.letter, x, y + letterShift(g.shape, r));
}

/** Colour properties of the states, in the kernel's order; nothing for Open. */
export const STATE_COLORS = ["", "--disorder", "--cwr", "--recovery", "--loss"] as const;
export const STATE_LETTERS = ["", "D", "C", "R", "L"] as const;

/** A stretch of a state: colour, pattern (dots, rising lines, upright lines, solid) and, where it fits, its letter. */
export function drawState(c: CanvasRenderingContext2D, state: number, x: number, y: number, w: number, h: number, color: string, ink: string): void {
  c.save();
  c.beginPath();
  c.rect(x, y, w, h);
  c.clip();
  c.fillStyle = color;
  c.globalAlpha = state === 4 ? 1 : 0.42;
  c.fillRect(x, y, w, h);
  c.globalAlpha = 1;
  c.strokeStyle = color;
  c.lineWidth = 1.5;
  if (state === 1) {
    for (let i = Math.floor(x / 5) * 5; i < x + w; i += 5) {
      c.fillRect(i + 1, y + 2, 2, 2);
      c.fillRect(i + 3.5, y + h - 5, 2, 2);
    }
  } else if (state === 2) {
    c.beginPath();
    for (let i = Math.floor((x - h) / 6) * 6; i < x + w + h; i += 6) {
      c.moveTo(i, y + h);
      c.lineTo(i + h, y);
    }
    c.stroke();
  } else if (state === 3) {
    c.beginPath();
    for (let i = Math.floor(x / 4) * 4 + 2; i < x + w; i += 4) {
      c.moveTo(i, y);
      c.lineTo(i, y + h);
    }
    c.stroke();
  }
  c.restore();
  if (w >= 13 && h >= 11) {
    const middle = x + w / 2;
    c.fillStyle = color;
    c.fillRect(middle - 5.5, y, 11, h);
    c.fillStyle = ink;
    c.font = "700 10px system-ui, sans-serif";
    c.textAlign = "center";
    c.textBaseline = "middle";
    c.fillText(STATE_LETTERS[state], middle, y + h / 2 + 0.5);
  }
}
