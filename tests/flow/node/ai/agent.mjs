// Runs an agent with one tool by a provider of the Vercel AI SDK, streamed, and prints what it says last.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const [, , name, baseURL] = process.argv;
const apiKey = "sk-client";
const model = (name === "anthropic" ? createAnthropic : createOpenAI)({ baseURL, apiKey })("served-model");
const run = tool({
  description: "Run a command.",
  inputSchema: z.object({ command: z.string() }),
  execute: async ({ command }) => command.replace(/^echo /, ""),
});
const stream = streamText({ model, prompt: "Run the commands.", tools: { run }, stopWhen: stepCountIs(30), maxRetries: 0 });
let text = "";
for await (const piece of stream.textStream) text += piece;
console.log(text);
