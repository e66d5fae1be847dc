"""Runs an agent with one tool in a framework's default API: `frameworks.py NAME BASE_URL`. Prints what it says last.

It runs in an environment of its own, beside the tests: `requirements.txt` here.
"""

from __future__ import annotations

import asyncio
import sys

MODEL = "served-model"
ASK = "Run the commands."
MOST_TURNS = 30
RUN_SAYS = "Run a command."


def run(command: str) -> str:
    """Run a command."""
    return command.removeprefix("echo ")


async def openai_agents(url: str) -> str:
    """Its default is the Responses API."""
    import agents
    import openai

    agents.set_tracing_disabled(True)
    agents.set_default_openai_client(openai.AsyncOpenAI(base_url=url, api_key="sk-client"))
    agent = agents.Agent("tester", model=MODEL, tools=[agents.function_tool(run)])
    streamed = agents.Runner.run_streamed(agent, ASK, max_turns=MOST_TURNS)
    async for _ in streamed.stream_events():
        pass
    return str(streamed.final_output)


async def pydantic_ai_openai(url: str) -> str:
    """Its class for OpenAI asks chat completions."""
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=url, api_key="sk-client"))
    return str((await Agent(model, tools=[run]).run(ASK)).output)


async def pydantic_ai_anthropic(url: str) -> str:
    """Its class for Anthropic asks messages."""
    from pydantic_ai import Agent
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    provider = AnthropicProvider(base_url=url.removesuffix("/v1"), api_key="sk-client")
    return str((await Agent(AnthropicModel(MODEL, provider=provider), tools=[run]).run(ASK)).output)


async def langgraph_openai(url: str) -> str:
    """LangChain's class for OpenAI asks chat completions."""
    from langchain_openai import ChatOpenAI

    return await _langgraph(ChatOpenAI(model=MODEL, base_url=url, api_key="sk-client"))


async def langgraph_anthropic(url: str) -> str:
    """LangChain's class for Anthropic asks messages."""
    from langchain_anthropic import ChatAnthropic

    return await _langgraph(
        ChatAnthropic(model=MODEL, base_url=url.removesuffix("/v1"), api_key="sk-client", streaming=True)
    )


async def _langgraph(model: object) -> str:
    from langgraph.prebuilt import create_react_agent

    graph = create_react_agent(model, [run])
    last = None
    async for state in graph.astream(
        {"messages": [("user", ASK)]}, {"recursion_limit": 2 * MOST_TURNS}, stream_mode="values"
    ):
        last = state["messages"][-1].text
    return str(last() if callable(last) else last)


NAMES = {
    each.__name__: each
    for each in (
        openai_agents,
        pydantic_ai_openai,
        pydantic_ai_anthropic,
        langgraph_openai,
        langgraph_anthropic,
    )
}

if __name__ == "__main__":
    print(asyncio.run(NAMES[sys.argv[1]](sys.argv[2])))
