// A form for a value of a JSON Schema, such as the answer to a question.
import { html, json, visible } from "./html.js";

/** A schema without "or null", and whether null fits it. */
function withoutNull(schema) {
  const rest = (schema.anyOf || []).filter((each) => each.type !== "null");
  return rest.length === 1 && schema.anyOf.length === 2 ? [rest[0], true] : [schema, false];
}

function kindOf(given) {
  const [schema, nullable] = withoutNull(given);
  if (schema.enum || schema.type === "boolean") return "choice";
  if (schema.type === "integer" || schema.type === "number") return "number";
  if (schema.type === "string") return "text";
  return schema.type === "object" && schema.properties && !nullable ? "object" : "json";
}

/** The values to choose from, if a schema has only few. */
export const choicesOf = (schema) => schema.enum || (schema.type === "boolean" ? [true, false] : []);

export const choiceText = (value) => value === true ? "Yes" : value === false ? "No" : typeof value === "string" ? visible(value) : json(value);

const has = (schema, key) => Object.hasOwn(schema, key);

/** The inputs for a value; `name` is that of the form's data. */
export function Field({ schema: given, name, label, required = true, rows }) {
  const [schema, nullable] = withoutNull(given);
  const kind = kindOf(given);
  const text = visible(schema.title || label) + (kind === "json" ? ", as JSON" : "");
  const must = required && !nullable;
  if (kind === "object")
    return html`<fieldset class="fields"><legend>${text}</legend>${Object.entries(schema.properties).map(([key, each]) =>
      html`<${Field} key=${key} schema=${each} name=${name + "/" + key} label=${key} required=${(schema.required || []).includes(key)} />`)}</fieldset>`;
  const start = has(given, "default") && given.default !== null ? given.default : "";
  const input = {
    choice: () => html`<select name=${name} required=${must}><option value=""></option>${choicesOf(schema).map((each) =>
      html`<option value=${JSON.stringify(each)} selected=${each === start}>${choiceText(each)}</option>`)}</select>`,
    number: () => html`<input name=${name} type="number" step=${schema.type === "integer" ? 1 : "any"} required=${must} defaultValue=${start} />`,
    text: () => rows ? html`<textarea name=${name} rows=${rows} defaultValue=${start} autofocus></textarea>`
      : html`<input name=${name} type=${schema.format === "date" ? "date" : "text"} defaultValue=${start} autocomplete="off" />`,
    json: () => html`<textarea name=${name} rows="3" required=${must} defaultValue=${start === "" ? "" : JSON.stringify(start)} spellcheck=${false}></textarea>`,
  };
  return html`<label>${text} ${!must && html`<small>optional</small>`}${input[kind]()}</label>`;
}

/** The value in the data of a form, undefined if nothing was given; throws if it is none. */
export function valueOf(given, name, data, required = true) {
  const [schema, nullable] = withoutNull(given);
  const kind = kindOf(given);
  if (kind === "object")
    return Object.fromEntries(Object.entries(schema.properties)
      .map(([key, each]) => [key, valueOf(each, name + "/" + key, data, (schema.required || []).includes(key))])
      .filter(([, value]) => value !== undefined));
  const text = data.get(name);
  if (!text && nullable) return null;
  if (kind === "text") return text || required || has(given, "default") ? text : undefined;
  if (!text.trim()) {
    if (!required) return undefined;
    throw new Error(`"${name}" has no value.`);
  }
  if (kind === "number" && schema.type === "integer" && !Number.isSafeInteger(+text)) throw new Error(`"${text}" is not a whole number, or too large.`);
  if (kind === "number") return +text;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`"${name}" is not JSON: ${error.message}`);
  }
}
