// Sessions and memory, to look through.
import { html, Ago, Alert, Empty, count, useRef, useState, visible } from "./html.js";
import { query } from "./server.js";
import { useAnswer } from "./answer.js";
import { useRowKeys } from "./list.js";
import { Message } from "./node.js";

function Session({ id }) {
  const { answer, error } = useAnswer("/sessions/" + encodeURIComponent(id));
  return html`<section class="page"><p><a href="#/sessions">Sessions</a></p><h1>${visible(id)}</h1>
    <p><a href=${"#/runs" + query({ session: id })}>Runs of this session</a></p>
    <${Alert} text=${error} />
    ${answer && answer.messages.map((message, at) => html`<${Message} key=${at} message=${message} />`)}
    ${answer && !answer.messages.length && html`<${Empty} title="No messages">Nothing was said in this session yet.<//>`}
  </section>`;
}

function SessionList() {
  const { answer, error } = useAnswer("/sessions");
  useRowKeys();
  return html`<section class="page"><h1>Sessions</h1>
    <${Alert} text=${error} />
    ${answer && html`<ul class="rows">${answer.sessions.map((session) => html`<li key=${session.id}>
      <a class="row session" href=${"#/sessions/" + encodeURIComponent(session.id)}><span class="mono">${visible(session.id)}</span>
        <span class="figure">${count(session.messages)}</span><span class="figure">${session.updated && html`<${Ago} time=${session.updated} />`}</span></a></li>`)}</ul>`}
    ${answer && !answer.sessions.length && html`<${Empty} title="No sessions yet">A run that is started with a session keeps its conversation there.<//>`}
  </section>`;
}

export const Sessions = ({ id }) => (id ? html`<${Session} key=${id} id=${id} />` : html`<${SessionList} />`);

export function Memory() {
  const [search, setSearch] = useState("");
  const timer = useRef(0);
  const { answer, error } = useAnswer("/memory" + query({ search }));
  const type = (event) => {
    const { value } = event.target;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setSearch(value), 200);
  };
  return html`<section class="page"><h1>Memory</h1>
    <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <input type="search" class="grow" aria-label="Search in memory" placeholder="Search   /" onInput=${type} /></form>
    <${Alert} text=${error} />
    ${answer && html`<ul class="rows">${answer.memories.map((memory) => html`<li key=${memory.id} class="memory">
      <p class="words">${visible(memory.text)}</p><p class="under"><span class="mono">${visible(memory.id)}</span>
        ${memory.kind && html`<span class="chip">${visible(memory.kind)}</span>`} ${memory.updated && html`<${Ago} time=${memory.updated} />`}</p></li>`)}</ul>`}
    ${answer && !answer.memories.length && html`<${Empty} title="Nothing is remembered">${search ? "No memory matches." : "An agent with a memory keeps here what it learns."}<//>`}
  </section>`;
}
