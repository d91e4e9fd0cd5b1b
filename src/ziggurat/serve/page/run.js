// One run: what it does, what it waits for, its calls.
import { html, Ago, Alert, Block, Dialog, Empty, Figures, Status, count, duration, isIdle, json, money, runLink, seconds, statusOf, tokens, useEffect, useRef, useState, useTitle, visible } from "./html.js";
import { follow, get, post, query, runPath } from "./server.js";
import { Tree, numberOf } from "./tree.js";
import { Node } from "./node.js";
import { Decisions } from "./decisions.js";

const FIRST = 200; // nodes of the first reading
const PAGE = 2000; // nodes of each later reading
const PAUSE = 100; // milliseconds

/** Whether a run whose events ended, as it waited, is driven again, or will be as nothing more is to be decided. */
const goesOn = (run) => ["running", "queued"].includes(run.status) || (statusOf(run.status) === "waiting" && !(run.pending || []).length);

/** Read the run and its nodes, follow its events, and read again what these change. */
function useRun(id) {
  const [state, setState] = useState({ run: null, nodes: [], total: 0, live: {}, error: "", stream: "" });
  const reading = useRef({ busy: false, again: false, timer: 0 });
  const put = (more) => setState((now) => ({ ...now, ...(typeof more === "function" ? more(now) : more) }));
  useEffect(() => {
    const abort = new AbortController();
    const mine = reading.current;
    const page = (from, size) => get(runPath(id, "/tree") + query({ from, count: size }), abort.signal);
    let stream = null;
    async function nodes(first) {
      let answer = await page(0, first ? FIRST : PAGE);
      const { last } = answer;
      let all = answer.nodes;
      if (first) put({ nodes: all, total: answer.total });
      while (answer.nodes.length && all.length < answer.total) {
        answer = await page(all.length, PAGE);
        all = all.concat(answer.nodes);
      }
      put({ nodes: all, total: Math.max(all.length, answer.total) });
      return last;
    }
    async function read(first) {
      if (mine.busy) return (mine.again = true);
      mine.busy = true;
      const { ended } = mine; // a reading from before the end does not show that the run goes on after it
      let last;
      let run;
      const began = performance.now();
      try {
        const reply = get(runPath(id), abort.signal).then((answer) => {
          put({ run: answer, error: "" });
          return answer;
        });
        [last, run] = await Promise.all([nodes(first), reply]);
      } catch (error) {
        if (!abort.signal.aborted) put({ error: error.message });
      }
      mine.busy = false;
      if (abort.signal.aborted) return;
      if (!stream) stream = follow(id, last, hear, (state) => {
        mine.ended = state === "ended";
        put({ stream: state });
      });
      else if (ended && mine.ended && run && goesOn(run)) {
        stream.again();
        mine.again = true;
      }
      if (mine.again) later(Math.max(PAUSE, 2 * (performance.now() - began)));
    }
    function later(pause) {
      mine.again = false;
      clearTimeout(mine.timer);
      mine.timer = setTimeout(() => read(false), pause);
    }
    function hear(event) {
      let data = null;
      try {
        data = event.data ? JSON.parse(event.data) : null;
      } catch (error) {
        return put({ error: "An event of the stream is not JSON: " + error.message });
      }
      const text = data && (data.text ?? (data.delta && data.delta.text));
      if (/delta/i.test(event.name) && typeof text === "string")
        return put((now) => ({ live: { ...now.live, [data.path]: ((now.live[data.path] || "") + text).slice(-20000) } }));
      if (mine.busy) mine.again = true;
      else later(0);
    }
    mine.refresh = () => read(false);
    read(true);
    return () => {
      abort.abort();
      clearTimeout(mine.timer);
      if (stream) stream.stop();
    };
  }, [id]);
  return [state, () => reading.current.refresh()];
}

const FORMS = {
  message: { title: "Message", field: "text", label: "Message to the run", button: "Send", path: "/inject" },
  fork: { title: "Fork", field: "prompt", label: "Another prompt", button: "Fork", path: "/fork", optional: true },
};

function TextDialog({ id, kind, at, onClose, onDone }) {
  const form = FORMS[kind];
  const [error, setError] = useState("");
  async function send(event) {
    event.preventDefault();
    const text = new FormData(event.target).get("text");
    try {
      const answer = await post(runPath(id, form.path), { ...(at === undefined ? {} : { at }), ...(text ? { [form.field]: text } : {}) });
      onClose();
      onDone(answer);
    } catch (failure) {
      setError(failure.message);
    }
  }
  return html`<${Dialog} title=${at === undefined ? form.title : form.title + " at " + at} onClose=${onClose}>
    <form class="fields" onSubmit=${send}>
      <label>${form.label} ${form.optional && html`<small>optional</small>`}<textarea name="text" rows="4" required=${!form.optional} autofocus></textarea></label>
      <${Alert} text=${error} />
      <footer><button class="main">${form.button}</button></footer>
    </form><//>`;
}

function Facts({ run, total }) {
  const took = seconds(run.updated) - seconds(run.started);
  const figures = [
    ["Agent", visible(run.agent)], ["Started", html`<${Ago} time=${run.started} />`], ["Time", duration(took)],
    ["Calls", count(total)], ["Tokens", count(tokens(run.usage))], ["Cost", money(run.cost)],
    ["Session", run.session && html`<a href=${"#/sessions/" + encodeURIComponent(run.session)}>${visible(run.session)}</a>`],
    ["Continues as", run.next && html`<a href=${runLink(run.next)}>${visible(run.next)}</a>`],
    ...Object.entries(run.labels || {}).map(([name, value]) => [name, visible(value)]),
  ];
  return html`<${Figures} values=${figures} />`;
}

function Actions({ id, status, onAct, onOpen }) {
  const active = ["running", "waiting", "queued"].includes(status);
  return html`<div class="actions">
    ${active && html`<button onClick=${() => onOpen("message")}>Message</button>
      <button class="danger" onClick=${() => onAct("/cancel")}>Cancel</button>`}
    ${status !== "running" && html`<button onClick=${() => onAct("/resume")}>Resume</button>
      <button onClick=${() => onAct("/replay")}>Replay</button>`}
    <button onClick=${() => onOpen("fork")}>Fork</button>
    <a class="button" href=${"#/diff?a=" + encodeURIComponent(id)}>Compare</a>
    <a class="button" href=${runPath(id, "/record")} download=${id + ".jsonl"}>Record</a>
  </div>`;
}

function Outcome({ run, live }) {
  const going = Object.values(live).at(-1);
  const failed = statusOf(run.status) === "failed";
  const given = run.output != null && run.output !== "";
  const box = (name, value, kind = "") => html`<section class=${"outcome" + kind}><h2>${name}</h2><${Block} value=${value} label=${name} /></section>`;
  if (run.error || given)
    return html`${run.error && box(failed ? "Error" : "Stopped", run.error, failed ? " failed-box" : "")}
      ${given && box("Output", typeof run.output === "string" ? run.output : json(run.output))}`;
  if (going && statusOf(run.status) === "running")
    return html`<section class="outcome"><h2>Now</h2><pre class="now">${visible(going.slice(-2000))}</pre></section>`;
  return null;
}

export function Run({ id, number }) {
  const [{ run, nodes, total, live, error, stream }, refresh] = useRun(id);
  const [open, setOpen] = useState(null);
  const [note, setNote] = useState("");
  const [fault, setFault] = useState("");
  const [drawn, setDrawn] = useState(false);
  const found = number === undefined ? -1 : nodes.findIndex((node, at) => String(numberOf(node, at)) === number);
  const select = (at) => history.replaceState(null, "", runLink(id, numberOf(nodes[at], at))) ||
    dispatchEvent(new HashChangeEvent("hashchange"));
  useTitle((run && run.prompt) || id);
  function done(answer) {
    setFault("");
    setNote("");
    if (answer && answer.run_id && answer.run_id !== id) location.hash = runLink(answer.run_id);
    else refresh();
  }
  async function act(path, body) {
    try {
      const answer = await post(runPath(id, path), body);
      done(answer);
      if (path === "/replay") setNote("Replayed from the record, with the same result.");
    } catch (failure) {
      setFault(failure.message);
    }
  }
  if (!run) return error ? html`<${Empty} title="This run cannot be shown">${error}<//>` : html`<p class="unseen" role="status">Loading</p>`;
  const idle = isIdle(run);
  const status = idle ? "stopped" : statusOf(run.status);
  const following = stream === "waiting" ? "Connection lost; connecting again …" : "";
  return html`<section class="page run-page">
    <div class="title"><h1><${Status} name=${status} /> <span>${visible(run.prompt || id)}</span></h1>
      <${Actions} id=${id} status=${status} onAct=${act} onOpen=${(kind) => setOpen({ kind })} /></div>
    <p class="under"><span class="mono">${id}</span> <span role="status" aria-live="polite">${status === "waiting" ? "waiting for you" : idle ? "interrupted" : visible(run.status)}</span></p>
    <${Facts} run=${run} total=${total} />
    <${Alert} text=${fault || following || error} />
    ${note && html`<p class="note" role="status">${note}</p>`}
    <${Decisions} id=${id} pending=${run.pending || []} onDone=${refresh} />
    <${Outcome} run=${run} live=${live} />
    <details class="standing" onToggle=${(event) => setDrawn(event.target.open)}><summary>Parts</summary>
      ${drawn && html`<img src=${runPath(id, "/standing") + query({ at: total })} alt="What it is made of, and how far it came" />`}</details>
    <div class="panes">
      <${Tree} nodes=${nodes} total=${total} live=${live} selected=${found} onSelect=${select} />
      <aside id="node-panel" tabindex="-1" aria-label="Call">
        ${found >= 0
          ? html`<${Node} key=${number} run=${id} node=${nodes[found]} number=${number} onFork=${/^\d+$/.test(number) && (() => setOpen({ kind: "fork", at: +number }))} />`
          : html`<${Empty} title="Select a call">Its prompt, reply, arguments and result are shown here.<//>`}
      </aside>
    </div>
    ${open && html`<${TextDialog} id=${id} ...${open} onClose=${() => setOpen(null)} onDone=${done} />`}
  </section>`;
}
