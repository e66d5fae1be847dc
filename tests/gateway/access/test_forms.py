"""What is read of a form: its model and its user, the names of all else, and nothing that could be read otherwise."""

from __future__ import annotations

import pytest

from engines.errors import RequestError
from gateway.access.forms import form_fields


def part(disposition: str, value: bytes, more: str = "") -> bytes:
    head = f"--x\r\n{more}Content-Disposition: form-data; {disposition}\r\n\r\n"
    return head.encode() + value + b"\r\n"


def test_the_model_and_the_names_are_read() -> None:
    raw = (
        part('name="model"', b"whisper-1")
        + part("name=user", b"ann", "Content-Type: text/plain\r\n")
        + part('name="file"; filename="a.wav"', b"RIFF\r\n\r\nmodel=other")
        + b"--x--\r\n"
    )
    found = form_fields(raw)
    assert (found["model"], found["user"], set(found)) == ("whisper-1", "ann", {"model", "user", "file"})


@pytest.mark.parametrize(
    "raw",
    [
        part('name="model"', b"a") + part('name="model"', b"b"),
        part("name*=utf-8''model", b"a"),
        part('name="mo\\del"', b"a"),
        part('name = "model"', b"a"),
        part('name="a"; name="model"', b"a"),
        part("filename=x", b"a"),
    ],
)
def test_what_two_readers_could_take_for_different_fields_is_refused(raw: bytes) -> None:
    with pytest.raises(RequestError):
        form_fields(raw)


@pytest.mark.parametrize("name", ["image[file_id]", "images[0][File_Id]", "file%5Fid", "FILE_ID"])
def test_a_name_within_another_counts(name: str) -> None:
    found = form_fields(part('name="model"', b"a") + part(f'name="{name}"', b"file-1") + b"--x--\r\n")
    assert found["model"] == "a" and "file_id" in found


def test_a_body_that_is_no_form_is_refused() -> None:
    with pytest.raises(RequestError):
        form_fields(b'{"file_id": "file-1"}')
