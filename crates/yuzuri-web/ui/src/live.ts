// The connection: server-sent events in, wishes out.
import type { ShareAnswer } from "./sharewire";
import type { ChartMessage, EventsMessage, History, RowsMessage, Session, Status } from "./wire";

export type Link = { state: "connecting" } | { state: "open" } | { state: "lost"; why: string; again: number };

export interface Listener {
  link(link: Link): void;
  hello(epoch: number): void;
  rows(message: RowsMessage): void;
  chart(message: ChartMessage): void;
  events(message: EventsMessage): void;
  status(message: Status): void;
  gap(): void;
}

/** A refusal of the server, in its words. */
export class Refusal extends Error {}

async function answer(response: Response): Promise<unknown> {
  if (response.ok) return response.json();
  let why = `${response.status} ${response.statusText}`;
  try {
    const body: unknown = await response.json();
    if (typeof body === "object" && body !== null && "error" in body) why = String(body.error);
  } catch {
    // Not ours: the status says enough.
  }
  throw new Refusal(why);
}

export async function ask<T>(path: string): Promise<T> {
  return (await answer(await fetch(path, { cache: "no-store" }))) as T;
}

export async function wish(path: string, body: unknown): Promise<void> {
  await answer(await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }));
}

export const session = (): Promise<Session> => ask("/api/session");
export const share = (): Promise<ShareAnswer> => ask("/api/share");
export const history = (id: string, from: number, points: number): Promise<History> =>
  ask(`/api/flows/${id}/history?from=${Math.floor(from)}&points=${points}`);

/** No message for this long means that the connection is dead even if nobody said so (the server speaks twice a second). */
const SILENCE_MS = 6000;

/** Keeps a stream open, again and again with growing pauses. */
class Live {
  private listener: Listener | undefined;
  private source: EventSource | undefined;
  private client: string | undefined;
  private flows: string[] = [];
  private failures = 0;
  private heard = 0;
  private timer: number | undefined;

  /** Opens the stream; what it brings goes to the listener. */
  start(listener: Listener): void {
    this.listener = listener;
    window.setInterval(() => {
      if (this.source !== undefined && performance.now() - this.heard > SILENCE_MS) this.lost("nothing was heard for some seconds");
    }, 1000);
    window.addEventListener("online", () => this.now());
    this.open();
  }

  /** Tries at once. */
  private now(): void {
    if (this.source === undefined) this.open();
  }

  private open(): void {
    window.clearTimeout(this.timer);
    this.source?.close();
    this.listener?.link({ state: "connecting" });
    this.heard = performance.now();
    this.client = undefined;
    const source = new EventSource(`/api/live?flows=${this.flows.join(",")}`);
    this.source = source;
    const on = <T>(name: string, take: (message: T) => void): void => {
      source.addEventListener(name, (event) => {
        this.heard = performance.now();
        take(JSON.parse((event as MessageEvent<string>).data) as T);
      });
    };
    on<{ client: string; epoch: number }>("hello", ({ client, epoch }) => {
      this.client = client;
      this.failures = 0;
      this.listener?.link({ state: "open" });
      this.listener?.hello(epoch);
    });
    on<RowsMessage>("rows", (message) => this.listener?.rows(message));
    on<ChartMessage>("chart", (message) => this.listener?.chart(message));
    on<EventsMessage>("events", (message) => this.listener?.events(message));
    on<Status>("status", (message) => this.listener?.status(message));
    on("gap", () => this.listener?.gap());
    source.onerror = () => this.lost("the server does not answer");
  }

  private lost(why: string): void {
    this.source?.close();
    this.source = undefined;
    this.failures += 1;
    const pause = Math.min(500 * 2 ** (this.failures - 1), 8000);
    this.listener?.link({ state: "lost", why, again: Date.now() + pause });
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.open(), pause);
    if (this.failures > 1) void this.askWhy();
  }

  /** An event source does not tell why it was refused; a plain request does. */
  private async askWhy(): Promise<void> {
    try {
      await session();
    } catch (error) {
      if (error instanceof Refusal && this.source === undefined) {
        this.listener?.link({ state: "lost", why: error.message, again: Date.now() });
      }
    }
  }

  /** Says which flows are looked at closely. */
  choose(flows: string[]): void {
    this.flows = flows;
    if (this.client === undefined) return;
    wish("/api/live", { client: this.client, flows }).catch(() => {
      // The stream was cut meanwhile: it comes back with the right flows in its address.
      if (this.source !== undefined) this.open();
    });
  }
}

export const live = new Live();
