"""The tiny models' tokenizer, made from the world's own sentences, and how a conversation becomes tokens.

Byte-level BPE, so that any text can be read; every word of the world is one token, so that a fact can be found by matching
one token with another. The chat template is written twice: as Jinja for the serving engine, as a function for training; a
test holds them together.
"""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from benchmarks.tiny_models.world import NOUNS, SYSTEM, VERBS, World

START, END, PADDING = "<|turn|>", "<|end|>", "<|padding|>"

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|turn|>' + message['role'] + '\n' + message['content'] + '<|end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|turn|>assistant\n' }}{% endif %}"
)


class NotOneToken(Exception):
    """A word of the world that the vocabulary has no token for: the models could not look it up."""


def make_tokenizer(world: World, size: int = 4000) -> Tokenizer:
    """A tokenizer of at most `size` tokens. Raises NotOneToken."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[PADDING, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    roles = "system\nuser\nassistant\n"
    words = (*(fact.town for fact in world.facts), *VERBS, *NOUNS)
    alone = [f" {word}" for word in words]
    tokenizer.train_from_iterator([*world.sentences(), *alone, *([SYSTEM, roles] * 20)], trainer)
    for word in words:
        if len(tokenizer.encode(" " + word, add_special_tokens=False).ids) != 1:
            raise NotOneToken(f"{word!r} takes more than one of {tokenizer.get_vocab_size()} tokens")
    return tokenizer


def turn(role: str, content: str) -> str:
    """One message as the chat template writes it."""
    return f"{START}{role}\n{content}{END}\n"


def prompt(messages: Sequence[tuple[str, str]]) -> str:
    """Messages as (role, content), and the beginning of the assistant's turn."""
    return "".join(turn(role, content) for role, content in messages) + f"{START}assistant\n"
