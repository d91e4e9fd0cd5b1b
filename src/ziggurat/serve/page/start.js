// The dialog that starts a run.
import { html, Alert, Dialog, runLink, useState, visible } from "./html.js";
import { post } from "./server.js";
import { useAnswer } from "./answer.js";

/** Labels from "team:red, size:big"; throws if one has no value. */
export function readLabels(text) {
  const labels = {};
  for (const pair of text.split(",").map((each) => each.trim()).filter(Boolean)) {
    const at = pair.indexOf(":");
    if (at < 1) throw new Error(`The label "${pair}" has no value: write name:value.`);
    labels[pair.slice(0, at).trim()] = pair.slice(at + 1).trim();
  }
  return labels;
}

export function StartDialog({ onClose }) {
  const { answer, error: missing } = useAnswer("/agents");
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const [key] = useState(() => "run-" + crypto.getRandomValues(new BigUint64Array(1))[0].toString(36));
  async function start(event) {
    event.preventDefault();
    const form = new FormData(event.target);
    setBusy(true);
    setError("");
    try {
      const body = { agent: form.get("agent"), prompt: form.get("prompt"), labels: readLabels(form.get("labels")) };
      if (form.get("session")) body.session = form.get("session");
      const { run_id } = await post("/runs", body, { "Idempotency-Key": key });
      onClose();
      location.hash = runLink(run_id);
    } catch (failure) {
      setError(failure.message);
      setBusy(false);
    }
  }
  return html`<${Dialog} title="New run" onClose=${onClose}>
    <form class="fields" onSubmit=${start}>
      <label>Agent<select name="agent" required>
        ${(answer ? answer.agents : []).map((agent) => html`<option value=${agent.name} title=${visible(agent.description || "")}>${visible(agent.name)}</option>`)}
      </select></label>
      <label>Prompt<textarea name="prompt" rows="5" required autofocus></textarea></label>
      <label>Session <small>optional</small><input name="session" autocomplete="off" /></label>
      <label>Labels <small>optional, as team:red, size:big</small><input name="labels" autocomplete="off" /></label>
      <${Alert} text=${error || missing} />
      <footer><button class="main" disabled=${busy || !answer}>Start</button></footer>
    </form>
  <//>`;
}
