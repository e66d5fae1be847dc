"""Reading definitions: what is written as it stands in the docs, and every fault named with its remedy."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from workflows.declared import DefinitionError, World, read_definition, valid_workflow
from workflows.declaring.steps import FIELDS
from workflows.definition import KINDS, PASSES, Definition, InputSpec, OnError, Splits, dumped, loaded

DOC_QA = """
inputs: {question: last_user, documents: texts}
steps:
  chunks:  {split: "{{documents}}", tokens: 256, overlap: 30}
  index:   {ingest: "{{chunks}}"}                      # embeds first; {collection: name} keeps it
  queries: {chat: "Rewrite in 3 ways, as a JSON list: {{question}}", model: gpt-4o, splits: json}
  found:   {search: "{{queries}}", in: "{{index}}", k: 16}
  top:     {rerank: "{{found}}", by: "{{question}}", k: 3}
  answer:  {fold: "{{top}}", chat: "…{{question}}…{{item}}…{{so_far}}", model: gpt-4o}
output: answer
"""
EVERY_KIND = """
description: every kind of step once
model: gpt-4o
inputs:
  question: last_user
  rules: system
  notes: {kind: texts, default: []}
  facts: {kind: json, default: {a: 1}}
  city: {kind: text, default: Ulm}
steps:
  chunks: {split: "{{notes}}"}
  vectors: {embed: "{{chunks}}", component: big}
  index: {ingest: "{{vectors}}", collection: manuals}
  kept: {search: "{{question}}", in: {collection: manuals}, component: big}
  here: {search: "{{question}}", in: "{{index}}"}
  there: {search: "{{question}}", in: web, k: 3}
  both: {merge: ["{{kept}}", "{{here}}", "{{there}}"], how: top, k: 4}
  best: {rerank: "{{both}}", by: "{{question}}", component: local}
  each: {map: "{{best}}", chat: "{{rules}} {{item}}", temperature: 0, params: {min_p: 0.1}, on_error: {retry: 1, default: x}}
  looked: {map: "{{best}}", tool: lookup, args: {q: ["{{item}}", 3], city: "{{city}}"}, idempotent: true}
  told: {tool: lookup, args: {q: "{{facts}}"}, effects: true, after: looked}
  long: {when: "{{each}}", above: 3}
  short: {chat: [{role: system, content: "{{rules}}"}, {role: user, content: "{{question}}"}], if: long}
  other: {fold: "{{each}}", chat: "{{item}}{{so_far}}", first: "{{item}}", initial: none, unless: long, warm: true}
  again: {loop: "{{question}} {{so_far}}", first: "{{question}}", until: {contains: DONE}, max_rounds: 3, if: long}
  joined: {transform: "{{looked}}", apply: [{join: ", "}]}
  answer: {first_of: ["{{short}}", "{{other}}", "{{joined}}"], after: [told]}
output: answer
passes: [prune, decoding]
"""
WORLD = World(
    {
        "big": frozenset({"embed"}),
        "other": frozenset({"embed"}),
        "web": frozenset({"search"}),
        "lookup": frozenset({"tool"}),
    },
    is_model=lambda name: name == "gpt-4o",
    taken=lambda name: name == "gpt-4o",
)
PLAIN = World({}, is_model=lambda name: name == "gpt-4o", taken=lambda name: name == "gpt-4o")


def read(text: str, world: World = PLAIN, name: str = "doc-qa") -> Definition:
    return read_definition(name, yaml.safe_load(text), world)


def faults(text: str, world: World = PLAIN, name: str = "wf") -> list[str]:
    with pytest.raises(DefinitionError) as raised:
        read(text, world, name)
    assert raised.value.status == 400
    return raised.value.message.splitlines()


def steps(*lines: str, output: str = "a", more: str = "") -> str:
    head = ["inputs: {question: last_user, documents: texts}", more, "steps:"]
    return "\n".join([*head, *(f"  {line}" for line in lines), f"output: {output}"])


def test_a_definition_reads_as_it_is_written() -> None:
    found = read(DOC_QA)
    assert list(found.steps) == ["chunks", "index", "queries", "found", "top", "answer"]
    assert found.inputs["question"] == InputSpec("question", "last_user")
    assert (found.output, found.chained, found.passes) == ("answer", False, frozenset(PASSES))
    chunks, index, queries, hits, top, answer = found.steps.values()
    assert (chunks.over, chunks.tokens, chunks.overlap) == (("documents",), 256, 30)
    assert {chunks.component, index.component, hits.component, top.component} == {"local"}
    assert (queries.splits, queries.reads, queries.model) == (Splits("json"), ("question",), "gpt-4o")
    assert (hits.over, hits.reads, hits.index, hits.k) == (("queries",), ("index",), "step:index", 16)
    assert (top.by, top.reads, top.k) == ("question", ("question",), 3)
    assert (answer.over, answer.reads) == (("top",), ("question",))
    assert answer.messages == ({"role": "user", "content": "…{{question}}…{{item}}…{{so_far}}"},)
    assert found.before("found") == ("queries", "index")


def test_every_kind_of_step_is_read() -> None:
    found = read(EVERY_KIND, WORLD)
    by_kind = {step.kind for step in found.steps.values()}
    assert by_kind == set(KINDS) - {"loop"}, "whose turns are steps"
    assert found.inputs["rules"] == InputSpec("rules", "system", False, "")
    assert found.inputs["facts"] == InputSpec("facts", "json", False, '{"a":1}')
    assert found.inputs["notes"] == InputSpec("notes", "texts", False, [])
    assert found.passes == {"prune", "decoding"}
    step = found.steps
    assert (step["index"].component, step["here"].component, step["kept"].component) == ("big", "big", "big")
    assert (step["index"].collection, step["kept"].index) == ("manuals", "collection:manuals")
    assert (step["there"].index, step["there"].component) == ("component:web", "web")
    assert step["each"].params == {"temperature": 0, "min_p": 0.1}
    assert step["each"].on_error == OnError(1, "x")
    assert step["looked"].tool and step["looked"].reads == ("city",) and step["looked"].idempotent
    assert step["told"].effects and step["told"].after == ("looked",)
    assert (step["short"].condition, step["other"].condition) == (("long", True), ("long", False))
    assert step["long"].test == ("above", 3.0)
    assert step["other"].initial == "none"
    assert step["again"].over == ("again[2]", "again[1]", "again[0]")
    assert step["again[2]"].sources == {"so_far": "again[1]"}
    assert (step["again[0]"].condition, step["again[2]"].condition) == (
        ("long", True),
        ("again.until[1]", False),
    )
    assert step["again.until[0]"].test == ("contains", "DONE")
    assert step["answer"].over == ("short", "other", "joined")


@pytest.mark.parametrize("text", [DOC_QA, EVERY_KIND])
def test_what_is_stored_of_a_definition_is_read_without_a_configuration(text: str) -> None:
    found = read(text, WORLD if "web" in text else PLAIN)
    assert loaded(json.loads(json.dumps(dumped(found)))) == found


def test_a_version_is_of_the_content() -> None:
    one, same = read(DOC_QA), read(DOC_QA.replace("  # embeds", " #"))
    assert one.version == same.version and len(one.version) == 16
    assert read(DOC_QA.replace("k: 16", "k: 8")).version != one.version


def test_a_chain_is_a_list_whose_steps_follow_one_another() -> None:
    chain = """
inputs: {question: last_user}
chain:
  - queries: {chat: "{{question}}", model: gpt-4o}
  - answer: {chat: "{{queries}}", model: gpt-4o}
output: answer
"""
    found = read(chain)
    assert found.chained and list(found.steps) == ["queries", "answer"]
    later = chain.replace('chat: "{{question}}"', 'chat: "{{answer}}"')
    assert faults(later) == [
        "workflows.wf.steps.queries: it refers to 'answer', which does not come before it in the chain; "
        "change the order, or write `steps`"
    ]
    assert "'queries' is there twice" in faults(chain.replace("- answer:", "- queries:"))[0]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            'a: {split: "{{documnts}}"}',
            "a.split is \"{{documnts}}\": nothing is called 'documnts'; did you mean {{documents}}?",
        ),
        ("a: {split: documents}", 'a.split is "documents": is no reference; write one reference'),
        (
            'a: {split: "{{documents}}", token: 3}',
            "a.token: there is no such field here; did you mean tokens?",
        ),
        ('a: {split: "{{documents}}", tokens: 0}', "a.tokens is 0: is out of range; write a whole number"),
        ('a: {split: "{{documents}}", tokens: 8, overlap: 8}', "a.overlap is 8: is not below `tokens`"),
        ('a: {chat: "{{question}}"}', "a.model: is missing; name a model here"),
        (
            'a: {chat: "{{question}}", model: gpt-4o, on_error: {retry: 9}}',
            "a.on_error.retry is 9: is out of range; write {retry: 0 to 3",
        ),
        (
            'a: {chat: "{{question}}", model: gpt-4o, on_error: {default: [x]}}',
            'a.on_error.default is ["x"]: is no text; write {retry: 0 to 3',
        ),
        (
            'a: {map: "{{documents}}", chat: "{{item}}", model: gpt-4o, on_error: {skip: true}}',
            "a.on_error.skip is true: stands beside a default, or is not of a single chat",
        ),
        (
            'a: {chat: "{{question}}", model: gpt-4o, on_error: again}',
            'a.on_error is "again": is not understood; write {retry: 0 to 3',
        ),
        ('a: {chat: "{{question}}", model: gpt}', 'a.model is "gpt": there is no such model'),
        ('a: {chat: "{{question", model: gpt-4o}', "a.chat: `{{` at character 0 is not followed by a name"),
        (
            'a: {chat: "{{item}}", model: gpt-4o}',
            "a.chat: {{item}} means nothing here; it is of `map` and `fold`",
        ),
        (
            'a: {chat: "{{question}}", model: gpt-4o, splits: csv}',
            'a.splits is "csv": is no way to split an answer',
        ),
        (
            'a: {chat: "{{question}}", model: gpt-4o, splits: {regex: "("}}',
            'a.splits.regex is "(": is no regular',
        ),
        (
            'a: {chat: "{{question}}", model: gpt-4o, items: 3}',
            "a.items: an answer that is not split has no items",
        ),
        ('a: {chat: "{{question}}", model: gpt-4o, tools: []}', "a.tools: there is no such field here"),
        (
            'a: {chat: "{{question}}", model: gpt-4o, params: {stream: true}}',
            "a.params.stream: is not a step's",
        ),
        (
            'a: {chat: "{{question}}", model: gpt-4o, after: b}',
            'a.after is "b": there is no step of this name',
        ),
        ('a: {chat: "{{question}}", model: gpt-4o, if: a}', 'a.if is "a": is not a `when` step'),
        (
            'a: {embed: "{{documents}}", component: big}',
            'a.component is "big": there is no component of this',
        ),
        ('a: {search: "{{question}}", in: web}', 'a.in is "web": there is no component of this name; add a'),
        ('a: {search: "{{question}}"}', "a.in: is missing; write"),
        (
            'a: {search: "{{question}}", in: "{{documents}}"}',
            "a.in: {{documents}} holds a list, not an index",
        ),
        (
            "a: {tool: lookup}",
            'a.tool is "lookup": there is no component of this name; add a component of kind',
        ),
        ('a: {map: "{{documents}}"}', "a.chat: is neither a text nor a list of messages"),
        ('a: {fold: "{{question}}", chat: "{{item}}", model: gpt-4o}', "a.fold: {{question}} holds a text"),
        (
            'a: {rerank: "{{documents}}", by: "{{documents}}"}',
            "a.by: {{documents}} holds a list, not one text",
        ),
        ('a: {when: "{{question}}"}', "a: there is no test; write one of equals, matches, contains, above"),
        ('a: {when: "{{question}}", equals: yes}', "a.equals is true: is no text; write a text; put quotes"),
        ('a: {when: "{{question}}", matches: "("}', 'a.matches is "(": is no regular expression of RE2'),
        ('a: {when: "{{question}}", above: "3"}', 'a.above is "3": is no number'),
        ('a: {merge: "{{documents}}"}', 'a.merge is "{{documents}}": is no list of two references or more'),
        (
            'a: {merge: ["{{documents}}", "{{documents}}"], how: best}',
            'a.how is "best": is none of the words',
        ),
        (
            'a: {transform: "{{question}}", apply: [{join: ","}]}',
            "a.apply: join needs a list, and there is a text",
        ),
        (
            'a: {transform: "{{question}}", apply: [trim]}',
            "a.apply[0]: `apply[0]`: there is no transform 'trim'",
        ),
        ("a: {}", "a: nothing says what the step does; write one of chat, split"),
        ('a: {split: "{{documents}}", embed: "{{documents}}"}', "a: it is split and embed at once"),
        ('a: {ingest: "{{documents}}", collection: "a b"}', 'a.collection is "a b": is no name'),
        ('a: {embed: "{{documents}}"}', 'output is "a": it holds vectors, which no answer can show'),
    ],
)
def test_a_fault_names_workflow_step_field_value_and_remedy(line: str, said: str) -> None:
    place = "workflows.wf." if said.startswith("output") else "workflows.wf.steps."
    found = faults(steps(line))
    assert any(each.startswith(place + said) for each in found), found


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("output: answer", "output: answr"),
            'output is "answr": there is no step of this name; did you mean',
        ),
        (("output: answer", 'output: "{{answer}}"'), "write answer, without braces"),
        (("output: answer", ""), "output: is missing; name the step that answers: answer"),
        (
            ("question: last_user", "question: user"),
            'inputs.question is "user": is no kind of input; did you',
        ),
        (
            ("question: last_user", "item: last_user"),
            "inputs.item: the name is taken by `map`, `fold` and `loop`",
        ),
        (
            ("output: answer", "output: answer\npasses: [prun]"),
            'passes is "prun": there is no such pass; did',
        ),
        (
            ("output: answer", "output: answer\nmodels: x"),
            "models: there is no such field; did you mean model?",
        ),
        (("steps:", "stages:"), "steps: is missing; write steps by name"),
        (("  top:", "  question:"), "steps.question: an input has this name, too"),
    ],
)
def test_a_fault_of_the_whole_names_its_field(change: tuple[str, str], said: str) -> None:
    found = faults(DOC_QA.replace(*change))
    assert any(said in each for each in found), found


def test_all_faults_are_listed_at_once() -> None:
    found = faults(steps('a: {split: "{{b}}"}', 'c: {chat: "{{d}}", model: gpt}', output="x"))
    assert [each.partition(":")[0] for each in found] == [
        'workflows.wf.steps.c.model is "gpt"',
        'workflows.wf.steps.a.split is "{{b}}"',
        'workflows.wf.steps.c.chat is "{{d}}"',
        'workflows.wf.output is "x"',
    ]


def test_every_circle_is_listed() -> None:
    found = faults(
        steps(
            'a: {chat: "{{b}}", model: gpt-4o}',
            'b: {chat: "{{a}}", model: gpt-4o}',
            'c: {chat: "x", model: gpt-4o, after: d}',
            'd: {chat: "{{c}}", model: gpt-4o}',
        )
    )
    assert found == [
        "workflows.wf.steps.a: it waits for itself: a -> b -> a; take one of these references away",
        "workflows.wf.steps.c: it waits for itself: c -> d -> c; take one of these references away",
    ]


def test_a_workflow_may_not_have_the_name_of_a_model() -> None:
    assert faults(DOC_QA, name="gpt-4o") == [
        "workflows.gpt-4o: a model is called 'gpt-4o', too; call the workflow something else"
    ]
    assert "is no name for a workflow" in faults(DOC_QA, name="a/b")[0]
    assert valid_workflow("acme:doc-qa.v2") and not valid_workflow("")


def test_where_several_components_could_do_it_a_step_says_which() -> None:
    found = faults(steps('a: {search: "{{documents}}", in: {collection: x}}'), WORLD)
    assert found == [
        "workflows.wf.steps.a.component: nothing says which component is to embed; name one of big, other, local"
    ]
    one = World({"big": frozenset({"embed"})}, PLAIN.is_model, PLAIN.taken)
    assert read(DOC_QA, one).steps["index"].component == "big"
    both = steps(
        'v: {embed: "{{documents}}", component: big}',
        'i: {ingest: "{{v}}", component: local}',
        'a: {search: "{{question}}", in: "{{i}}"}',
    )
    assert "the vectors of 'v' are of 'big'; leave it out" in faults(both, one)[0]


def test_bounds_of_the_configuration_hold() -> None:
    few = World({}, PLAIN.is_model, PLAIN.taken, max_steps=5, max_depth=4)
    assert faults(DOC_QA, few) == [
        "workflows.wf.steps: there are 6; write 5 at most (workflows.max_steps)",
    ]
    flat = World({}, PLAIN.is_model, PLAIN.taken, max_depth=4)
    assert faults(DOC_QA, flat) == ["workflows.wf.steps: 5 steps wait for one another; write 4 at most"]


@pytest.mark.parametrize(
    "value", [None, 3, "x", [], {"steps": []}, {"steps": {1: 2}}, {"steps": {"a": {"chat": {1: 2}}}}]
)
def test_whatever_is_given_is_answered_with_faults(value: Any) -> None:
    with pytest.raises(DefinitionError):
        read_definition("wf", value, PLAIN)


_VALUES = st.recursive(
    st.sampled_from(
        [
            "{{a}}",
            "{{b}}",
            "{{question}}",
            "{{item}} {{c}}",
            "{{",
            "gpt-4o",
            "json",
            "local",
            "a",
            "b",
            "",
            None,
            0,
            3,
            True,
        ]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "regex", "collection", "strip", "x"]), inner, max_size=2
        )
    ),
    max_leaves=4,
)
_FIELDS = sorted({field for fields in FIELDS.values() for field in fields} | {"after", "if", "unless"})
_STEPS = st.dictionaries(st.sampled_from(_FIELDS), _VALUES, min_size=1, max_size=4)
_WHOLE: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"chat": "{{question}}", "model": "gpt-4o"},
        {"chat": "{{a}}", "model": "gpt-4o", "splits": "json"},
        {"split": "{{question}}"},
        {"map": "{{a}}", "chat": "{{item}}", "model": "gpt-4o"},
        {"fold": "{{b}}", "chat": "{{so_far}} {{item}}", "model": "gpt-4o"},
        {"ingest": "{{a}}", "component": "big"},
        {"search": "{{question}}", "in": "{{b}}"},
        {"rerank": "{{a}}", "by": "{{question}}"},
        {"when": "{{question}}", "equals": "x"},
        {"tool": "lookup", "args": {"q": "{{a}}"}, "after": "b"},
        {"merge": ["{{a}}", "{{b}}"], "how": "top"},
        {"transform": "{{a}}", "apply": ["strip"], "if": "b"},
    ]
)


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), _WHOLE | _WHOLE | _STEPS, min_size=1, max_size=3),
    st.booleans(),
)
def test_any_json_is_a_definition_or_has_faults(steps: dict[str, Any], chained: bool) -> None:
    written = {"chain": [{name: step} for name, step in steps.items()]} if chained else {"steps": steps}
    value = {"inputs": {"question": "last_user"}, "output": next(iter(steps)), **written}
    try:
        found = read_definition("wf", value, WORLD)
    except DefinitionError as error:
        assert error.faults and all(fault.problem and fault.remedy for fault in error.faults)
    else:
        assert loaded(json.loads(json.dumps(dumped(found)))) == found


@pytest.mark.parametrize("depth", [70, 900, 5000])
def test_endless_nesting_is_a_fault(depth: int) -> None:
    nested: Any = "{{question}}"
    for _ in range(depth):
        nested = [nested]
    steps = {"a": {"tool": "lookup", "args": {"q": nested}}}
    with pytest.raises(DefinitionError, match=r"nested deeper than 64|holds what JSON has not"):
        read_definition("wf", {"inputs": {"question": "last_user"}, "steps": steps, "output": "a"}, WORLD)


def test_what_json_does_not_have_is_a_fault() -> None:
    assert "holds what JSON has not" in faults(DOC_QA.replace("k: 16", "k: 2024-01-01"))[0]


def test_every_kind_has_a_field_of_its_own_name() -> None:
    assert all(fields[0] == kind for kind, fields in FIELDS.items())
