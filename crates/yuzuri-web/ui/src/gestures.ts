// Mouse, touch and pen on charts with a common time axis: dragging selects, or moves with shift or
// a finger; two fingers and the wheel zoom. Charts of the live page and of reports share it.
import type { View } from "./drawn";

/** A target for pointers: lanes of lines over time. */
export interface Lanes {
  readonly lanes: HTMLElement;
  /** Left edge and width of the lines, CSS pixels within `lanes`. */
  readonly edges: { left: number; width: number };
  timeAt(x: number): number;
  /** Shows the stretch selected by a drag, CSS pixels, or hides it. */
  select(from: number | undefined, to: number): void;
}

/** The effects of gestures on the view. */
export interface GestureEffects<P extends Lanes> {
  panelOf(target: EventTarget | null): P | undefined;
  view(): View;
  /** A drag selected this. */
  show(from: number, to: number): void;
  /** A drag moved the view that was shown when it began. */
  move(view: View): void;
  /** Two fingers, `near` times as far apart as at first: `middle` stays where it was in that view. */
  pinch(view: View, near: number, middle: number): void;
  zoom(factor: number, around: number): void;
  pan(us: number): void;
  /** The pointer is at `x` of the lanes, within the lines. */
  point(panel: P, x: number, event: PointerEvent): void;
  leave(dragging: boolean): void;
}

/** A view of `span` with `around` at the same part of the width as in `view`. */
export function spanned(view: View, span: number, around: number): View {
  const part = (around - view.from) / (view.to - view.from);
  return { from: around - part * span, to: around + (1 - part) * span };
}

interface Touch {
  x: number;
  y: number;
}

const apart = (a: Touch, b: Touch): number => Math.max(Math.abs(a.x - b.x), 20);

export const within = (panel: Lanes, x: number): number => x - panel.lanes.getBoundingClientRect().left;

/** Listens to the pointers on `chart`. */
export function listen<P extends Lanes>(chart: HTMLElement, effects: GestureEffects<P>): void {
  const pointers = new Map<number, Touch>();
  let drag: { panel: P; from: number; pan: boolean; view: View; moved: boolean } | undefined;
  let pinch: { distance: number; middle: number; view: View } | undefined;

  chart.addEventListener("pointerdown", (event) => {
    const panel = effects.panelOf(event.target);
    if (panel === undefined || event.button > 1) return;
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    chart.setPointerCapture(event.pointerId);
    const touch = event.pointerType === "touch";
    if (pointers.size === 2) {
      const [a, b] = [...pointers.values()];
      drag = undefined;
      panel.select(undefined, 0);
      pinch = { distance: apart(a, b), middle: panel.timeAt(within(panel, (a.x + b.x) / 2)), view: { ...effects.view() } };
      return;
    }
    drag = { panel, from: event.clientX, pan: touch || event.shiftKey || event.button === 1, view: { ...effects.view() }, moved: false };
  });

  chart.addEventListener("pointermove", (event) => {
    const panel = drag?.panel ?? effects.panelOf(event.target);
    if (pointers.has(event.pointerId)) pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (pinch !== undefined && pointers.size === 2) {
      const [a, b] = [...pointers.values()];
      effects.pinch(pinch.view, apart(a, b) / pinch.distance, pinch.middle);
      return;
    }
    if (panel === undefined) return;
    if (drag !== undefined && pointers.has(event.pointerId)) {
      const far = event.clientX - drag.from;
      if (Math.abs(far) > 4) drag.moved = true;
      if (drag.moved && drag.pan) {
        const us = (far / panel.edges.width) * (drag.view.to - drag.view.from);
        effects.move({ from: drag.view.from - us, to: drag.view.to - us });
      } else if (drag.moved) {
        panel.select(within(panel, drag.from), within(panel, event.clientX));
      }
    }
    const x = within(panel, event.clientX);
    const { left, width } = panel.edges;
    if (x >= left && x <= left + width) effects.point(panel, x, event);
  });

  const end = (event: PointerEvent): void => {
    pointers.delete(event.pointerId);
    if (pointers.size < 2) pinch = undefined;
    if (drag === undefined) return;
    const { panel, from, pan, moved } = drag;
    drag = undefined;
    panel.select(undefined, 0);
    if (!moved || pan || event.type !== "pointerup") return;
    const ends = [within(panel, from), within(panel, event.clientX)];
    if (Math.abs(ends[0] - ends[1]) <= 6) return;
    const [a, b] = ends.map((x) => panel.timeAt(x));
    effects.show(Math.min(a, b), Math.max(a, b));
  };
  chart.addEventListener("pointerup", end);
  chart.addEventListener("pointercancel", end);
  chart.addEventListener("pointerleave", () => effects.leave(drag !== undefined));

  chart.addEventListener(
    "wheel",
    (event) => {
      const panel = effects.panelOf(event.target);
      // On a narrow page the wheel scrolls, unless with ctrl (which is also what a pinch on a touchpad sends).
      if (panel === undefined || (window.innerWidth <= 860 && !event.ctrlKey)) return;
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) effects.pan((event.deltaX / panel.edges.width) * (effects.view().to - effects.view().from));
      else effects.zoom(Math.exp(Math.max(Math.min(event.deltaY, 120), -120) * 0.002), panel.timeAt(within(panel, event.clientX)));
    },
    { passive: false },
  );
}
