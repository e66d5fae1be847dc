"""Configurations that newcomers got wrong: each is refused with what is right, or told of at the start and by `check`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from router.choosing.linear import learner_told, usual_learner
from understudy.commands.check import check
from understudy.settings.doubts import doubts
from understudy.settings.file import ConfigError, load_config

UP = "upstream: {base_url: 'https://api.openai.com/v1'}\n"
TWO = """engines:
  small: {base_url: 'http://127.0.0.1:1/v1', model: s, price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}}
  large: {base_url: 'http://127.0.0.1:2/v1', model: l, price: {input_usd_per_mtok: 3, output_usd_per_mtok: 4}}
"""
SERVED = TWO + "models: {m: {engines: [small, large], policy: few_shot}}\nmemory: {}\n"
KEY = "{secret: 0123456789abcdefghij"

REFUSED = {
    "an empty file": ("", ["nowhere to send requests", "upstream.base_url"]),
    "a list": ("- a\n", ["must be a mapping of settings, not a list"]),
    "no YAML": ("a: [1", ["not valid YAML: line 1"]),
    "a tab": ("listen:\n\tport: 1\n", ["not valid YAML: line 2"]),
    "a group twice": (
        UP + "listen: {port: 1}\nlisten: {port: 2}\n",
        ["'listen' is there for the second time", "line 2"],
    ),
    "a setting twice": (UP + "listen:\n  port: 1\n  port: 2\n", ["'port' is there for the second time"]),
    "a group misspelt": (UP + "lisen: {port: 1}\n", ["lisen: no such setting; did you mean listen?"]),
    "a setting misspelt": (UP + "listen: {prot: 1}\n", ["did you mean listen.port?"]),
    "one misspelt further down": (UP + "memory: {exact: {tll_s: 5}}\n", ["did you mean memory.exact.ttl_s?"]),
    "a word for a number": (UP + "listen: {port: eighty}\n", ["listen.port is 'eighty'"]),
    "true for a number": (UP + "listen: {workers: true}\n", ["workers is true; a number is right"]),
    "yes for a number": (UP + "listen: {workers: yes}\n", ["listen.workers is 'yes'", "integer"]),
    "minutes and seconds for a number": (
        UP + "listen: {grace_s: 1:30}\n",
        ["listen.grace_s is '1:30'", "number"],
    ),
    "a number for a text": (UP + "listen: {host: 127}\n", ["listen.host is 127", "string"]),
    "a date for a number": (UP + "listen: {port: 2024-10-21}\n", ["listen.port is '2024-10-21'"]),
    "a tag that does not fit": (UP + "listen: {port: !!int eighty}\n", ["line 2", "this is no int"]),
    "a cascade of two": (
        TWO + "models: {m: {cascade: [small, large], policy: few_shot}}\nmemory: {}\n",
        ["cascade is small, large", "needs two small engines"],
    ),
    "a cascade of strangers": (
        TWO + "models: {m: {cascade: [small, smal, large], policy: few_shot}}\nmemory: {}\n",
        ["models.m names the engine 'smal'", "did you mean small?"],
    ),
    "a cascade that ends elsewhere": (
        TWO
        + "models: {m: {engines: [small, large], cascade: [large, other, small], policy: few_shot}}\nmemory: {}\n",
        ["cascade is large, other, small", "engines is small, large"],
    ),
    "a cascade that nothing proves": (
        TWO + "models: {m: {cascade: [small, other, large]}}\n",
        ["policy is fixed", "set policy to in_context or few_shot, and proof to on"],
    ),
    "a port that is none": (UP + "listen: {port: 70000}\n", ["listen.port is 70000", "65535"]),
    "no workers": (UP + "listen: {workers: 0}\n", ["listen.workers is 0"]),
    "endless time": (UP + "memory: {exact: {ttl_s: .inf}}\n", ["memory.exact.ttl_s is inf", "finite"]),
    "a price that is no number": (
        "engines: {a: {base_url: 'http://127.0.0.1/v1', price: {input_usd_per_mtok: .nan}}}\nmodels: {m: {engines: [a]}}\n",
        ["input_usd_per_mtok is nan"],
    ),
    "a price below nothing": (
        "engines: {a: {base_url: 'http://127.0.0.1/v1', price: {input_usd_per_mtok: -1}}}\nmodels: {m: {engines: [a]}}\n",
        ["input_usd_per_mtok is -1"],
    ),
    "no scheme": ("upstream: {base_url: api.openai.com}\n", ["must be an http:// or https:// URL"]),
    "another scheme": ("upstream: {base_url: 'ftp://x'}\n", ["https://api.openai.com/v1"]),
    "the endpoint in the base URL": (
        "upstream: {base_url: 'https://api.openai.com/v1/chat/completions'}\n",
        ["must end before the endpoint: https://api.openai.com/v1 is right"],
    ),
    "a password in the URL": (
        "upstream: {base_url: 'https://u:canary@h/v1'}\n",
        ["must not carry credentials"],
    ),
    "a query in the URL": ("upstream: {base_url: 'https://h/v1?key=canary'}\n", ["must not carry a query"]),
    "the gateway itself": (
        "upstream: {base_url: 'http://localhost:8080/v1'}\n",
        ["upstream.base_url", "this gateway itself"],
    ),
    "a variable that is not set": (
        "upstream: {base_url: 'https://h/v1', api_key: '${UNSET}'}\n",
        ["${UNSET} is not set", "export UNSET"],
    ),
    "a variable that is empty": (
        "upstream: {base_url: 'https://h/v1', api_key: '${UNSET:-}'}\n",
        ["upstream.api_key", "is empty"],
    ),
    "a variable without braces": (
        "upstream: {base_url: 'https://h/v1', api_key: '$canary'}\n",
        ["write ${NAME}, with braces"],
    ),
    "a proxy that is none": (
        "upstream: {base_url: 'https://h/v1', proxy: 'ftp://u:canary@h'}\n",
        ["upstream.proxy", "http://proxy.example:3128"],
    ),
    "Bearer in the key": (
        "upstream: {base_url: 'https://h/v1', api_key: 'Bearer canary'}\n",
        ["write the key alone"],
    ),
    "a space in the key": (
        "upstream: {base_url: 'https://h/v1', api_key: ' canary'}\n",
        ["has a space around it"],
    ),
    "an engine that is not there": (
        TWO + "models: {m: {engines: [smal, large]}}\n",
        ["'smal'", "did you mean small?"],
    ),
    "a stand-in that is none of its engines": (
        TWO + "models: {m: {engines: [large], stand_ins: [small]}}\n",
        ["models.m: stand_ins names small", "one of its engines: large"],
    ),
    "an engine twice": (TWO + "models: {m: {engines: [large, large]}}\n", ["names an engine twice"]),
    "a name for a list": (TWO + "models: {m: {engines: large}}\n", ["models.m.engines is 'large'"]),
    "a list of engines": ("engines: [{base_url: 'http://h/v1'}]\n", ["engines is a list", "mapping"]),
    "a kind misspelt": (
        "engines: {a: {kind: opanai, base_url: 'http://127.0.0.1/v1'}}\nmodels: {m: {engines: [a]}}\n",
        ["engines.a.kind: 'opanai'", "did you mean openai?"],
    ),
    "a policy misspelt": (
        TWO + "models: {m: {engines: [small, large], policy: fewshot}}\n",
        ["models.m.policy is 'fewshot'", "did you mean few_shot?"],
    ),
    "a policy with one engine": (
        TWO + "models: {m: {engines: [large], policy: few_shot}}\n",
        ["needs two engines"],
    ),
    "costs to be weighed without prices": (
        TWO.replace("price", "advanced")
        .replace("{input_usd_per_mtok: 1, output_usd_per_mtok: 2}", "{}")
        .replace("{input_usd_per_mtok: 3, output_usd_per_mtok: 4}", "{}")
        + "models: {m: {engines: [small, large], policy: in_context}}\n",
        ["no engine of it has a price"],
    ),
    "a similarity above one": (
        TWO + "models: {m: {engines: [small, large], policy: few_shot, few_shot: {theta: 2}}}\n",
        ["models.m.few_shot.theta is 2"],
    ),
    "a wildcard that learns": (
        TWO + "models: {'gpt-4*': {engines: [small, large], policy: few_shot}}\n",
        ["models.gpt-4* stands for several names"],
    ),
    "a judge that is not there": (UP + "judging: {engine: ghost}\n", ["judging.engine is 'ghost'"]),
    "both pages at one port": (
        UP + "listen: {port: 8081}\nmemory: {data_dir: /tmp/x}\n",
        ["listen.port and admin.port are both 8081"],
    ),
    "a key for elsewhere": (
        UP + "engines: {a: {base_url: 'https://other.com/v1'}}\nmodels: {m: {engines: [a]}}\n",
        ["engines.a has no api_key", "forwards_client_key"],
    ),
    "LiteLLM's file": ("model_list: []\n", ["looks like a configuration of LiteLLM", "import-config"]),
    "a path without a slash": (
        UP + "listen: {advanced: {prefixes: [v1]}}\n",
        ["a path such as /v1 is right"],
    ),
    "no path at all": (UP + "listen: {advanced: {prefixes: []}}\n", ["listen.advanced.prefixes"]),
    "a region where nothing is": (
        UP + "memory: {}\ntenants: {a: {region: eu}}\n",
        ["tenants.a.region is 'eu'"],
    ),
    "a tenant's key for nobody": (
        TWO
        + "models: {m: {engines: [large]}}\nmemory: {}\ntenants: {a: {upstream_key: canary-0123456789}}\n",
        ["tenants.a.upstream_key", "there is none"],
    ),
    "one secret for two keys": (
        UP + f"memory: {{}}\nkeys: {{a: {KEY}}}, b: {KEY}}}}}\n",
        ["keys.a and keys.b have the same secret"],
    ),
    "a budget below nothing": (
        UP + f"memory: {{}}\nkeys: {{a: {KEY}, limits: {{budgets: [{{usd: -1, per: day}}]}}}}}}\n",
        ["keys.a.limits.budgets.0.usd is -1"],
    ),
    "a time zone that is none": (
        UP + f"memory: {{}}\nkeys: {{a: {KEY}, limits: {{time_zone: Mars/Base}}}}}}\n",
        ["time_zone is 'Mars/Base'"],
    ),
    "a tenant that shares with itself": (
        UP + "memory: {}\nsharing: {grants: [{from: a, to: [a]}]}\n",
        ["a grant from 'a' to itself"],
    ),
    "users named by a credential": (UP + "users: {from: [authorization]}\n", ["has 'authorization'"]),
    "reuse of similar answers at the root": (
        UP + "semantic_reuse: {deltas: {web: 0.02}}\n",
        ["semantic_reuse: no such setting", "did you mean memory.semantic_reuse?"],
    ),
    "a policy at the root": (UP + "policy: few_shot\n", ["policy", "did you mean models.*.policy?"]),
    "a key at the root": (UP + "api_key: canary\n", ["api_key", "did you mean upstream.api_key?"]),
    "a model without engines": (TWO + "models: {m: {engines: []}}\n", ["models.m.engines", "at least one"]),
    "a number for a price": (
        "engines: {a: {base_url: 'http://127.0.0.1:1/v1', price: 3}}\nmodels: {m: {engines: [a]}}\n",
        ["engines.a.price is 3", "write `list`", "input_usd_per_mtok"],
    ),
    "an event that is none": (
        UP
        + f"memory: {{}}\nwebhooks: [{{url: 'https://h.example', secret: whsec_{'A' * 43}=, events: [budget]}}]\n",
        ["webhooks.0.events.0 is 'budget'", "did you mean budget.crossed?"],
    ),
    "a model for a list of models": (
        UP + f"memory: {{}}\nkeys: {{a: {KEY}, limits: {{models: gpt-4o}}}}}}\n",
        ["keys.a.limits.models is 'gpt-4o'", "a list is right"],
    ),
    "a budget for a list of budgets": (
        UP + f"memory: {{}}\nkeys: {{a: {KEY}, limits: {{budgets: {{usd: 5, per: day}}}}}}}}\n",
        ["keys.a.limits.budgets is a mapping", "a list is right"],
    ),
    "a period that is none": (
        UP + f"memory: {{}}\nkeys: {{a: {KEY}, limits: {{budgets: [{{usd: 5, per: hour}}]}}}}}}\n",
        ["per is 'hour'", "one of day, week, month, total"],
    ),
    "per cent for a share": (
        TWO + "models: {m: {engines: [large], max_loss: 5%}}\n",
        ["max_loss is '5%'", "number"],
    ),
    "an octal number": (UP + "listen: {port: 0o700000}\n", ["listen.port is 229376", "65535"]),
    "off for a number": (UP + "memory: {exact: {ttl_s: off}}\n", ["memory.exact.ttl_s is 'off'", "number"]),
    "users named by nothing": (UP + "users: {from: []}\n", ["has 0 entries"]),
}
"""By what is wrong: (the file, parts of what is told)."""
TOLD = {
    "a host without /v1": (
        "upstream: {base_url: 'https://api.openai.com'}\n",
        ["upstream.base_url ends with the host"],
    ),
    "an engine's host without /v1": (
        "engines: {a: {base_url: 'http://127.0.0.1:8000'}}\nmodels: {m: {engines: [a]}}\n",
        ["engines.a.base_url ends with the host"],
    ),
    "an engine that nothing uses": (
        TWO + "models: {m: {engines: [large]}}\n",
        ["engines.small is used by nothing"],
    ),
    "learning without memory": (
        SERVED.replace("memory: {}\n", ""),
        ["there is no `memory`", "as with policy fixed"],
    ),
    "learning without examples": (
        SERVED.replace("memory: {}", "memory: {examples: {enabled: false}}"),
        ["memory.examples.enabled is false"],
    ),
    "small that costs more": (
        SERVED.replace("input_usd_per_mtok: 1", "input_usd_per_mtok: 9"),
        ["'small' costs more than 'large'"],
    ),
    "the same server twice": (
        SERVED.replace("127.0.0.1:2/v1', model: l", "127.0.0.1:1/v1', model: s"),
        ["engines.small and engines.large ask the same model"],
    ),
    "a larger context that is no other": (
        TWO + "models: {m: {engines: [small, large], larger_context: large}}\n",
        ["models.m.larger_context is 'large'"],
    ),
    "a name for a key's id": (
        UP + "memory: {examples: {admission: {opted_out_keys: [acme]}}}\n",
        ["has 'acme', which is no key's id"],
    ),
    "Slack's URL for a program of one's own": (
        UP
        + "memory: {}\nwebhooks: [{url: 'https://hooks.slack.com/services/T/B/canary', secret: "
        + f"whsec_{'A' * 43}=}}]\n",
        ["webhooks.0.url leads to slack", "set webhooks.0.shape to slack"],
    ),
    "a key's name misspelt": (
        UP + f"memory: {{examples: {{admission: {{opted_out_keys: [wbe]}}}}}}\nkeys: {{web: {KEY}}}}}\n",
        ["opted_out_keys has 'wbe'", "did you mean web?"],
    ),
    "a key for models that nobody serves": (
        SERVED + f"keys: {{web: {KEY}, limits: {{models: [claude-4]}}}}}}\n",
        ["keys.web.limits.models has 'claude-4'", "name one of m"],
    ),
    "a tenant for a model misspelt": (
        UP
        + TWO
        + "models: {gpt-4o: {engines: [small, large]}}\nmemory: {}\ntenants: {a: {limits: {models: [gpt4o]}}}\n",
        ["tenants.a.limits.models has 'gpt4o'", "did you mean gpt-4o?"],
    ),
    "a name for a dial's key": (
        SERVED.replace("policy: few_shot", "policy: in_context, advanced: {key_preferences: {acme: 0.5}}"),
        ["models.m.advanced.key_preferences has 'acme'"],
    ),
}


def written(folder: Path, text: str) -> Path:
    path = folder / "understudy.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("what", REFUSED)
def test_a_wrong_configuration_is_refused(what: str, tmp_path: Path) -> None:
    text, parts = REFUSED[what]
    with pytest.raises(ConfigError) as error:
        load_config(written(tmp_path, text), {})
    for part in parts:
        assert part in str(error.value)
    assert "canary" not in str(error.value).replace("$canary", "") and "0123456789abcdefghij" not in str(
        error.value
    )


@pytest.mark.parametrize("what", TOLD)
def test_a_doubtful_configuration_is_told_of(what: str, tmp_path: Path) -> None:
    text, parts = TOLD[what]
    path = written(tmp_path, text)
    (told,) = doubts(load_config(path, {}))
    for part in parts:
        assert part in told
    checked = CliRunner().invoke(check, [str(path)])
    assert checked.exit_code == 0 and f"warning: {told}" in checked.stderr


CHECKED = {
    "a private tenant that nobody is": (
        UP + "memory: {}\ntenants: {acme: {}}\nprivate: {tenants: [acm]}\n",
        0,
        ["warning: private.tenants names the tenant 'acm'", "did you mean acme?"],
    ),
    "every address, and no gateway key": (
        "listen: {host: 0.0.0.0}\nupstream: {base_url: 'https://h/v1', api_key: canary}\n",
        2,
        ["error: listen.host is '0.0.0.0'", "Create a key", "127.0.0.1"],
    ),
    "every address, and keys that a command may have made": (
        "listen: {host: 0.0.0.0}\nupstream: {base_url: 'https://h/v1', api_key: canary}\nmemory: {data_dir: ./data}\n",
        0,
        ["warning: unless `understudy keys create` made a key", "listen.host is '0.0.0.0'"],
    ),
    "a budget beside an engine without a price": (
        "engines: {a: {base_url: 'http://127.0.0.1:1/v1'}}\nmodels: {m: {engines: [a]}}\nmemory: {}\n"
        f"keys: {{web: {KEY}, limits: {{budgets: [{{usd: 5, per: day}}]}}}}}}\n",
        2,
        ["error: a budget of keys.web refuses every request", "engines.a.price"],
    ),
}
"""What only `check` tells: (the file, exit status, parts of what is told)."""


@pytest.mark.parametrize("what", CHECKED)
def test_check_tells_what_a_start_or_a_request_would_meet(what: str, tmp_path: Path) -> None:
    text, status, parts = CHECKED[what]
    checked = CliRunner().invoke(check, [str(written(tmp_path, text))])
    assert checked.exit_code == status and all(part in checked.stderr for part in parts), checked.output
    assert "canary" not in checked.output


def test_check_prints_a_line_per_model_key_and_budget_and_then_what_is_doubtful(tmp_path: Path) -> None:
    limits = "limits: {models: [other], budgets: [{usd: 5, per: day}]}, each_user: {budgets: [{usd: 1, per: total}]}"
    text = SERVED + f"keys: {{web: {KEY}, {limits}}}}}\n"
    checked = CliRunner().invoke(check, [str(written(tmp_path, text))])
    assert checked.stdout.splitlines() == [
        "listens on 127.0.0.1:8080, workers: 1",
        "m: small -> large (few_shot, proof on, max_loss 0.05)",
        "key web: of tenant default; limits {models: [other]}",
        "budget of key web: $5 per day",
        "budget of each user of key web: $1 in total",
    ]
    assert checked.output.index("warning") > checked.output.index("in total")


def test_check_tells_what_routers_learn_with_where_one_learns(tmp_path: Path) -> None:
    text = TWO + "memory: {data_dir: data}\nmodels: {m: {engines: [small, large], policy: in_context}}\n"
    lines = CliRunner().invoke(check, [str(written(tmp_path, text))]).stdout.splitlines()
    assert f"routers learn with {learner_told()}" in lines
    assert usual_learner() in learner_told()


@pytest.mark.parametrize("text", [UP, SERVED, TWO + "models: {'gpt-*': {engines: [small, large]}}\n"])
def test_a_right_one_is_not_doubted(text: str, tmp_path: Path) -> None:
    assert doubts(load_config(written(tmp_path, text), {})) == []


RETIRED = """
engines: {a: {base_url: "http://127.0.0.1:1/v1"}, b: {base_url: "http://127.0.0.1:2/v1"}}
models: {m: {engines: [a, b], advanced: {floor_confidence: 0.9, epsilon: 0.1}}}
memory: {advanced: {answer_vectors: false}}
workflows: {max_depth: 7, passes: [prune], advanced: {max_prompt_characters: 9}}
learning: {advanced: {train_scorer: false, max_outcomes: 160}}
replay: {advanced: {max_in_flight: 3}}
"""


def test_a_file_with_retired_settings_is_taken_along_and_told_of(tmp_path: Path) -> None:
    config = load_config(path := written(tmp_path, RETIRED), {})
    keys = [told.split(" is no setting any more: ")[0] for told in config.told]
    assert keys == [
        "models.m.advanced.floor_confidence",
        "memory.advanced.answer_vectors",
        "learning.advanced.max_outcomes",
        "learning.advanced.train_scorer",
        "workflows.advanced.max_prompt_characters",
        "workflows.passes",
        "workflows.max_depth",
        "replay.advanced.max_in_flight",
    ]
    assert config.models["m"].advanced.epsilon == 0.1
    checked = CliRunner().invoke(check, [str(path)])
    assert checked.exit_code == 0
    assert all(f"warning: {told}" in checked.stderr for told in config.told)
    assert "m: a -> b (fixed)" in checked.stdout.splitlines()


def test_check_refuses_as_the_start_does(tmp_path: Path) -> None:
    text, parts = REFUSED["a group misspelt"]
    checked = CliRunner().invoke(check, [str(written(tmp_path, text))])
    assert checked.exit_code == 2 and all(part in checked.stderr for part in parts)


def test_what_check_prints_can_be_read_again(tmp_path: Path) -> None:
    before = load_config(written(tmp_path, SERVED), {})
    shown = CliRunner().invoke(check, ["--all", str(tmp_path / "understudy.yaml")])
    assert load_config(written(tmp_path, shown.stdout), {}) == before
