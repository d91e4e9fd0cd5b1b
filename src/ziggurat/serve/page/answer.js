// What the server answers, as the state of a view.
import { useEffect, useState } from "./hooks.js";
import { get } from "./server.js";

/** What the server answers for a path, again when `version` changes: `{ answer, error }`. */
export function useAnswer(path, version) {
  const [state, setState] = useState({});
  useEffect(() => {
    const abort = new AbortController();
    setState({});
    if (path) get(path, abort.signal).then((answer) => setState({ answer }), (failure) =>
      failure.name !== "AbortError" && setState({ error: failure.message }));
    return () => abort.abort();
  }, [path, version]);
  return state;
}
