// Server-sent events by `fetch`: an `EventSource` cannot send a token.

export interface Sent {
  name: string;
  data: string;
}

/** Takes pieces of a stream as they arrive and returns complete events (as the server writes them:
 * `event`, one `data`). */
export class Events {
  private rest = "";

  take(piece: string): Sent[] {
    const parts = (this.rest + piece).split("\n\n");
    this.rest = parts.pop() ?? "";
    return parts.flatMap((part) => {
      let [name, data] = ["message", ""];
      for (const line of part.split("\n")) {
        if (line.startsWith("event: ")) name = line.slice(7);
        else if (line.startsWith("data: ")) data = line.slice(6);
      }
      return data === "" ? [] : [{ name, data }];
    });
  }
}
