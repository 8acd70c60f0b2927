"""The composition root's part for models: what embeds, extracts, describes images and reranks, and how their servers are called."""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import TYPE_CHECKING, Literal, cast

from memline.compose_base import HouseBase
from memline.contracts.errors import ConfigurationError
from memline.provider_links import build_calls, build_link, tell_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memline.language.calls import Calls
    from memline.language.chat.forms import Forms
    from memline.language.ports import ChatModel, Embedder
    from memline.language.usage import Use
    from memline.pipeline.extractors.port import Extractor
    from memline.pipeline.parts import Parts, Vision
    from memline.search.rerank.port import Reranker

__all__ = ["ModelParts"]

#: Of a chat model's setting: package.module:name; all else names a model.
_IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+:[^\W\d]\w*(\.[^\W\d]\w*)*")


class ModelParts(HouseBase):
    """Each model that the settings name, or that the application gave."""

    @property
    @abstractmethod
    def parts(self) -> Parts: ...

    @property
    def embedder(self) -> Embedder:
        return cast("Embedder", self._once("_embedder", self._build_embedder))

    def _build_embedder(self) -> Embedder:
        settings = self.settings
        if self._given_embedder is not None:
            return self._given_embedder
        if settings.uses_openai_embedder():
            return self._openai_embedder("embed")
        if settings.embedder in ("auto", "local"):
            from memline.language.embedders.usem3 import LocalEmbedder

            return LocalEmbedder()
        return cast("Embedder", self._loaded("embedder", settings.embedder))

    def _openai_embedder(self, call: Literal["embed", "search"]) -> Embedder:
        """Of one kind of call: somebody waits for a search's, so it is tried once and no limit holds it back."""
        from memline.language.embedders.openai import OpenAIEmbedder

        settings = self.settings
        timeout = min(20.0, settings.model_timeout)
        return OpenAIEmbedder(
            settings.embedding_model,
            settings.embedding_dimension,
            api_key=self._openai_key("MEMLINE_EMBEDDER"),
            base_url=settings.openai_base_url,
            timeout=timeout,
            link=build_link(settings, self.calls, settings.embedding_model, call, timeout=timeout if call == "search" else None),
        )

    def _build_search_embedder(self) -> Embedder:
        """What embeds questions: the embedder, told to the metrics; one behind a server does not wait, as a search does not."""
        from memline.language.metered import MeteredEmbedder

        settings = self.settings
        if not self.embedder.paid:
            return self.embedder
        embedder = self.embedder
        if self._given_embedder is None and settings.uses_openai_embedder():
            embedder = self._openai_embedder("search")
        return MeteredEmbedder(embedder, tell_of(settings, "search"))

    def counted_embedder(self) -> Embedder:
        """The embedder, whose calls are written to the ledger as they are made, for a command that embeds for all namespaces (`*`)."""
        from memline.language.metered import MeteredEmbedder
        from memline.pipeline.paid import settle_uses

        def told(uses: Sequence[Use]) -> None:
            with self.ledger.write() as tx:
                settle_uses(tx, self.parts, "embed", "*", uses)

        return MeteredEmbedder(self.embedder, told) if self.embedder.paid else self.embedder

    @property
    def calls(self) -> Calls:
        """What the calls of models' servers share: limits and breaker."""
        return cast("Calls", self._once("_calls", lambda: build_calls(self.settings, self.ids)))

    @property
    def extractor(self) -> Extractor:
        return cast("Extractor", self._once("_extractor", self._build_extractor))

    def _build_extractor(self) -> Extractor:
        settings = self.settings
        if self._given_extractor is not None:
            return self._given_extractor
        if settings.uses_model() or self._given_chat_model is not None:
            from memline.pipeline.extractors.model import ModelExtractor

            return ModelExtractor(self._build_chat_model(), window_tokens=settings.model_window)
        if settings.extractor in ("auto", "rules"):
            from memline.pipeline.extractors.rules import RuleExtractor

            return RuleExtractor()
        return cast("Extractor", self._loaded("extractor", settings.extractor))

    @property
    def vision(self) -> Vision | None:
        """What describes images; None where nothing is set."""
        return None if self.settings.vision_model is None else cast("Vision", self._once("_vision", self._build_vision))

    def _build_vision(self) -> Vision:
        from memline.pipeline.images import ImageReader

        model = cast("str", self.settings.vision_model)
        return ImageReader(self._chat_model_of(model, "vision_model", "vision", asks="MEMLINE_VISION_MODEL"))

    def _build_chat_model(self) -> ChatModel:
        if self._given_chat_model is not None:
            return self._given_chat_model
        return self._chat_model_of(self.settings.chat_model, "chat_model", "extract", asks="MEMLINE_EXTRACTOR")

    def _chat_model_of(self, model: str, setting: str, call: str, *, asks: str, timeout: float | None = None) -> ChatModel:
        """The model of a setting, by its name or its import path. *timeout*: somebody waits for its answer, for so long."""
        if _IMPORT_PATH.fullmatch(model):  # not the name of a model, such as llama3.1:8b
            return cast("ChatModel", self._loaded(setting, model))
        from memline.language.chat.openai import OpenAIChat

        settings = self.settings
        link = build_link(settings, self.calls, model, call, timeout=timeout)
        key, limit = self._openai_key(asks), timeout or settings.model_timeout
        return OpenAIChat(model, api_key=key, base_url=settings.openai_base_url, timeout=limit, link=link, forms=self._forms)

    @property
    def _forms(self) -> Forms:
        return cast("Forms", self._once("_chat_forms", self._build_forms))

    def _build_forms(self) -> Forms:
        from memline.language.chat.forms import Forms
        from memline.ledger.chat_forms import LedgerForms

        return Forms(LedgerForms(lambda: self.ledger, self.clock))

    def _openai_key(self, setting: str) -> str:
        if self.settings.openai_api_key is None:
            raise ConfigurationError(
                f"{setting} asks for an OpenAI-compatible server: set MEMLINE_OPENAI_API_KEY (any value, where it wants none)."
            )
        return self.settings.openai_api_key.get_secret_value()

    @property
    def reranker(self) -> Reranker | None:
        """What reranks where a search asks for it; None where nothing is set."""
        if self._given_reranker is None and self.settings.reranker is None:
            return None
        return cast("Reranker", self._once("_reranker", self._build_reranker))

    def _build_reranker(self) -> Reranker:
        settings = self.settings
        if self._given_reranker is not None:
            return self._given_reranker
        if settings.reranker == "http":
            from memline.search.rerank.http import HttpReranker

            if settings.rerank_url is None:
                raise ConfigurationError("MEMLINE_RERANKER=http needs MEMLINE_RERANK_URL, such as https://api.example.com/v1/rerank.")
            key = settings.rerank_api_key
            return HttpReranker(settings.rerank_url, settings.rerank_model, None if key is None else key.get_secret_value())
        if settings.reranker == "llm":
            from memline.language.metered import MeteredChat
            from memline.search.rerank.llm import LlmReranker

            # a call that nobody waits for any more should not be paid for much longer
            timeout = min(settings.search_deadline, settings.model_timeout)
            chat = self._given_chat_model or self._chat_model_of(
                settings.chat_model, "chat_model", "rerank", asks="MEMLINE_RERANKER", timeout=timeout
            )
            return LlmReranker(MeteredChat(chat, tell_of(settings, "rerank")))
        return cast("Reranker", self._loaded("reranker", cast("str", settings.reranker)))
