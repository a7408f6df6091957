// Formats quantities, as `yuzuri-view`'s text does.

function three(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

function scaled(value: number, units: readonly string[]): string {
  let unit = 0;
  while (Math.abs(value) >= 999.5 && unit + 1 < units.length) {
    value /= 1000;
    unit += 1;
  }
  return unit === 0 ? `${value.toFixed(0)} ${units[0]}` : `${three(value)} ${units[unit]}`;
}

/** Bits per second. */
export const rate = (bps: number): string => scaled(bps, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]);
/** Bytes. */
export const bytes = (n: number): string => scaled(n, ["B", "kB", "MB", "GB", "TB"]);
/** Microseconds. */
export const timeUs = (us: number): string => (us >= 1e6 ? `${three(us / 1e6)} s` : `${three(us / 1e3)} ms`);
/** Counts. */
export const count = (n: number): string => (n < 10_000 ? n.toFixed(0) : scaled(n, ["", "k", "M", "G"]).replace(" ", ""));
/** Counts in full, with thin spaces between thousands. */
export const whole = (n: number): string => n.toFixed(0).replace(/\B(?=(\d{3})+$)/g, "\u2009");

/** A count and what is counted, in the singular or the plural: `1 flow`, `0 flows`, `12.3k flows`. */
export const counted = (count: number | string, noun: string): string => `${count} ${noun}${String(count) === "1" ? "" : "s"}`;

/** Time of day of a Unix time in microseconds, with `digits` of the second. */
export function clock(unixUs: number, digits: number): string {
  const date = new Date(Math.floor(unixUs / 1000));
  const two = (n: number): string => String(n).padStart(2, "0");
  const fraction = String(Math.floor(((unixUs % 1e6) + 1e6) % 1e6)).padStart(6, "0").slice(0, digits);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}${digits > 0 ? `.${fraction}` : ""}`;
}

/** Minutes and seconds since the start, with `digits` of the second. */
export function elapsed(us: number, digits: number): string {
  const sign = us < 0 ? "-" : "";
  const scale = 10 ** (6 - digits);
  const rounded = Math.round(Math.abs(us) / scale) * scale;
  const seconds = Math.floor(rounded / 1e6);
  const fraction = digits > 0 ? `.${String(rounded % 1e6).padStart(6, "0").slice(0, digits)}` : "";
  const h = Math.floor(seconds / 3600);
  const m = Math.floor((seconds % 3600) / 60);
  const s = String(seconds % 60).padStart(2, "0");
  return h > 0 ? `${sign}${h}:${String(m).padStart(2, "0")}:${s}${fraction}` : `${sign}${m}:${s}${fraction}`;
}

/** The next "round" number at or above, so that axes do not move with each sample. */
export function roundUp(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10]) {
    if (value <= step * power * 1.0001) return step * power;
  }
  return 10 * power;
}
