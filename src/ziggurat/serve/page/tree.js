// The calls of a run as a tree with a timeline. Only the rows in view are drawn, so its length costs nothing.
import { html, Status, count, duration, seconds, tokens, useEffect, useLayoutEffect, useMemo, useRef, useState, visible } from "./html.js";

const HEIGHT = 30; // pixels of a row, as in style.css
const BESIDE = 12; // rows drawn above and below those in view

/** The rows that show: without those below a closed one; each with its place in `nodes` and whether it has parts. */
export function rowsOf(nodes, closed, search) {
  const rows = [];
  const wanted = search.toLowerCase();
  let below = Infinity;
  for (let at = 0; at < nodes.length; at++) {
    const node = nodes[at];
    const parts = at + 1 < nodes.length && nodes[at + 1].depth > node.depth;
    if (wanted) {
      if ((node.name + "\n" + node.path + "\n" + (node.text || "")).toLowerCase().includes(wanted)) rows.push({ at, parts });
      continue;
    }
    if (node.depth > below) continue;
    below = closed.has(node.path) && parts ? node.depth : Infinity;
    rows.push({ at, parts });
  }
  return rows;
}

export const numberOf = (node, at) => node.number ?? at;

function span(nodes) {
  let first = Infinity;
  let last = -Infinity;
  for (const node of nodes) {
    if (node.started == null) continue;
    first = Math.min(first, seconds(node.started));
    last = Math.max(last, seconds(node.ended ?? node.started));
  }
  return [first, Math.max(last - first, 0.001)];
}

function Bar({ node, first, whole }) {
  const began = seconds(node.started);
  if (began === null) return html`<span class="bar-space"></span>`;
  const ended = node.ended == null ? first + whole : seconds(node.ended);
  const left = Math.min(100, Math.max(0, ((began - first) / whole) * 100));
  const width = Math.min(100 - left, Math.max(0.4, ((ended - began) / whole) * 100));
  return html`<span class="bar-space" aria-hidden="true"><i class=${"span " + node.kind} style=${{ left: left + "%", width: width + "%" }}></i></span>`;
}

function Row({ node, row, index, selected, open, live, first, whole, onSelect, onToggle }) {
  const took = node.ended != null ? seconds(node.ended) - seconds(node.started) : NaN;
  const text = live || node.text || "";
  const toggle = (event) => {
    event.stopPropagation();
    onToggle(node);
  };
  return html`<div id=${"row-" + row.at} role="treeitem" class=${"node" + (selected ? " selected" : "")}
    style=${{ top: index * HEIGHT + "px" }} aria-level=${node.depth + 1} aria-selected=${selected ? "true" : "false"}
    aria-expanded=${row.parts ? String(open) : null} onClick=${() => onSelect(row.at)}>
    <span class="what" style=${{ paddingLeft: Math.min(node.depth, 24) * 16 + "px" }}>
      <span class="twist" onClick=${toggle} aria-hidden="true">${row.parts ? (open ? "▾" : "▸") : ""}</span>
      <${Status} name=${node.status} />
      <b>${visible(node.name)}</b><span class=${"text" + (live ? " live" : "")}>${visible(live ? text.slice(-160) : text.slice(0, 200))}</span>
    </span>
    <${Bar} node=${node} first=${first} whole=${whole} />
    <span class="figure">${count(tokens(node.usage))}</span>
    <span class="figure">${duration(took)}</span>
  </div>`;
}

/** Which rows are in view: the offset and the height of the element that scrolls. */
function useView(element) {
  const [view, setView] = useState([0, 600]);
  useLayoutEffect(() => {
    const box = element.current;
    const read = () => setView([box.scrollTop, box.clientHeight]);
    const observer = new ResizeObserver(read);
    observer.observe(box);
    box.addEventListener("scroll", read, { passive: true });
    read();
    return () => {
      observer.disconnect();
      box.removeEventListener("scroll", read);
    };
  }, []);
  return view;
}

export function Tree({ nodes, total, live, selected, onSelect }) {
  const [closed, setClosed] = useState(() => new Set());
  const [search, setSearch] = useState("");
  const element = useRef(null);
  const [top, height] = useView(element);
  const rows = useMemo(() => rowsOf(nodes, closed, search), [nodes, closed, search]);
  const [first, whole] = useMemo(() => span(nodes), [nodes]);
  const place = rows.findIndex((row) => row.at === selected);
  const from = Math.max(0, Math.floor(top / HEIGHT) - BESIDE);
  const shown = rows.slice(from, Math.ceil((top + height) / HEIGHT) + BESIDE);
  useEffect(() => {
    const box = element.current;
    if (place < 0) return;
    if (place * HEIGHT < box.scrollTop) box.scrollTop = place * HEIGHT;
    else if ((place + 1) * HEIGHT > box.scrollTop + box.clientHeight) box.scrollTop = (place + 1) * HEIGHT - box.clientHeight;
  }, [selected, place >= 0]);
  const set = (path, close) => setClosed((now) => {
    const next = new Set(now);
    if (close) next.add(path);
    else next.delete(path);
    return next;
  });
  const toggle = (node) => set(node.path, !closed.has(node.path));
  const go = (at) => rows[at] && onSelect(rows[at].at);
  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const row = rows[place];
    const node = row && nodes[row.at];
    const acts = {
      ArrowDown: () => go(place + 1), j: () => go(place + 1),
      ArrowUp: () => go(Math.max(0, place - 1)), k: () => go(Math.max(0, place - 1)),
      Home: () => go(0), End: () => go(rows.length - 1),
      ArrowRight: () => node && (closed.has(node.path) ? set(node.path, false) : row.parts && go(place + 1)),
      ArrowLeft: () => {
        if (!node) return;
        if (row.parts && !closed.has(node.path)) return set(node.path, true);
        for (let at = place - 1; at >= 0; at--) if (nodes[rows[at].at].depth < node.depth) return go(at);
      },
      Enter: () => node && document.getElementById("node-panel").focus(),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    acts[event.key]();
  }
  return html`<div class="tree-box">
    <div class="tree-heads"><input type="search" aria-label="Search in the calls" placeholder="Search calls   /" value=${search} onInput=${(event) => setSearch(event.target.value)} />
      <span class="faint">${count(total)} calls</span><span class="grow"></span>
      <span class="figure">Tokens</span><span class="figure">Time</span></div>
    <div class="tree" ref=${element} role="tree" tabindex="0" aria-label="Calls of the run" onKeyDown=${press}
      aria-activedescendant=${place >= from && place < from + shown.length ? "row-" + selected : null}>
      <div class="tree-all" role="presentation" style=${{ height: rows.length * HEIGHT + "px" }}>
        ${shown.map((row, index) => html`<${Row} key=${nodes[row.at].path + row.at} row=${row} node=${nodes[row.at]} index=${from + index}
          selected=${row.at === selected} open=${!closed.has(nodes[row.at].path)} live=${live[nodes[row.at].path]}
          first=${first} whole=${whole} onSelect=${onSelect} onToggle=${toggle} />`)}
      </div>
    </div>
  </div>`;
}
