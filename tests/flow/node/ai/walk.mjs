// Asks the same by each provider of the Vercel AI SDK, plain and streamed, and prints what it saw as one JSON object.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createAzure } from "@ai-sdk/azure";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, streamText } from "ai";

const baseURL = process.argv[2];
const origin = baseURL.replace(/\/v1$/, "");
const apiKey = "sk-test";
const openai = createOpenAI({ baseURL, apiKey });
const azure = createAzure({ baseURL: `${origin}/openai`, apiKey, apiVersion: "2024-10-21", useDeploymentBasedUrls: true });
const models = {
  responses: openai("gpt-4o"),
  chat: openai.chat("gpt-4o"),
  completions: openai.completion("gpt-4o"),
  messages: createAnthropic({ baseURL, apiKey })("claude"),
  azure: azure.chat("gpt-azure"),
};

const seen = {};
for (const [name, model] of Object.entries(models)) {
  const asked = { model, prompt: "What is six times seven?", maxOutputTokens: 50, maxRetries: 0 };
  seen[name] = { plain: [], streamed: [] };
  for (let i = 0; i < 2; i++) {
    const { text, usage, response } = await generateText(asked);
    seen[name].plain.push([text, usage.outputTokens, response.headers["cache-status"]]);
  }
  for (let i = 0; i < 2; i++) {
    const stream = streamText({ ...asked, prompt: "And six times eight?" });
    let text = "";
    for await (const piece of stream.textStream) text += piece;
    seen[name].streamed.push([text, (await stream.response).headers["cache-status"]]);
  }
}
console.log(JSON.stringify(seen));
