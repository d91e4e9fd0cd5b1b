// What a run waits for: calls to approve, deny or change, whether a call happened, and questions.
import { html, Ago, Alert, Block, json, useState, visible } from "./html.js";
import { Field, choiceText, choicesOf, valueOf } from "./form.js";
import { post, runPath } from "./server.js";

function Item({ id, item, onDone }) {
  const [mode, setMode] = useState("");
  const [text, setText] = useState("");
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  async function decide(decision) {
    setBusy(true);
    setError("");
    try {
      await post(runPath(id, "/decisions"), { decisions: [{ id: item.id, ...decision }] });
      onDone();
    } catch (failure) {
      setError(failure.message);
    }
    setBusy(false);
  }
  function change() {
    let changed;
    try {
      changed = JSON.parse(text);
    } catch (failure) {
      return setError("These arguments are not JSON: " + failure.message);
    }
    decide({ action: "modify", arguments: changed });
  }
  const open = (name, start) => {
    setMode(name);
    setText(start);
    setError("");
  };
  const area = (label, rows) => html`<label>${label}<textarea rows=${rows} value=${text} onInput=${(event) => setText(event.target.value)} autofocus spellcheck=${mode !== "modify"}></textarea></label>`;
  function answer(event) {
    event.preventDefault();
    try {
      decide({ action: "answer", answer: valueOf(item.answer, "answer", new FormData(event.target)) });
    } catch (failure) {
      setError(failure.message);
    }
  }
  const question = item.kind === "question";
  const outcome = item.kind === "outcome";
  const choices = question ? choicesOf(item.answer) : [];
  const send = { deny: () => decide({ action: "deny", ...(text ? { reason: text } : {}) }), modify: change, happened: () => decide({ action: "happened", result: text }) };
  return html`<article class="pending" aria-label=${question ? "Question" : outcome ? "Unknown outcome" : "Approval"}>
    <h3>${question ? "Question" : html`${outcome ? "Did this happen:" : "Approve"} <code>${visible(item.tool || "")}</code>?`}
      ${item.expires && html`<small>until <${Ago} time=${item.expires} /></small>`}</h3>
    ${item.text && html`<p class="words">${visible(item.text)}</p>`}
    ${!question && html`<${Block} value=${item.arguments == null ? "no arguments" : item.arguments} label="Arguments" />`}
    <${Alert} text=${error} />
    ${mode === "answer" && html`<form class="fields" onSubmit=${answer}>
      <${Field} schema=${item.answer} name="answer" label="Answer" rows="3" />
      <div class="actions"><button class="main" disabled=${busy}>Answer</button>
        <button type="button" class="quiet" onClick=${() => setMode("")}>Back</button></div></form>`}
    ${send[mode] && html`<div class="fields">${{ modify: () => area("Arguments, as JSON", 6), deny: () => area("Reason, which the model gets", 2), happened: () => area("Result, which the model gets", 2) }[mode]()}
      <div class="actions"><button class=${mode === "deny" ? "danger" : "main"} disabled=${busy} onClick=${send[mode]}>
        ${{ deny: "Deny", modify: "Approve as changed", happened: "It happened" }[mode]}</button>
        <button class="quiet" onClick=${() => setMode("")}>Back</button></div></div>`}
    ${!mode && !question && html`<div class="actions">
      ${outcome ? html`<button class="main" disabled=${busy} onClick=${() => open("happened", "")}>It happened …</button>
        <button disabled=${busy} onClick=${() => decide({ action: "did_not_happen" })}>It did not: run it</button>`
      : html`<button class="main" disabled=${busy} onClick=${() => decide({ action: "approve" })}>Approve</button>
        <button disabled=${busy} onClick=${() => open("modify", json(item.arguments ?? {}))}>Modify …</button>`}
      <button class="danger" disabled=${busy} onClick=${() => open("deny", "")}>Deny …</button></div>`}
    ${!mode && question && html`<div class="actions">
      ${choices.map((choice) => html`<button disabled=${busy} onClick=${() => decide({ action: "answer", answer: choice })}>${choiceText(choice)}</button>`)}
      ${!choices.length && html`<button class="main" disabled=${busy} onClick=${() => open("answer", "")}>Answer …</button>`}</div>`}
  </article>`;
}

export function Decisions({ id, pending, onDone }) {
  return html`<div aria-live="polite">${pending.map((item) => html`<${Item} key=${item.id} id=${id} item=${item} onDone=${onDone} />`)}</div>`;
}
