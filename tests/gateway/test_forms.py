"""What is read of a form: its model and its user, the names of all else, and nothing that could be read otherwise."""

from __future__ import annotations

import pytest

from engines.errors import RequestError
from gateway.forms import Form, read_form

END = b"--x--\r\n"


def read(raw: bytes, content_type: str = "multipart/form-data; boundary=x") -> Form:
    return read_form(raw, content_type)


def part(disposition: str, value: bytes, more: str = "") -> bytes:
    head = f"--x\r\n{more}Content-Disposition: form-data; {disposition}\r\n\r\n"
    return head.encode() + value + b"\r\n"


def test_the_model_and_the_names_are_read() -> None:
    raw = (
        part('name="model"', b"whisper-1")
        + part("name=user", b"ann", "Content-Type: text/plain\r\n")
        + part('name="file"; filename="a.wav"', b"RIFF\r\n\r\nmodel=other")
        + END
    )
    found = read(raw).fields
    assert (found["model"], found["user"], set(found)) == ("whisper-1", "ann", {"model", "user", "file"})


@pytest.mark.parametrize(
    "before",
    [
        part('name="file"; filename="model"', b"dear"),
        part('name="file"; filename="a"', b'Content-Disposition: form-data; name="model"\r\n\r\ndear'),
    ],
)
def test_the_model_is_the_field_of_that_name_and_no_other(before: bytes) -> None:
    form = read(before + part('name="model"', b"cheap") + END)
    assert form.fields["model"] == "cheap" and form.raw[form.model_at] == b"cheap"
    assert form.with_model("other") == before + part('name="model"', b"other") + END


def test_a_form_without_a_model_gets_one_before_all_else() -> None:
    form = read(b"\r\n" + part('name="n"', b"2") + END)
    changed = read(form.with_model("ours"))
    assert changed.fields == {"model": "ours", "n": "2"} and changed.raw.startswith(
        part('name="model"', b"ours")
    )


@pytest.mark.parametrize(
    "raw",
    [
        part('name="model"', b"a") + part('name="model"', b"b"),
        part('name="Model"', b"dear"),
        part('name="model2"', b"dear"),
        part('name="model[]"', b"dear"),
        part('name="file"; filename="a name=model"', b"dear"),
        part("name=\"file\"; filename*=utf-8''a%20name=model", b"dear"),
        part('name="model"; filename="a"', b"a"),
        part('name="model"', b"YQ==", "Content-Transfer-Encoding: base64\r\n"),
        part('name="a"', b"a", 'Content-Disposition: form-data; name="model"\r\n'),
        part('name="a"', b"a", 'X: y\nContent-Disposition: form-data; name="model"\r\n'),
        part("name*=utf-8''model", b"a"),
        part('name="mo\\del"', b"a"),
        part('name = "model"', b"a"),
        part('name="a"; name="model"', b"a"),
        part('name="a"; NAME="model"', b"a"),
        part('name="a"; filename="b\\"; name=\\"model"', b"a"),
        part("filename=x", b"a"),
        part('name="n"', b"1") * 1001,
        part('name="a"', b"a") + END + part('name="model"', b"b"),
        b"--x\n" + part('name="model"', b"b"),
        part('name="a"', b'a\n--x\nContent-Disposition: form-data; name="model"\n\nb'),
    ],
)
def test_what_two_readers_could_take_for_different_forms_is_refused(raw: bytes) -> None:
    with pytest.raises(RequestError) as refused:
        read(raw + END)
    assert refused.value.status == 400 and refused.value.code == "invalid_form"


def test_a_form_that_ends_too_early_is_refused() -> None:
    with pytest.raises(RequestError):
        read(part('name="model"', b"a"))


@pytest.mark.parametrize(
    "content_type",
    [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=x; boundary=y",
        "multipart/form-data; boundary*=utf-8''y; boundary=x",
        "multipart/form-data; boundary=" + "x" * 71,
    ],
)
def test_a_boundary_that_cannot_be_read_for_certain_is_refused(content_type: str) -> None:
    with pytest.raises(RequestError):
        read(part('name="model"', b"a") + END, content_type)


@pytest.mark.parametrize("name", ["image[file_id]", "images[0][File_Id]", "file%5Fid", "FILE_ID"])
def test_a_name_within_another_counts(name: str) -> None:
    found = read(part('name="model"', b"a") + part(f'name="{name}"', b"file-1") + END).fields
    assert found["model"] == "a" and "file_id" in found


def test_a_body_that_is_no_form_is_refused() -> None:
    with pytest.raises(RequestError):
        read(b'{"file_id": "file-1"}')
