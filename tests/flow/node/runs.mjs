// Runs applications through the official Node SDK against the gateway and prints what it saw as one JSON object.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "sk-ann", maxRetries: 0 });
const seen = {};
const call = (text, understudy, more = {}) =>
  client.chat.completions.create({ model: "m", messages: [{ role: "user", content: text }], understudy, ...more });
const value = async (id) => (await client.get(`/variables/${id}?wait_s=60`)).value;

// Figure 7: code for a task, tests for that code, both got.
const code = await call("Write {{task}}", { app: "node", inputs: { task: "a game" }, submit: true, output: { name: "code" } });
const test = await call("Test {{code}}", { app: "node", submit: true, output: { name: "test" } });
seen.submitted = [code.choices, typeof code.understudy.run];
seen.figure7 = [await value(code.understudy.outputs.code), await value(test.understudy.outputs.test)];

let last;
for (let i = 0; i < 20; i++) {
  last = await call(i ? `${i} {{c${i - 1}}}` : "0", { app: "chain", submit: true, output: { name: `c${i}` } });
}
seen.chain = await value(last.understudy.outputs.c19);

const step = (text, name) => ({
  model: "m", messages: [{ role: "user", content: text }], understudy: { output: { name } },
});
const parts = Array.from({ length: 20 }, (_, i) => `m${i}`);
const steps = parts.map((name, i) => step(`chunk ${i}`, name));
steps.push(step(parts.map((name) => `{{${name}}}`).join(" "), "all"));
const run = await client.post("/runs", { body: { steps, get: { all: "latency" } } });
seen.reduced = [run.status, run.variables.all.value];

const streamed = await call("Tell {{code}}", { app: "node" }, { stream: true });
seen.streamed = "";
for await (const chunk of streamed) seen.streamed += chunk.choices[0]?.delta?.content ?? "";

const told = [];
for await (const event of await client.get(`/variables/${code.understudy.outputs.code}?stream=true`, { stream: true })) {
  told.push(event);
}
const after = told[1].sequence_number;
const resumed = [];
const rest = `/variables/${code.understudy.outputs.code}?stream=true&starting_after=${after}`;
for await (const event of await client.get(rest, { stream: true })) resumed.push(event.type);
seen.told = [told.map((event) => event.type), resumed];

const slow = await client.post("/runs", { body: { steps: [step("slow", "s")], background: true } });
const cancelled = await client.post(`/runs/${slow.id}/cancel`);
seen.cancelled = cancelled.id === slow.id;
try {
  await value(slow.variables.s.id);
} catch (error) {
  seen.failed = [error.status, error.code];
}
try {
  await call("again", { app: "node", submit: true, output: { name: "code" } });
} catch (error) {
  seen.conflict = [error.constructor.name, error.code];
}
console.log(JSON.stringify(seen));
