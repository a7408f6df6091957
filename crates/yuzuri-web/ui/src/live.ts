// The connection: receives server-sent events, sends requests.
import { Events, type Sent } from "./stream";
import { credentials, takeToken } from "./token";
import type { ShareAnswer } from "./sharewire";
import type { Bottleneck, ChartMessage, EventsMessage, History, RowsMessage, Session, Status } from "./wire";

export type Link = { state: "connecting" } | { state: "open" } | { state: "lost"; why: string; again: number | undefined };

export interface Listener {
  link(link: Link): void;
  hello(epoch: number): void;
  rows(message: RowsMessage): void;
  chart(message: ChartMessage): void;
  events(message: EventsMessage): void;
  status(message: Status): void;
  gap(): void;
}

/** A refusal by the server, with its message. */
export class Refusal extends Error {
  constructor(
    why: string,
    readonly status: number,
  ) {
    super(why);
  }
}

async function refusal(response: Response): Promise<Refusal> {
  let why = `${response.status} ${response.statusText}`;
  try {
    const body: unknown = await response.json();
    if (typeof body === "object" && body !== null && "error" in body) why = String(body.error);
  } catch {
    // The answer does not come from this server: the status suffices.
  }
  return new Refusal(why, response.status);
}

async function answer(response: Response): Promise<unknown> {
  if (response.ok) return response.json();
  throw await refusal(response);
}

export async function ask<T>(path: string): Promise<T> {
  return (await answer(await fetch(path, { cache: "no-store", headers: credentials() }))) as T;
}

export async function request(path: string, body: unknown): Promise<void> {
  await answer(await fetch(path, { method: "POST", headers: { "Content-Type": "application/json", ...credentials() }, body: JSON.stringify(body) }));
}

export const session = (): Promise<Session> => ask("/api/session");
export const share = (): Promise<ShareAnswer> => ask("/api/share");
export const bottlenecks = (): Promise<{ epoch: number; bottlenecks: Bottleneck[] }> => ask("/api/bottlenecks");
/** A number of a record: its column in a recording, and what null means. */
export interface NumberOfRecord {
  name: string;
  value: number | null;
  unit: string;
  missing: string;
  source: string;
}
export const numbers = (id: string): Promise<{ time: number; numbers: NumberOfRecord[] }> => ask(`/api/flows/${id}`);
export const history = (id: string, from: number, points: number): Promise<History> =>
  ask(`/api/flows/${id}/history?from=${Math.floor(from)}&points=${points}`);

/** Silence after which the connection counts as dead even without an error (the server sends twice
 * a second). */
const SILENCE_MS = 6000;

/** Keeps a stream open, and reopens it with growing pauses. */
class Live {
  private listener: Listener | undefined;
  /** Aborts the open stream. */
  private stream: AbortController | undefined;
  private client: string | undefined;
  private flows: string[] = [];
  private failures = 0;
  private heard = 0;
  private timer: number | undefined;

  /** Opens the stream; messages go to the listener. */
  start(listener: Listener): void {
    this.listener = listener;
    window.setInterval(() => {
      if (this.stream !== undefined && performance.now() - this.heard > SILENCE_MS) this.lost("nothing arrived for some seconds");
    }, 1000);
    window.addEventListener("online", () => {
      if (this.stream === undefined) this.open();
    });
    // The address was opened again with another token: the browser does not reload the page for
    // that.
    window.addEventListener("hashchange", () => {
      if (takeToken()) this.open();
    });
    this.open();
  }

  private open(): void {
    window.clearTimeout(this.timer);
    this.stream?.abort();
    this.listener?.link({ state: "connecting" });
    this.heard = performance.now();
    this.client = undefined;
    const stream = new AbortController();
    this.stream = stream;
    void this.read(stream);
  }

  private async read(stream: AbortController): Promise<void> {
    const isCurrent = (): boolean => this.stream === stream;
    try {
      const response = await fetch(`/api/live?flows=${this.flows.join(",")}`, { cache: "no-store", headers: credentials(), signal: stream.signal });
      if (!response.ok || response.body === null) throw await refusal(response);
      const reader = response.body.getReader();
      const decoder = new TextDecoder();
      const events = new Events();
      for (;;) {
        const { done, value } = await reader.read();
        if (!isCurrent()) return;
        if (done) break;
        this.heard = performance.now();
        for (const event of events.take(decoder.decode(value, { stream: true }))) this.take(event);
      }
      this.lost("the server has ended");
    } catch (error) {
      if (!isCurrent()) return;
      if (error instanceof Refusal) this.lost(error.message, error.status !== 401);
      else this.lost("the server does not answer");
    }
  }

  private take({ name, data }: Sent): void {
    const message: unknown = JSON.parse(data);
    switch (name) {
      case "hello": {
        const { client, epoch } = message as { client: string; epoch: number };
        this.client = client;
        this.failures = 0;
        this.listener?.link({ state: "open" });
        this.listener?.hello(epoch);
        break;
      }
      case "rows":
        this.listener?.rows(message as RowsMessage);
        break;
      case "chart":
        this.listener?.chart(message as ChartMessage);
        break;
      case "events":
        this.listener?.events(message as EventsMessage);
        break;
      case "status":
        this.listener?.status(message as Status);
        break;
      case "gap":
        this.listener?.gap();
        break;
      default:
      // A newer server may send messages of unknown kinds.
    }
  }

  /** Retries after a while, unless that cannot help because the token is not the server's. */
  private lost(why: string, again = true): void {
    this.stream?.abort();
    this.stream = undefined;
    this.client = undefined;
    this.failures += 1;
    const pause = Math.min(500 * 2 ** (this.failures - 1), 8000);
    this.listener?.link({ state: "lost", why, again: again ? Date.now() + pause : undefined });
    window.clearTimeout(this.timer);
    if (again) this.timer = window.setTimeout(() => this.open(), pause);
  }

  /** Subscribes to these flows. */
  choose(flows: string[]): void {
    this.flows = flows;
    if (this.client === undefined) return;
    request("/api/live", { client: this.client, flows }).catch(() => {
      // The stream was lost meanwhile: it is reopened with the right flows in its address.
      if (this.stream !== undefined) this.open();
    });
  }
}

export const live = new Live();
