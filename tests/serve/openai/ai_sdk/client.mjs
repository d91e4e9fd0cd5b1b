// Talks with a server by the AI SDK, and prints what it got as JSON: node client.mjs FORMAT ADDRESS TOKEN MODEL
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

globalThis.AI_SDK_LOG_WARNINGS = false; // they would be in the output
const [format, address, apiKey] = process.argv.slice(1);
const settings = { baseURL: address + "/v1", apiKey };
const providers = {
  chat: () => createOpenAI(settings).chat,
  responses: () => createOpenAI(settings).responses,
  compatible: () => createOpenAICompatible({ ...settings, name: "ziggurat", supportsStructuredOutputs: true }),
  messages: () => createAnthropic(settings),
};
const model = providers[format]();
const weather = tool({
  description: "The weather in a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `It rains in ${city}.`,
});
const asked = { model: model("clerk"), prompt: "Hello?", maxRetries: 0 };

const cases = {
  async text() {
    const { text, usage, finishReason } = await generateText(asked);
    return { text, finishReason, tokens: usage.totalTokens > 0 };
  },
  async stream() {
    const result = streamText({ ...asked, model: model("teller"), onError: () => {} });
    const pieces = [];
    for await (const piece of result.textStream) pieces.push(piece);
    return { pieces, finishReason: await result.finishReason, text: await result.text };
  },
  async tools() {
    const result = await generateText({ ...asked, model: model("forecaster"), tools: { weather }, stopWhen: stepCountIs(3) });
    return { text: result.text, steps: result.steps.map((step) => step.toolResults.map((each) => each.output)) };
  },
  async streamed_tools() {
    const result = streamText({ ...asked, model: model("forecaster"), tools: { weather }, stopWhen: stepCountIs(3) });
    const kinds = [];
    for await (const part of result.fullStream) if (part.type !== kinds.at(-1)) kinds.push(part.type);
    return { kinds, text: await result.text };
  },
  async conversation() {
    const messages = [
      { role: "system", content: "Be short." },
      { role: "user", content: "I am Ann." },
      { role: "assistant", content: "Hello, Ann." },
      { role: "user", content: "Who am I?" },
    ];
    return { text: (await generateText({ ...asked, prompt: undefined, messages, model: model("echo") })).text };
  },
  async object() {
    const schema = z.object({ city: z.string(), degrees: z.number() });
    return (await generateObject({ ...asked, model: model("reporter"), schema })).object;
  },
  async unknown_model() {
    return await failure(generateText({ ...asked, model: model("nobody") }));
  },
  async wrong_key() {
    settings.apiKey = "another-token-altogether";
    return await failure(generateText({ ...asked, model: providers[format]()("clerk") }));
  },
};

async function failure(promise) {
  try {
    return { text: (await promise).text };
  } catch (error) {
    return { status: error.statusCode, message: error.message };
  }
}

const results = {};
for (const [name, run] of Object.entries(cases)) {
  try {
    results[name] = await run();
  } catch (error) {
    results[name] = { failed: `${error.name}: ${error.message}`, cause: String(error.cause ?? "") };
  }
}
console.log(JSON.stringify(results));
