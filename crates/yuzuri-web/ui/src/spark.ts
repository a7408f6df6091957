// A flow's last half minute as a small picture: throughput with its ground, and the window.
import { SPARK_POINTS, type Flow } from "./flows";
import { color } from "./theme";

export function spark(canvas: HTMLCanvasElement, flow: Flow): void {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [canvas.clientWidth, canvas.clientHeight];
  if (w === 0) return;
  if (canvas.width !== Math.round(w * ratio)) {
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(h * ratio);
  }
  const c = canvas.getContext("2d");
  if (c === null) return;
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, w, h);
  const line = (values: number[], stroke: string, fill: boolean): void => {
    if (values.length < 2) return;
    const most = Math.max(...values, 1);
    c.beginPath();
    const left = w - ((values.length - 1) / (SPARK_POINTS - 1)) * w;
    values.forEach((value, n) => {
      const x = left + (n / (SPARK_POINTS - 1)) * w;
      const y = h - 2 - (value / most) * (h - 4);
      if (n === 0) c.moveTo(x, y);
      else c.lineTo(x, y);
    });
    c.strokeStyle = stroke;
    c.lineWidth = 1.25;
    c.lineJoin = "round";
    c.stroke();
    if (!fill) return;
    c.lineTo(w, h);
    c.lineTo(left, h);
    c.closePath();
    c.globalAlpha = 0.16;
    c.fillStyle = stroke;
    c.fill();
    c.globalAlpha = 1;
  };
  line(flow.rates, color("--rate"), true);
  line(flow.windows, color("--cwnd"), false);
}
