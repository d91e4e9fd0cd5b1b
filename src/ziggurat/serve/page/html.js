// Preact with templates, and the small things that every view draws.
import { h, render } from "./preact.js";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "./hooks.js";
import htm from "./htm.js";

export const html = htm.bind(h);
export { render, useEffect, useLayoutEffect, useMemo, useRef, useState };

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Text with every character that shows nothing, or turns the direction of others, written as its code. */
export const visible = (text) =>
  String(text).replace(HIDDEN, (sign) => "\\u" + sign.charCodeAt(0).toString(16).padStart(4, "0"));

/** Any JSON value as text: strings unchanged, messages of parts as their texts, the rest indented. */
export function textOf(value) {
  if (value == null) return "";
  if (typeof value === "string") return visible(value);
  if (Array.isArray(value) && value.length && value.every((part) => part && typeof part === "object"))
    return value.map((part) => (typeof part.text === "string" ? visible(part.text) : json(part))).join("\n");
  return json(value);
}

export const json = (value) => visible(JSON.stringify(value, null, 2));

const STATUSES = {
  queued: ["queued", "stroke", "M8 3a5 5 0 1 1-.01 0"],
  running: ["running", "stroke", "M3 8a5 5 0 1 1 5 5"],
  waiting: ["waiting for you", "fill", "M8 2l6 6-6 6-6-6z"],
  done: ["done", "stroke", "M3 8.5l3.2 3.2L13 5"],
  failed: ["failed", "fill", "M8 2l6.5 12h-13z"],
  stopped: ["stopped", "fill", "M3.5 3.5h9v9h-9z"],
};
const STOPS = { Completed: "done", ToolCalled: "done", StopCondition: "done", Suspended: "waiting", Failed: "failed", Quarantined: "failed" };

/** The one of the statuses that the page draws for a state of a call, or for how a run stopped. */
export const statusOf = (name) => (STATUSES[name] ? name : STOPS[name] || "stopped");

/** Whether a run has lost the process that drove it, or was interrupted by a mistake. */
export const isIdle = (run) => run.driven === false && ["running", "interrupted"].includes(run.status);

/** A status by shape and colour. */
export function Status({ name }) {
  const [label, kind, path] = STATUSES[statusOf(name)];
  return html`<span class=${"status " + statusOf(name)}><svg viewBox="0 0 16 16" role="img" aria-label=${label}><path class=${kind} d=${path} /></svg></span>`;
}

export const seconds = (time) =>
  time == null ? null : typeof time === "number" ? time : Date.parse(time) / 1000;

export function Ago({ time }) {
  const at = seconds(time);
  if (at === null || Number.isNaN(at)) return html`<span class="faint">–</span>`;
  const date = new Date(at * 1000);
  const today = date.toDateString() === new Date().toDateString();
  const text = today ? date.toLocaleTimeString() : date.toLocaleDateString();
  return html`<time datetime=${date.toISOString()} title=${date.toLocaleString()}>${text}</time>`;
}

export function duration(value) {
  if (!(value >= 0)) return "";
  if (value < 0.9995) return Math.round(value * 1000) + " ms";
  if (value < 60) return value.toFixed(value < 10 ? 2 : 1) + " s";
  const whole = Math.round(value);
  if (whole < 3600) return Math.floor(whole / 60) + " min " + (whole % 60) + " s";
  return Math.floor(whole / 3600) + " h " + Math.floor((whole % 3600) / 60) + " min";
}

export const count = (value) => (value ? value.toLocaleString("en") : "");

export const tokens = (usage) => (usage ? (usage.input || 0) + (usage.output || 0) : 0);

/** Dollars as text; empty for none, and for what is unknown. */
export const money = (cost) => (+cost ? "$" + (+cost).toFixed(cost < 0.01 ? 5 : cost < 1 ? 4 : 2) : "");

export function Empty({ title, children }) {
  return html`<div class="empty">
    <svg viewBox="0 0 64 48" aria-hidden="true"><path d="M24 4h16v10H24zM16 17h32v10H16zM8 30h48v14H8z" /></svg>
    <p><b>${title}</b></p>
    <div class="faint">${children}</div>
  </div>`;
}

export const useTitle = (text) => useEffect(() => {
  document.title = visible(text).slice(0, 60) + " · Ziggurat";
}, [text]);

/** Listen to the window while a view is there. */
export const useListener = (name, act) => useLayoutEffect(() => {
  addEventListener(name, act);
  return () => removeEventListener(name, act);
}, []);

/** A function that calls another one when it was not called again for a while. */
export function useLater(act) {
  const timer = useRef(0);
  return (...values) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => act(...values), 200);
  };
}

export const Filters = ({ children }) => html`<form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>${children}</form>`;

export const runLink = (id, number) => "#/runs/" + encodeURIComponent(id) + (number === undefined ? "" : "/" + number);

export const Alert = ({ text }) => text && html`<p class="error" role="alert">${visible(text)}</p>`;

export const Figures = ({ values }) => html`<dl class="figures">${values.filter(([, value]) => value).map(([name, value]) =>
  html`<div><dt>${visible(name)}</dt><dd>${value}</dd></div>`)}</dl>`;

/** A block of text of others: never markup, its hidden characters shown, long ones opened on demand. */
export function Block({ value, label }) {
  const [all, setAll] = useState(false);
  const text = useMemo(() => textOf(value), [value]);
  const long = text.length > 6000 && !all;
  return html`<div class="block">
    <pre tabindex="0" role="region" aria-label=${visible(label)}>${long ? text.slice(0, 6000) : text}</pre>
    ${long && html`<button class="quiet" onClick=${() => setAll(true)}>Show all ${count(text.length)} characters</button>`}
  </div>`;
}

/** A dialog over the page; closed by Escape, by its button, and by a click beside it. */
export function Dialog({ title, onClose, children }) {
  const element = useRef(null);
  useEffect(() => {
    element.current.showModal();
  }, []);
  const beside = (event) => event.target === element.current && onClose();
  return html`<dialog ref=${element} aria-label=${title} onClose=${onClose} onMouseDown=${beside}>
    <header><h2>${title}</h2><button class="quiet" aria-label="Close" onClick=${onClose}>✕</button></header>
    ${children}
  </dialog>`;
}
