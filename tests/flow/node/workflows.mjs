// A workflow is called as a model; prints what was seen as JSON.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "sk-ann", maxRetries: 0 });
const documents = JSON.parse(process.argv[3]);
const asked = {
  model: "doc-qa",
  messages: [{ role: "user", content: "What is the capital of Norway?" }],
  understudy: { inputs: { documents } },
};
const seen = {};

const models = [];
for await (const model of client.models.list()) models.push(model.id);
seen.models = models;

const { data, response } = await client.chat.completions.create(asked).withResponse();
seen.answer = data.choices[0].message.content;
seen.usage = data.usage.total_tokens;
seen.run = response.headers.get("x-understudy-run");
seen.status = (await client.get(`/runs/${seen.run}`)).status;

const stream = await client.chat.completions.create({
  ...asked,
  stream: true,
  stream_options: { include_usage: true },
});
seen.streamed = "";
for await (const chunk of stream) {
  seen.streamed += chunk.choices[0]?.delta?.content ?? "";
  if (chunk.usage) seen.streamed_usage = chunk.usage.total_tokens;
}

const runner = client.chat.completions.stream({ ...asked });
seen.final = (await runner.finalChatCompletion()).choices[0].message.content;

try {
  await client.chat.completions.create({ ...asked, understudy: { inputs: { x: "y" } } });
} catch (error) {
  seen.refused = [error.constructor.name, error.status, error.code, error.param];
}
try {
  await client.chat.completions.create({ ...asked, model: "fails", understudy: undefined });
} catch (error) {
  seen.failed = [error.constructor.name, error.status, error.code, error.param];
}
console.log(JSON.stringify(seen));
