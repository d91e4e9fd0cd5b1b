// Sessions and memory, to look through.
import { html, Ago, Alert, Empty, Filters, count, useLater, useState, useTitle, visible } from "./html.js";
import { query } from "./server.js";
import { useAnswer } from "./answer.js";
import { useRowKeys } from "./list.js";
import { Messages } from "./node.js";

function Session({ id }) {
  const { answer, error } = useAnswer("/sessions/" + encodeURIComponent(id));
  useTitle(id);
  return html`<section class="page"><p><a href="#/sessions">Sessions</a></p><h1>${visible(id)}</h1>
    <p><a href=${"#/runs" + query({ session: id })}>Runs of this session</a></p>
    <${Alert} text=${error} />
    ${answer && html`<${Messages} all=${answer.messages} />`}
    ${answer && !answer.messages.length && html`<${Empty} title="No messages">Nothing was said in this session yet.<//>`}
  </section>`;
}

function SessionList() {
  const { answer, error } = useAnswer("/sessions");
  useTitle("Sessions");
  useRowKeys();
  return html`<section class="page"><h1>Sessions</h1>
    <${Alert} text=${error} />
    ${answer && html`<ul class="rows">${answer.sessions.map((session) => html`<li key=${session.id}>
      <a class="row session" href=${"#/sessions/" + encodeURIComponent(session.id)}><span class="mono">${visible(session.id)}</span>
        <span class="figure">${session.updated && html`<${Ago} time=${session.updated} />`}</span></a></li>`)}</ul>`}
    ${answer && !answer.sessions.length && html`<${Empty} title="No sessions yet">A run that is started with a session keeps its conversation there.<//>`}
  </section>`;
}

export const Sessions = ({ id }) => (id ? html`<${Session} key=${id} id=${id} />` : html`<${SessionList} />`);

export function Memory() {
  const [search, setSearch] = useState("");
  const [limit, setLimit] = useState(100);
  const { answer, error } = useAnswer("/memory" + query({ search, limit }));
  useTitle("Memory");
  const later = useLater(setSearch);
  return html`<section class="page"><h1>Memory</h1>
    <${Filters}><input type="search" class="grow" aria-label="Search in memory" placeholder="Search   /" onInput=${(event) => later(event.target.value)} /><//>
    <${Alert} text=${error} />
    ${answer && html`<ul class="rows">${answer.memories.map((memory) => html`<li key=${memory.id} class="memory">
      <p class="words">${visible(memory.text)}</p><p class="under"><span class="mono">${visible(memory.id)}</span>
        ${[memory.owner, memory.kind, memory.archived && "archived", ...(memory.tags || []), ...(memory.taint || []).map((tool) => "from " + tool)].filter(Boolean)
          .map((text) => html`<span class="chip">${visible(text)}</span>`)}
        ${memory.updated && html`<${Ago} time=${memory.updated} />`} ${memory.uses > 0 && count(memory.uses) + " × recalled"} ${memory.supersedes && "in place of " + visible(memory.supersedes)}</p></li>`)}</ul>
      ${answer.total > limit && html`<p class="centre"><button onClick=${() => setLimit(limit + 400)}>Show more of ${count(answer.total)}</button></p>`}`}
    ${answer && !answer.memories.length && html`<${Empty} title="Nothing is remembered">${search ? "No memory matches." : "An agent with a memory keeps here what it learns."}<//>`}
  </section>`;
}
