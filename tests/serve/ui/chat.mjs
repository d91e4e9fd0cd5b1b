// Talks with an agent as `useChat` does, and prints its messages as JSON: node chat.mjs ADDRESS TOKEN
import {
  AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls, readUIMessageStream,
} from "ai";

const [address, token] = process.argv.slice(1);
const transport = (agent) =>
  new DefaultChatTransport({ api: `${address}/chat/${agent}`, headers: { Authorization: `Bearer ${token}` } });

class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => { this.messages = [...this.messages, message]; };
  popMessage = () => { this.messages = this.messages.slice(0, -1); };
  replaceMessage = (index, message) => { this.messages = this.messages.with(index, message); };
  snapshot = (value) => structuredClone(value);
}

class Chat extends AbstractChat {
  constructor(agent, id) {
    super({
      id, transport: transport(agent), state: new State(), onError: (error) => { this.failure = error.message; },
      sendAutomaticallyWhen: (all) =>
        lastAssistantMessageIsCompleteWithApprovalResponses(all) || lastAssistantMessageIsCompleteWithToolCalls(all),
    });
  }
  tool = () => this.lastMessage.parts.findLast((part) => part.type === "dynamic-tool");
  async settled() {
    do await new Promise((done) => setTimeout(done, 5));
    while (this.status !== "ready" && this.status !== "error");
  }
}

const cases = {
  async plain() {
    const chat = new Chat("clerk", "plain");
    await chat.sendMessage({ text: "Hello?" });
    await chat.sendMessage({ text: "And now?" });
    return chat.messages;
  },
  async tools() {
    const chat = new Chat("talker", "tools");
    await chat.sendMessage({ text: "Hello?" });
    chat.addToolApprovalResponse({ id: chat.tool().approval.id, approved: true });
    await chat.settled();
    return chat.messages;
  },
  async denial() {
    const chat = new Chat("payer", "denial");
    await chat.sendMessage({ text: "Pay." });
    chat.addToolApprovalResponse({ id: chat.tool().approval.id, approved: false, reason: "too much" });
    await chat.settled();
    return chat.messages;
  },
  async question() {
    const chat = new Chat("asker", "question");
    await chat.sendMessage({ text: "Hello?" });
    const { toolName, toolCallId, input } = chat.tool();
    chat.addToolOutput({ tool: toolName, toolCallId, output: 7 });
    await chat.settled();
    return [input, ...chat.messages];
  },
  async failure() {
    const chat = new Chat("failing", "failure");
    await chat.sendMessage({ text: "Hello?" });
    return { status: chat.status, error: chat.failure };
  },
  async reader() {
    const messages = [{ id: "m-1", role: "user", parts: [{ type: "text", text: "Hello?" }] }];
    const stream = await transport("talker").sendMessages({ chatId: "reader", messages, trigger: "submit-message" });
    let last;
    for await (const message of readUIMessageStream({ stream })) last = message;
    return [last];
  },
  async resume() {
    const chat = new Chat("slow", "resume");
    const sent = chat.sendMessage({ text: "Hello?" });
    while (!chat.messages[1]?.parts.some((part) => part.type === "dynamic-tool")) await new Promise(setImmediate);
    const other = new Chat("slow", "resume"); // such as the page after it was loaded again
    const resumed = other.resumeStream();
    while (!other.messages[0]?.parts.some((part) => part.type === "dynamic-tool")) await new Promise(setImmediate);
    await fetch(`${address}/runs`, {
      method: "POST", body: JSON.stringify({ agent: "opener", prompt: "Open." }),
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    });
    await Promise.all([sent, resumed]);
    const after = new Chat("slow", "resume");
    await after.resumeStream(); // nothing is in progress any more
    return [chat.messages[1], other.messages[0], after.messages];
  },
};

const results = Object.entries(cases).map(async ([name, run]) => [name, await run()]);
console.log(JSON.stringify(Object.fromEntries(await Promise.all(results))));
