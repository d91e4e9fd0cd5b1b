// The list of runs: filters, search, and rows, read again while the page is visible.
import { html, Ago, Alert, Empty, Filters, Status, count, duration, isIdle, money, runLink, seconds, tokens, useEffect, useLater, useListener, useState, useTitle, visible } from "./html.js";
import { get, query } from "./server.js";
import { useAnswer } from "./answer.js";

const STATUSES = ["running", "Suspended", "Completed", "Failed", "Cancelled"];
const PAGE = 50;
const EVERY = 3000; // milliseconds between two readings of the list

/** Read the list again and again while the page is visible; what more was opened stays. */
function useRuns(values) {
  const [state, setState] = useState({ runs: null, next: null, error: "" });
  const search = query({ ...values, limit: PAGE });
  useEffect(() => {
    let timer = 0;
    let over = false;
    async function read() {
      clearTimeout(timer);
      if (document.hidden || over) return;
      try {
        const answer = await get("/runs" + search);
        if (!over) setState((now) => merge(now, answer));
      } catch (error) {
        if (!over) setState((now) => ({ ...now, error: error.message }));
      }
      if (!over) timer = setTimeout(read, EVERY);
    }
    setState({ runs: null, next: null, error: "" });
    read();
    document.addEventListener("visibilitychange", read);
    return () => {
      over = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", read);
    };
  }, [search]);
  const more = async () => {
    const answer = await get("/runs" + query({ ...values, limit: PAGE, before: state.next }));
    setState((now) => ({ ...now, runs: [...now.runs, ...answer.runs], next: answer.next }));
  };
  return [state, more];
}

function merge(now, answer) {
  const fresh = new Set(answer.runs.map((run) => run.run_id));
  const rest = (now.runs || []).slice(PAGE).filter((run) => !fresh.has(run.run_id));
  return { runs: [...answer.runs, ...rest], next: rest.length ? now.next : answer.next, error: "" };
}

function Search({ values }) {
  const { answer } = useAnswer("/agents");
  const set = (name, value) => (location.hash = "#/runs" + query({ ...values, [name]: value }));
  const soon = useLater(set);
  const later = (name) => (event) => soon(name, event.target.value);
  const Choice = ({ name, label, options }) => html`<select aria-label=${label} value=${values[name] || ""}
    onChange=${(event) => set(name, event.target.value)}>
    <option value="">${label}: all</option>${options.map((each) => html`<option value=${each}>${visible(each)}</option>`)}</select>`;
  return html`<${Filters}>
    <input type="search" class="grow" aria-label="Search in prompts, labels and ids" placeholder="Search   /" value=${values.search || ""} onInput=${later("search")} />
    ${Choice({ name: "status", label: "Status", options: STATUSES })}
    ${Choice({ name: "agent", label: "Agent", options: (answer ? answer.agents : []).map((agent) => agent.name) })}
    <input aria-label="Label" placeholder="label:value" value=${values.label || ""} onInput=${later("label")} />
    <input aria-label="Session" placeholder="session" value=${values.session || ""} onInput=${later("session")} />
  <//>`;
}

/** Move between rows that are links with j, k and the arrows. */
function moveRows(event) {
  const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
  if (!step || event.ctrlKey || event.metaKey || event.target.closest("input, textarea, select, dialog, [role=tree]")) return;
  const rows = [...document.querySelectorAll("a.row")];
  if (!rows.length) return;
  event.preventDefault();
  const at = rows.indexOf(document.activeElement);
  rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + step))].focus();
}

export const useRowKeys = () => useListener("keydown", moveRows);

function Row({ run }) {
  const took = seconds(run.updated) - seconds(run.started);
  const labels = Object.entries(run.labels || {});
  return html`<li><a class="row run" href=${runLink(run.run_id)}>
    <${Status} name=${isIdle(run) ? "stopped" : run.status} />
    <span class="what"><span class="prompt">${visible(run.prompt || "") || html`<i>no prompt</i>`}</span>
      <span class="under"><b>${visible(run.agent)}</b> <span class="mono">${visible(run.run_id)}</span>
        ${run.session && html`<span class="chip">${visible(run.session)}</span>`}
        ${labels.map(([name, value]) => html`<span class="chip">${visible(name)}:${visible(value)}</span>`)}</span></span>
    <span class="figure">${count(tokens(run.usage))}</span>
    <span class="figure">${money(run.cost)}</span>
    <span class="figure">${duration(took)}</span>
    <span class="figure"><${Ago} time=${run.started} /></span>
  </a></li>`;
}

export function RunList({ values }) {
  const [{ runs, next, error }, more] = useRuns(values);
  const filtered = Object.values(values).some(Boolean);
  useRowKeys();
  useTitle("Runs");
  return html`<section class="page">
    <h1>Runs</h1>
    <${Search} values=${values} />
    <${Alert} text=${error} />
    ${runs && runs.length > 0 && html`
      <div class="row run heads" aria-hidden="true"><span></span><span>Prompt</span><span class="figure">Tokens</span>
        <span class="figure">Cost</span><span class="figure">Time</span><span class="figure">Started</span></div>
      <ul class="rows" aria-label="Runs">${runs.map((run) => html`<${Row} key=${run.run_id} run=${run} />`)}</ul>
      ${next && html`<p class="centre"><button onClick=${more}>Show more</button></p>`}`}
    ${runs && !runs.length && (filtered
      ? html`<${Empty} title="No run matches">Change the filters, or <a href="#/runs">show all runs</a>.<//>`
      : html`<${Empty} title="No runs yet">Start one with “New run”.<//>`)}
    <p class="unseen" role="status">${runs ? runs.length + " runs" : "Loading"}</p>
  </section>`;
}
