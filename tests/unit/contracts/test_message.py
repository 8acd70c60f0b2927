"""Every message that OpenAI's chat API takes is taken; what can't be read of it is named, and nothing is lost unseen."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memline.contracts.errors import InvalidMessage, TurnTooLarge
from memline.contracts.message import ROLES, Image, Message, check_messages, cut, without_marks

URL = "https://pictures.example/dog.png"
DATA = "data:image/png;base64,aGVsbG8="


def taken(raw: object, *, vision: bool = False) -> tuple[Message, ...]:
    return check_messages(raw, max_bytes=1 << 20, vision=vision)


def user(*parts: object) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def image(url: str = URL, **detail: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **detail}}


TEXT = {"type": "text", "text": "Look at this."}


class Dumped:
    """As a client of OpenAI's returns its messages."""

    def model_dump(self) -> dict[str, Any]:
        return {"role": "assistant", "content": "Noted.", "refusal": None, "audio": None, "function_call": None, "tool_calls": None}


def test_an_image_stays_beside_the_text_where_a_model_will_describe_it() -> None:
    found = taken([user(TEXT, image(detail="low")), user({"type": "input_image", "image_url": DATA})], vision=True)
    assert found == (Message("user", "Look at this.", images=(Image(URL, "low"),)), Message("user", "", images=(Image(DATA),)))


def test_an_image_without_a_vision_model_is_refused_by_its_path_and_with_the_way_on() -> None:
    with pytest.raises(InvalidMessage, match=r"^messages\[1\]\.content\[1\] is an image: set MEMLINE_VISION_MODEL .* or leave it out\.$"):
        taken([user(TEXT), user(TEXT, image())])


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/y", "secret", "data:text/html;base64,aGk=", "https://a b", "", None, 5])
def test_an_image_is_an_http_or_data_url_and_the_url_is_not_told(url: Any) -> None:
    with pytest.raises(InvalidMessage, match=r"^messages\[0\]\.content\[0\]\.image_url\.url ") as refused:
        taken([user(image(url))], vision=True)
    assert not url or str(url) not in str(refused.value).replace("http(s)", "")


def test_one_part_may_stand_without_a_list_as_mem0_documents_it() -> None:
    assert taken([user(TEXT), {"role": "user", "content": image()}], vision=True)[1] == Message("user", "", images=(Image(URL),))
    with pytest.raises(InvalidMessage, match=r"^messages\[0\]\.content is an image"):
        taken({"role": "user", "content": image()})


def test_an_image_in_a_tools_answer_is_not_described() -> None:
    assert taken([{"role": "tool", "content": [TEXT, image()]}])[0] == Message("tool", "Look at this.\n[image]")


@pytest.mark.parametrize(
    ("part", "mark"),
    [
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}, "[audio]"),
        ({"type": "file", "file": {"file_id": "file-1"}}, "[file]"),
        ({"type": "file", "file": {"filename": "my\nreport.pdf", "file_data": "AAAA"}}, "[file: my report.pdf]"),
        ({"type": "input_file", "filename": "a.csv"}, "[file: a.csv]"),
    ],
)
def test_what_can_not_be_read_leaves_a_mark_beside_the_text(part: dict[str, Any], mark: str) -> None:
    (found,) = taken([user(TEXT, part)])
    assert found.text == f"Look at this.\n{mark}"
    assert without_marks(found.text) == "Look at this."
    with pytest.raises(InvalidMessage, match="messages hold no text"):
        taken([user(part)])


def test_an_assistants_refusal_and_the_transcript_of_its_audio_are_its_text() -> None:
    spoken = {"role": "assistant", "content": None, "audio": {"id": "a1", "transcript": "It rains."}}
    refused = {"role": "assistant", "content": None, "refusal": "I can't do that."}
    assert [message.text for message in taken([spoken, refused])] == ["It rains.", "I can't do that."]
    assert taken([user(TEXT), {"role": "assistant", "audio": {"id": "a1"}}])[1].text == "[audio]"


def test_the_objects_of_openais_client_are_messages() -> None:
    assert taken([user(TEXT), Dumped()])[1] == Message("assistant", "Noted.")
    assert taken(Dumped()) == (Message("assistant", "Noted."),)


def test_a_part_that_openai_does_not_know_is_refused_by_its_path() -> None:
    with pytest.raises(InvalidMessage, match=r"^messages\[0\]\.content\[1\]\.type \(a string of length 5\) is no part") as refused:
        taken([user(TEXT, {"type": "video", "video": "secret"})])
    assert "video" not in str(refused.value)


def test_the_url_of_an_image_counts_as_text() -> None:
    with pytest.raises(TurnTooLarge):
        check_messages([user(TEXT, image("data:image/png;base64," + "A" * 2000))], max_bytes=2000, vision=True)


def test_a_cut_text_has_an_ellipsis_within_its_limit() -> None:
    assert (cut("abcd", 4), cut("abcde", 4)) == ("abcd", "abc…")


# --- any message that the API takes (openai's types of 2026: ChatCompletionMessageParam) -------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
text_parts = st.builds(lambda text: {"type": "text", "text": text}, texts)
refusals = st.builds(lambda text: {"type": "refusal", "refusal": text}, texts)
audio = st.just({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}})
some_files = st.builds(lambda name: {"type": "file", "file": {"filename": name, "file_data": "AAAA"}}, texts)
pictures = st.builds(
    lambda url, detail: {"type": "image_url", "image_url": {"url": url} | detail},
    st.sampled_from([URL, DATA]),
    st.sampled_from([{}, {"detail": "auto"}, {"detail": "high"}]),
)
names = st.sampled_from([{}, {"name": "ann"}, {"name": None}])
calls = st.builds(
    lambda text: [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": text}}, {"id": "c2", "type": "custom"}], texts
)
plain = {"system": text_parts, "developer": text_parts, "tool": text_parts, "user": text_parts | audio | some_files | pictures}
openai_messages = st.one_of(
    *(
        st.builds(
            lambda role, content, name: {"role": role, "content": content} | name, st.just(role), texts | st.lists(parts, max_size=3), names
        )
        for role, parts in plain.items()
    ),
    st.builds(lambda text: {"role": "tool", "content": text, "tool_call_id": "c1"}, texts),
    st.builds(lambda text: {"role": "function", "content": text, "name": "f"}, st.none() | texts),
    st.builds(
        lambda content, more: {"role": "assistant", "content": content} | more,
        st.none() | texts | st.lists(text_parts | refusals, max_size=2),
        st.builds(lambda found: {"tool_calls": found}, calls)
        | st.just({"audio": {"id": "a1"}})
        | st.just({"function_call": {"name": "f", "arguments": "{}"}})
        | st.builds(lambda text: {"refusal": text}, st.none() | texts)
        | st.just({}),
    ),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(openai_messages, max_size=5))
def test_any_message_that_openais_api_takes_is_taken(raw: list[dict[str, Any]]) -> None:
    found = taken([{"role": "user", "content": "said"}, *raw], vision=True)
    assert [message.role for message in found] == ["user", *(message["role"] for message in raw)]
    for message, given_ in zip(found[1:], raw, strict=True):
        content = given_.get("content")
        for part in content if isinstance(content, list) else []:
            if part["type"] in ("text", "refusal"):
                assert part[part["type"]] in message.text  # text is always kept, whatever stands beside it
        if isinstance(content, str) and content:
            assert message.text == content
        assert len(message.images) == sum(part["type"] == "image_url" for part in content if isinstance(content, list)) if content else True
    assert tuple(Message.from_json(message.to_json()) for message in found) == found


@given(st.sampled_from(ROLES), texts)
def test_a_message_without_images_travels_as_it_always_did(role: str, text: str) -> None:
    assert Message(role, text).to_json() == {"role": role, "text": text}
