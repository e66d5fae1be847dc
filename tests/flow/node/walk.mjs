// Walks through the official Node SDK against the gateway and prints what it saw as one JSON object.
import OpenAI, { toFile } from "openai";

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "sk-test", maxRetries: 0 });
const messages = [{ role: "user", content: "hi" }];
const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object", properties: {} } } }];
const seen = {};

const chat = await client.chat.completions.create({ model: "m", messages, a_parameter_of_next_year: [1] });
seen.chat = chat.choices[0].message.content;
seen.request_id = chat._request_id;

seen.stream = [];
for await (const chunk of await client.chat.completions.create({ model: "m", messages, stream: true })) {
  seen.stream.push(chunk.choices[0].delta.content ?? "");
}

seen.tools = (await client.chat.completions.create({ model: "m", messages, tools })).choices[0].message.tool_calls;
seen.embeddings = (
  await client.embeddings.create({ model: "e", input: ["a", "b"], encoding_format: "float" })
).data.map((item) => item.embedding);

seen.models = [];
for await (const model of client.models.list()) seen.models.push(model.id);

const bytes = Buffer.concat(Array.from({ length: 64 }, () => Buffer.from(Array.from({ length: 256 }, (_, i) => i))));
seen.file = (await client.files.create({ file: await toFile(bytes, "notes.bin"), purpose: "user_data" })).id;
const content = Buffer.from(await (await client.files.content("file-1")).arrayBuffer());
seen.download = content.equals(bytes);

seen.errors = {};
for (const model of ["bad", "key", "forbidden", "ghost", "conflict", "odd", "busy", "broken"]) {
  try {
    await client.chat.completions.create({ model, messages });
  } catch (error) {
    seen.errors[model] = [error.constructor.name, error.status, error.code, error.requestID];
  }
}
try {
  for await (const _ of await client.chat.completions.create({ model: "cut", messages, stream: true }));
} catch (error) {
  seen.cut = [error instanceof OpenAI.APIError, error.code ?? null];
}

const { response } = await client.chat.completions.create({ model: "m", messages }).withResponse();
seen.raw = [response.status, response.headers.get("x-understudy-decision-id") !== null];

const aborted = await client.chat.completions.create({ model: "slow", messages, stream: true });
for await (const _ of aborted) break;
console.log(JSON.stringify(seen));
