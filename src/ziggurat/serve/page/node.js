// One call in full: the prompt, the reply, arguments, result, decision.
import { html, Ago, Alert, Block, Figures, Status, count, duration, money, runLink, seconds, useState, visible } from "./html.js";
import { runPath } from "./server.js";
import { useAnswer } from "./answer.js";

export function Message({ message }) {
  return html`<article class="message"><h4>${visible(message.role || "message")}</h4>
    <${Block} value=${message.content ?? message.parts ?? message} label=${message.role || "message"} /></article>`;
}

/** A conversation: its end, and the rest on demand. */
export function Messages({ all }) {
  const [shown, setShown] = useState(100);
  return html`${all.length > shown && html`<button class="quiet" onClick=${() => setShown(shown + 1000)}>Show earlier ones of ${count(all.length)} messages</button>`}
    ${all.slice(-shown).map((message, at) => html`<${Message} key=${Math.max(0, all.length - shown) + at} message=${message} />`)}`;
}

const PARTS = [
  ["arguments", "Arguments"], ["reply", "Reply"], ["result", "Result"], ["error", "Error"], ["decision", "Decision"],
];

export function Node({ run, node, number, onFork }) {
  const { answer: full, error } = useAnswer(runPath(run, "/nodes/" + encodeURIComponent(number)), node.status);
  const took = seconds(node.ended) - seconds(node.started);
  const usage = Object.entries(node.usage || {}).filter(([, value]) => typeof value === "number" && value);
  const figures = [
    ["Started", html`<${Ago} time=${node.started} />`], ["Time", node.ended && duration(took)], ["Cost", money(full && full.cost)],
    ...usage.map(([name, value]) => [name.replaceAll("_", " "), count(value)]),
  ];
  return html`<div class="call">
    <h2><${Status} name=${node.status} /> ${visible(node.name)} <small>${visible(node.kind)}</small></h2>
    <p class="under mono">${visible(node.path)}</p>
    <div class="actions">${onFork && html`<button onClick=${onFork}>Fork here</button>`}
      <a class="button" href=${runLink(run, number)}>Link</a></div>
    <${Figures} values=${figures} />
    <${Alert} text=${error} />
    ${full && full.messages && full.messages.length > 0 && html`<details open><summary>Prompt, as it is recorded <small>${full.messages.length} messages</small></summary>
      <${Messages} all=${full.messages} /></details>`}
    ${full && PARTS.filter(([name]) => full[name] !== null && full[name] !== undefined && full[name] !== "").map(([name, title]) =>
      html`<section ><h3>${title}</h3><${Block} value=${full[name]} label=${title} /></section>`)}
  </div>`;
}
