// All that the page asks of the server: JSON by fetch, and one stream of events.

export class ServerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function request(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", redirect: "error", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(0, "The server cannot be reached. It is asked again as soon as it answers.");
  }
  const text = await response.text();
  let body = null;
  try {
    body = text ? JSON.parse(text) : {};
  } catch {
    if (response.ok) throw new ServerError(response.status, "The server answered with something other than JSON.");
  }
  if (response.ok) return body;
  const reason = body && body.error && body.error.message;
  const login = response.status === 401 ? " Open the link that `ziggurat serve` printed." : "";
  throw new ServerError(response.status, (reason || "The server answered " + response.status + ".") + login);
}

export const get = (path, signal) => request(path, { signal });

export const post = (path, body = {}, headers = {}) =>
  request(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json", ...headers } });

export const runPath = (id, rest = "") => "/runs/" + encodeURIComponent(id) + rest;

export function query(values) {
  const pairs = Object.entries(values).filter(([, value]) => value !== "" && value != null);
  return pairs.length ? "?" + new URLSearchParams(pairs) : "";
}

/** The event of a block of the stream. */
export function parse(block) {
  const event = { name: "message" };
  const lines = [];
  for (const line of block.split("\n")) {
    const at = line.indexOf(":");
    if (!at) continue;
    const field = at < 0 ? line : line.slice(0, at);
    const value = at < 0 ? "" : line.slice(at + (line[at + 1] === " " ? 2 : 1));
    if (field === "data") lines.push(value);
    else if (field === "event") event.name = value;
    else if (field === "id") event.id = value;
    else if (field === "retry") event.retry = +value;
  }
  event.data = lines.join("\n");
  return event;
}

/**
 * Follow the events of a run, over cut connections, until its end, while the page is visible: a browser opens only six
 * connections to a server. `onState` gets "live", "waiting" (to connect again) or "ended".
 */
export function follow(id, after, onEvent, onState) {
  let last = after || "";
  let pause = 500;
  let connection = null;
  let timer = 0;
  let over = false;

  async function read(signal) {
    const response = await fetch(runPath(id, "/events") + query({ after: last }), {
      signal, redirect: "error", headers: { Accept: "text/event-stream" },
    });
    if (!response.ok) throw new ServerError(response.status, "The server answered " + response.status + ".");
    if (response.status === 204) return (over = true); // the run has ended
    onState("live");
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    let buffer = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done || over) return;
      buffer += decoder.decode(value, { stream: true });
      if (buffer.includes("\r")) buffer = buffer.replaceAll("\r\n", "\n");
      const blocks = buffer.split("\n\n");
      buffer = blocks.pop();
      for (const block of blocks) take(parse(block));
    }
  }

  function take(event) {
    if (over) return;
    if (event.retry) pause = event.retry;
    if (event.name === "reset") last = "";
    else if (event.id) last = event.id;
    if (event.name === "end") over = true;
    if (event.data) onEvent(event);
  }

  function connect() {
    clearTimeout(timer);
    if (over || connection || document.hidden) return;
    const here = (connection = new AbortController());
    read(here.signal)
      .catch((error) => error)
      .then((error) => {
        if (connection !== here) return;
        connection = null;
        if (error && [400, 401, 403, 404, 421].includes(error.status)) over = true;
        onState(over ? "ended" : "waiting");
        if (!over) timer = setTimeout(connect, pause);
      });
  }

  function disconnect() {
    clearTimeout(timer);
    const here = connection;
    connection = null;
    if (here) here.abort();
  }

  const turn = () => (document.hidden ? disconnect() : connect());
  document.addEventListener("visibilitychange", turn);
  connect();
  return {
    stop() {
      over = true;
      disconnect();
      document.removeEventListener("visibilitychange", turn);
    },
    again() {
      over = false;
      connect();
    },
  };
}
