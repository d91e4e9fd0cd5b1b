// The frame of the page: the view of an address, the bar above it, the theme, the keys.
import { html, render, Dialog, Empty, useLayoutEffect, useListener, useState } from "./html.js";
import { RunList } from "./list.js";
import { Run } from "./run.js";
import { Diff } from "./diff.js";
import { Memory, Sessions } from "./library.js";
import { StartDialog } from "./start.js";

const KEYS = [
  ["j  k", "next, previous row"], ["Enter", "open the row"], ["→  ←", "open, close a branch of the tree"],
  ["Home  End", "first, last row"], ["/", "search"], ["n", "new run"], ["g", "back to the list"],
  ["t", "light, dark, or as the system"], ["?", "this help"], ["Esc", "close"],
];
const THEMES = ["system", "light", "dark"];
const VIEWS = [["runs", "Runs"], ["sessions", "Sessions"], ["memory", "Memory"], ["diff", "Compare"]];

function route() {
  const [path, search] = (location.hash.slice(1) || "/runs").split("?");
  const parts = path.split("/").filter(Boolean).map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return { view: parts[0], parts, values: Object.fromEntries(new URLSearchParams(search || "")) };
}

function View({ place }) {
  const { view, parts, values } = place;
  if (view === "runs" && parts[1]) return html`<${Run} key=${parts[1]} id=${parts[1]} number=${parts[2]} />`;
  if (view === "runs") return html`<${RunList} values=${values} />`;
  if (view === "sessions") return html`<${Sessions} id=${parts[1]} />`;
  if (view === "memory") return html`<${Memory} />`;
  if (view === "diff") return html`<${Diff} a=${values.a || ""} b=${values.b || ""} />`;
  return html`<${Empty} title="There is no such page"><a href="#/runs">All runs</a><//>`;
}

function stored() {
  const theme = localStorage.getItem("theme");
  return THEMES.includes(theme) ? theme : "system";
}

function useTheme() {
  const [theme, setTheme] = useState(stored);
  useLayoutEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("theme", theme);
  }, [theme]);
  return [theme, () => setTheme((now) => THEMES[(THEMES.indexOf(now) + 1) % THEMES.length])];
}

function Page() {
  const [place, setPlace] = useState(route);
  const [dialog, setDialog] = useState("");
  const [theme, nextTheme] = useTheme();
  useListener("hashchange", () => setPlace(route()));
  useListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
    const search = document.querySelector("input[type=search]");
    const acts = {
      "?": () => setDialog("keys"), n: () => setDialog("start"), t: nextTheme,
      g: () => (location.hash = "#/runs"), "/": () => search && search.focus(),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  });
  const close = () => setDialog("");
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>Skip to the content</a>
    <header class="bar">
      <a class="brand" href="#/runs"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M6 2h4v3H6zM4 6h8v3H4zM2 10h12v4H2z" /></svg>Ziggurat</a>
      <nav aria-label="Views">${VIEWS.map(([view, name]) => html`
        <a href=${"#/" + view} aria-current=${place.view === view ? "page" : null}>${name}</a>`)}
      </nav>
      <span class="grow"></span>
      <button class="quiet" onClick=${nextTheme} aria-label=${"Theme: " + theme} title=${"Theme: " + theme}>
        ${{ system: "◐", light: "○", dark: "●" }[theme]}</button>
      <button class="quiet" onClick=${() => setDialog("keys")} aria-label="Keys">?</button>
      <button class="main" onClick=${() => setDialog("start")}>New run</button>
    </header>
    <main id="main" tabindex="-1"><${View} place=${place} /></main>
    ${dialog === "keys" && html`<${Dialog} title="Keys" onClose=${close}>
      <dl class="keys">${KEYS.map(([key, what]) => html`<dt><kbd>${key}</kbd></dt><dd>${what}</dd>`)}</dl><//>`}
    ${dialog === "start" && html`<${StartDialog} onClose=${close} />`}`;
}

document.documentElement.dataset.theme = stored();
render(html`<${Page} />`, document.body);
