// Two runs beside each other: which of their calls are the same, which differ, which only one has.
import { html, Alert, Block, Empty, count, runLink, useState, useTitle, visible } from "./html.js";
import { query } from "./server.js";
import { useAnswer } from "./answer.js";

const SIGNS = { same: ["=", "the same"], changed: ["≠", "differs"], only_a: ["−", "only in the first"], only_b: ["+", "only in the second"] };

function Row({ row }) {
  const [sign, meaning] = SIGNS[row.kind];
  return html`<li class=${"diff-row " + row.kind}>
    <h3><span class="sign" role="img" aria-label=${meaning}>${sign}</span> ${visible(row.name || row.path)} <small class="mono">${visible(row.path)}</small></h3>
    ${row.kind !== "same" && html`<div class="sides">
      <div>${row.a != null && html`<${Block} value=${row.a} label="First" />`}</div>
      <div>${row.b != null && html`<${Block} value=${row.b} label="Second" />`}</div></div>`}
  </li>`;
}

export function Diff({ a, b }) {
  const { answer: diff, error } = useAnswer(a && b && "/diff" + query({ a, b }));
  const { answer: list } = useAnswer("/runs" + query({ limit: 50 }));
  const [all, setAll] = useState(false);
  useTitle("Compare");
  function compare(event) {
    event.preventDefault();
    const form = new FormData(event.target);
    location.hash = "#/diff" + query({ a: form.get("a").trim(), b: form.get("b").trim() });
  }
  const rows = diff ? diff.rows.filter((row) => all || row.kind !== "same") : [];
  const same = diff ? diff.rows.filter((row) => row.kind === "same").length : 0;
  return html`<section class="page"><h1>Compare</h1>
    <form class="filters" onSubmit=${compare}>
      <input name="a" aria-label="First run" placeholder="first run" list="run-ids" defaultValue=${a} key=${"a" + a} required />
      <input name="b" aria-label="Second run" placeholder="second run" list="run-ids" defaultValue=${b} key=${"b" + b} required />
      <datalist id="run-ids">${(list ? list.runs : []).map((run) => html`<option value=${run.run_id}>${visible(run.prompt || "").slice(0, 60)}</option>`)}</datalist>
      <button class="main">Compare</button>
      <label class="check"><input type="checkbox" checked=${all} onChange=${(event) => setAll(event.target.checked)} /> also what is the same</label>
    </form>
    <${Alert} text=${error} />
    ${!diff && !error && html`<${Empty} title="Choose two runs">A run and its fork, or the same prompt twice.<//>`}
    ${diff && html`<p class="under" role="status">${diff.rows.length - same} of ${count(diff.rows.length) || 0} calls differ.</p>
      <div class="sides heads"><a class="mono" href=${runLink(a)}>${visible(a)}</a><a class="mono" href=${runLink(b)}>${visible(b)}</a></div>
      <ol class="rows">${rows.map((row, at) => html`<${Row} key=${at} row=${row} />`)}</ol>
      ${!rows.length && html`<${Empty} title="No call differs">Both runs made the same calls with the same results.<//>`}`}
  </section>`;
}
