"""A chat model behind an OpenAI-compatible server, asked for JSON in the strictest form the server takes."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memline.contracts.errors import ProviderRefused, ProviderUnavailable
from memline.language.calls import CallTimes, Link
from memline.language.chat.forms import Forms, ReplyForm
from memline.language.lazy import Lazy
from memline.language.ports import ChatReply
from memline.language.providers import estimated_tokens, host_of, make_client, provider_errors, tokens_of
from memline.language.usage import Use, tell

if TYPE_CHECKING:
    import openai

__all__ = ["OpenAIChat", "ReplyForm"]

_log = logging.getLogger(__name__)

#: Models that refuse a temperature other than their own.
_OWN_TEMPERATURE = re.compile(r"(?:^|/)(?:gpt-5|o\d)")
#: How servers speak of the form they do not take.
_FORM_REFUSED = re.compile(r"response[_ ]?format|json[_ ]?schema|json[_ ]?object|structured output", re.IGNORECASE)
_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*", re.DOTALL | re.IGNORECASE)


class _FormRefused(ProviderRefused):
    """The server does not take this form of a reply."""


class OpenAIChat:
    """Asks `POST {base_url}/chat/completions` (`ports.ChatModel`). Thread-safe; a forked child opens its own connections.

    *timeout* in seconds, of one try; *link* tries again, and holds back. With a schema the reply is asked for as `json_schema` (strict);
    where the server answers 400 or 422 to that form, as `json_object`, and then as plain text, both with the schema in the messages. The
    form that worked is remembered in *forms*; without them by this object.
    """

    def __init__(
        self,
        model: str,
        api_key: str,
        base_url: str | None = None,
        timeout: float = 60.0,
        link: Link | None = None,
        forms: Forms | None = None,
    ) -> None:
        self._model = model
        self._base_url = base_url
        self._timeout = timeout
        self._link = link or Link(host_of(base_url), model, times=CallTimes(budget=timeout, tries=1))
        self._forms = forms or Forms()
        self._client: Lazy[openai.OpenAI] = Lazy(lambda: make_client(api_key, base_url, timeout), per_process=True)

    @property
    def model(self) -> str:
        return self._model

    @property
    def form(self) -> ReplyForm:
        """The strictest form that this server is not known to refuse."""
        return self._forms.of(self._base_url, self._model)

    def complete(self, messages: Sequence[Mapping[str, Any]], *, schema: Mapping[str, Any] | None = None) -> ChatReply:
        """The reply to *messages* (dicts with role and content), as JSON by *schema* where the server can.

        Raises ProviderUnavailable where another try may help, ProviderRefused where it won't.
        """
        deadline = self._link.deadline()
        if schema is None:
            return self._try(self._arguments(messages), ReplyForm.SCHEMA, deadline)
        known = self.form
        for form in ReplyForm:
            if form < known:
                continue
            try:
                reply = self._try(self._arguments(messages, schema, form), form, deadline)
            except _FormRefused:
                continue
            if form > known:
                _log.warning(
                    "%s at %s does not take the reply form %s: using %s",
                    self._model,
                    host_of(self._base_url),
                    known.name,
                    form.name,
                )
                self._forms.learned(self._base_url, self._model, form)
            return reply
        raise AssertionError("unreachable: the last form returns or raises")

    def close(self) -> None:
        """Closes the connections; the next `complete` opens new ones."""
        client = self._client.drop()
        if client is not None:
            client.close()

    def _try(self, arguments: dict[str, Any], form: ReplyForm, deadline: float) -> ChatReply:
        """One form of the request, tried as often as the link does."""
        client = self._client.get()  # first: it says which package is missing
        import openai

        what = f"The model {self._model}"
        reserved = estimated_tokens(arguments["messages"])

        def once(seconds: float) -> ChatReply:
            with provider_errors(what, self._base_url):
                try:
                    return self._read(client.chat.completions.create(**arguments, timeout=min(self._timeout, seconds)), form)
                except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                    if "response_format" in arguments and _refuses_form(error):
                        raise _FormRefused(f"{what} at {host_of(self._base_url)} does not take the reply form {form.name}.") from None
                    raise

        reply, lost = self._link.make(once, tokens=reserved, deadline=deadline)
        self._link.used(reserved, reply.tokens_in + reply.tokens_out or reserved)
        tell(Use(self._model, 1, reply.tokens_in, reply.tokens_cached, reply.tokens_out, lost))
        return reply

    def _arguments(
        self, messages: Sequence[Mapping[str, Any]], schema: Mapping[str, Any] | None = None, form: ReplyForm = ReplyForm.SCHEMA
    ) -> dict[str, Any]:
        arguments: dict[str, Any] = {"model": self._model, "messages": [dict(message) for message in messages]}
        if not _OWN_TEMPERATURE.search(self._model):
            arguments["temperature"] = 0
        if schema is None:
            return arguments
        if form is ReplyForm.SCHEMA:
            arguments["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": dict(schema), "strict": True}}
            return arguments
        if form is ReplyForm.OBJECT:
            arguments["response_format"] = {"type": "json_object"}
        wish = "Answer with one JSON object and nothing else. It follows this JSON schema:\n" + json.dumps(schema, ensure_ascii=False)
        # with the rules, where there are any: many chat templates take a system message only as the first one
        first = arguments["messages"][0] if arguments["messages"] else {}
        if first.get("role") == "system" and isinstance(first.get("content"), str):
            first["content"] += "\n\n" + wish
        else:
            arguments["messages"].insert(0, {"role": "system", "content": wish})
        return arguments

    def _read(self, answer: Any, form: ReplyForm) -> ChatReply:
        where = f"The model {self._model} at {host_of(self._base_url)}"
        choices = getattr(answer, "choices", None)
        if not isinstance(choices, list):
            raise ProviderRefused(f"{where} sent no chat completion ({type(answer).__name__}): check the base URL.", of_content=False)
        tokens_in, tokens_cached, tokens_out = tokens_of(answer)
        message = getattr(choices[0], "message", None) if choices else None
        if message is None:
            if tokens_in or tokens_out:  # it is charged for all the same
                tell(Use(self._model, 1, tokens_in, tokens_cached, tokens_out))
            lacks = "choice without a message" if choices else "completion without a choice"
            raise ProviderUnavailable(f"{where} sent a {lacks}: it is tried again later.", cause="answer")
        text = message.content if isinstance(message.content, str) else ""
        if not text.strip():
            text = _thought_json(message) or text
        if form is ReplyForm.TEXT and (fenced := _FENCED.fullmatch(text)):
            text = fenced[1]
        finish = choices[0].finish_reason or "stop"
        if not text and getattr(message, "refusal", None):
            finish = "refusal"
        return ChatReply(text, tokens_in, tokens_out, finish, tokens_cached)


def _thought_json(message: Any) -> str | None:
    """The JSON object that a server put into a model's thoughts and not into its answer, as LM Studio and vLLM do with some models."""
    for name in ("reasoning_content", "reasoning"):
        thoughts = getattr(message, name, None)
        if isinstance(thoughts, str) and thoughts.strip().startswith("{"):
            try:
                if isinstance(json.loads(thoughts), dict):
                    return thoughts
            except (ValueError, RecursionError):
                continue
    return None


def _refuses_form(error: openai.APIStatusError) -> bool:
    # Read, not shown: it may quote what was sent. LM Studio's error is a bare string, which the client keeps as the body alone.
    return error.param == "response_format" or _FORM_REFUSED.search(f"{error.message} {error.body}") is not None
