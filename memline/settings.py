"""Settings: `MEMLINE_*` in the environment or in a `.env` file of the working directory; nothing set is the embedded mode."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from pydantic import AliasChoices, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from memline.contracts.errors import ConfigurationError

__all__ = ["Settings", "load_settings", "sqlite_url"]

#: At most a year, and at most a century: more is a slip, and some of it no date could hold.
_Seconds = Annotated[float, Field(gt=0, le=31_536_000, allow_inf_nan=False)]
_SecondsOrNone = Annotated[float, Field(ge=0, le=31_536_000, allow_inf_nan=False)]
_PerMinute = Annotated[int, Field(ge=1, le=1_000_000_000)]
_Days = Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)]
_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_WholeDays = Annotated[int, Field(ge=0, le=36_500)]


class Settings(BaseSettings):
    """Every setting, with its default. Seconds and bytes unless a line says otherwise."""

    # A variable that is set to nothing, as a compose file or a CI leaves many, is not set.
    model_config = SettingsConfigDict(
        env_prefix="MEMLINE_", env_file=".env", env_ignore_empty=True, extra="ignore", populate_by_name=True, frozen=True
    )

    namespace: str = Field("default", description="The hard wall between applications or customers.")
    home: Path | None = Field(None, description="Folder of everything memline keeps on this machine; by default the user's data folder.")

    redis_url: SecretStr | None = Field(
        None, description="redis://…: turns go through Redis to workers. Unset: an engine thread runs them here."
    )
    redis_prefix: str = Field("memline", description="What memline's keys in Redis begin with.")
    ledger_url: SecretStr | None = Field(None, description="postgresql://… or sqlite:///…; by default ledger.db in the home folder.")

    openai_api_key: SecretStr | None = Field(
        None,
        validation_alias=AliasChoices("MEMLINE_OPENAI_API_KEY", "OPENAI_API_KEY"),
        description="Switches extraction and embedding to OpenAI, or to any server of its protocol. `OPENAI_API_KEY` does, too.",
    )
    openai_base_url: str | None = Field(
        None,
        validation_alias=AliasChoices("MEMLINE_OPENAI_BASE_URL", "OPENAI_BASE_URL"),
        description="Base URL of that server; or `OPENAI_BASE_URL`.",
    )
    chat_model: str = Field("gpt-5-mini", description="Model that extracts, or the import path (package.module:name) of a ChatModel.")
    vision_model: str | None = Field(
        None,
        description="Model that describes images in messages, or the import path of a ChatModel; unset: a turn with an image is refused.",
    )
    embedding_model: str = Field("text-embedding-3-small", description="Model that embeds, where the embedder is openai.")
    embedding_dimension: int = Field(1536, ge=1, le=16384, description="Its dimension.")
    extractor: str = Field("auto", description="auto, rules, model, or the import path of an Extractor. auto: model where there is a key.")
    embedder: str = Field("auto", description="auto, local, openai, or the import path of an Embedder. auto: openai where there is a key.")
    index: str = Field("auto", description="auto, embedded, weaviate, or the import path of an Index. auto: weaviate where it has a URL.")
    weaviate_url: SecretStr | None = Field(
        None,
        description="http[s]://host:port of a Weaviate; or the word embedded: its client downloads and starts a server of its own.",
    )
    weaviate_grpc_url: str | None = Field(
        None, description="Its gRPC: grpc[s]://host:port, or a port. By default the same host, 50051, TLS as in the URL."
    )
    weaviate_api_key: SecretStr | None = Field(None, description="Its key.")
    weaviate_prefix: str = Field("Memline", description="What memline's collections there begin with.")
    weaviate_timeout: _Seconds = Field(30.0, description="Deadline of a write and of a page of a walk there.")

    reranker: str | None = Field(
        None,
        description="What puts results in order where a search asks for it (`rerank=True`): http, llm (the chat model), or the import path "
        "of a Reranker.",
    )
    rerank_url: str | None = Field(
        None, description="The whole URL of a `/rerank` in the shape of Cohere, Jina and vLLM, where the reranker is http."
    )
    rerank_model: str | None = Field(None, description="Its model; unset: none is named.")
    rerank_api_key: SecretStr | None = Field(None, description="Its key.")

    max_turn: int = Field(1024 * 1024, ge=1024, description="Most bytes of text in a turn.")
    write_policy: str | None = Field(
        None,
        description="What of a text is kept, masked or refused: api_key=mask,card=refuse, or a JSON object by namespace "
        "(docs/write-policy.md).",
    )
    order_wait: _Seconds = Field(30.0, description="How long a turn waits for an earlier one of its producer.")
    clock_margin: _SecondsOrNone = Field(
        60.0, description="How long after a deletion, by the producer's clock, a spooled turn counts as handed over before it."
    )
    history: Literal["full", "hashes"] = Field(
        "full", description="What a memory's history keeps of texts: full, or hashes (MD5 and length)."
    )
    erase_key: SecretStr | None = Field(
        None,
        description="Secret of the tombstones' hashes, the same on every machine that erases; unset: erase.key in the home folder.",
    )
    lease: _Seconds = Field(60.0, description="A worker that says nothing for this long is taken for dead.")
    resend: _Seconds = Field(5.0, description="A batch that nobody took for this long is sent again.")
    in_flight: int = Field(8, ge=1, description="Batches on their way at a time.")
    batch: int = Field(32, ge=1, le=1000, description="Most jobs in a batch.")
    coalesce: int = Field(
        8,
        ge=1,
        le=100,
        description="Turns waiting in one lane that a model extracts in one call, where they fit its window. 1: each alone.",
    )
    model_window: int = Field(
        8000,
        ge=500,
        le=1_000_000,
        description="Tokens of new messages (estimated) that a model is asked at once. A longer turn goes in windows; 6000 more go beside.",
    )
    max_attempts: int = Field(6, ge=1, description="Tries before a job is failed.")
    model_timeout: _Seconds = Field(45.0, description="Deadline of a model's call; must be shorter than the lease.")
    requests_per_minute: _PerMinute | None = Field(
        None, description="Most calls a minute of a chat model, of all workers together (each model apart); unset: no limit of memline's."
    )
    tokens_per_minute: _PerMinute | None = Field(None, description="Most tokens a minute of a chat model, in and out, likewise.")
    embedding_requests_per_minute: _PerMinute | None = Field(None, description="Most calls a minute of the embedder, likewise.")
    embedding_tokens_per_minute: _PerMinute | None = Field(None, description="Most tokens a minute of the embedder, likewise.")
    prices: str | None = Field(
        None,
        description='Dollars per million tokens, as JSON: `{"gpt-5-mini": {"in": 0.25, "cached": 0.025, "out": 2.0}}`; over the published '
        "ones that memline knows.",
    )
    search_deadline: _Seconds = Field(
        2.0, description="Deadline of a search: what has not answered by then is left out and named. The reranker llm needs more."
    )
    reconcile_every: _SecondsOrNone = Field(900.0, description="How often the index is compared with the ledger and repaired. 0: never.")
    reconcile_budget: _Seconds = Field(60.0, description="How long one such turn takes at most; the next one goes on where it stopped.")
    heartbeat_every: Annotated[float, Field(ge=1, le=3600)] = Field(
        10.0, description="How often a process says in the ledger that it works. One that misses three is taken for dead."
    )
    prune_every: _Seconds = Field(300.0, description="How often what is over age, and what has expired, is removed from the ledger.")
    keep_payloads: _Days = Field(
        7.0,
        description="Days that a finished job keeps its messages and replies, and a lane messages that no memory came from.",
    )
    keep_failed: _Days = Field(30.0, description="Days that a failed job keeps them, to be replayed.")
    key_retention: _Days = Field(30.0, description="Days that an idempotency key holds.")
    expired_grace: _WholeDays = Field(30, description="Days that an expired memory is kept after its last one, before it is purged.")
    default_lifetime: Annotated[int, Field(ge=1, le=36_500)] | None = Field(
        None,
        description="Days that a memory without an expiration date of its own lasts; unset: for ever. A namespace may have its own.",
    )
    keep_jobs: _Days = Field(90.0, description="Days that a receipt is answered; one that a memory came from is answered longer.")
    keep_changes: _Days = Field(30.0, description="Days that the feed of changes reaches back.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="What a worker logs. Never the text of a message.")
    log_format: Literal["text", "json"] = Field("text", description="How a worker logs: one line an event, to read or as JSON.")
    sentry_dsn: SecretStr | None = Field(
        None, description="Where a worker tells Sentry of failed jobs, errors and its loops (`memline[observe]`). Unset: nowhere."
    )
    sentry_environment: str = Field("production", description="The environment that Sentry is told.")
    sentry_traces: _Share = Field(0.0, description="Share of a worker's tasks whose times Sentry is told, 0 to 1.")
    tracing: Literal["off", "on"] = Field(
        "off", description="on: spans go to the OpenTelemetry provider that the application has set up; or MEMLINE_OTLP_ENDPOINT."
    )
    otlp_endpoint: str | None = Field(
        None,
        description="http[s]://host:port of an OpenTelemetry collector that spans go to, by OTLP over HTTP (`memline[observe]`). "
        "Unset: nowhere.",
    )
    traces_rate: _Share = Field(
        1.0, description="Share of turns and searches that are traced, 0 to 1; inside a trace of the application's, that one decides."
    )
    flower_user: str = Field("memline", description="Who may open Flower's pages.")
    flower_password: SecretStr | None = Field(None, description="Password of Flower's pages; unset: one is drawn at each start and told.")
    stop_within: _Seconds = Field(
        25.0, description="How long a worker that is told to stop goes on with what it has begun; then it hands it back and ends."
    )
    metrics_port: Annotated[int, Field(ge=1, le=65535)] | None = Field(
        None,
        description="Port at which a worker serves what it and its child processes count (`memline[observe]`). "
        "Unset: `memline metrics` shows it.",
    )
    metrics_host: str = Field("127.0.0.1", description="Address of that port.")
    metrics_dir: Path | None = Field(
        None, description="Folder where processes of this machine keep their counts; by default metrics in the home folder."
    )
    exit_drain: _SecondsOrNone = Field(5.0, description="How long a process that ends goes on with what it accepted.")

    def home_folder(self) -> Path:
        """The home folder; it may not exist yet. Raises ConfigurationError for the home of a user that nobody knows."""
        if self.home is not None:
            try:
                return self.home.expanduser()
            except RuntimeError:
                raise ConfigurationError(f"MEMLINE_HOME ({self.home}) begins with ~, and whose home that is can't be told.") from None
        from platformdirs import user_data_path  # only where no folder is named

        return user_data_path("memline", appauthor=False)

    def ledger_location(self) -> str:
        """The ledger's URL."""
        if self.ledger_url is not None:
            return self.ledger_url.get_secret_value()
        return sqlite_url(self.home_folder() / "ledger.db")

    def uses_model(self) -> bool:
        return self.extractor == "model" or (self.extractor == "auto" and self._has_openai)

    def uses_openai_embedder(self) -> bool:
        return self.embedder == "openai" or (self.embedder == "auto" and self._has_openai)

    def index_backend(self) -> str:
        """embedded, weaviate, or an import path."""
        if self.index != "auto":
            return self.index
        return "embedded" if self.weaviate_url is None else "weaviate"

    @property
    def _has_openai(self) -> bool:
        return self.openai_api_key is not None


def sqlite_url(path: Path) -> str:
    """The URL of a SQLite file, whatever characters its path has."""
    return f"sqlite:///{quote(str(path), safe='/:')}"


def load_settings(**given: Any) -> Settings:
    """The settings of this process; *given* ones go before the environment. Raises ConfigurationError naming what is wrong."""
    try:
        settings = Settings(**given)
    except (UnicodeDecodeError, OSError) as error:
        raise ConfigurationError(
            f"The .env file of this folder can't be read ({type(error).__name__}): it must be text in UTF-8 that this user may read."
        ) from None
    except ValidationError as error:
        # Values are left out: a wrong URL may carry a password.
        told = "; ".join(
            f"MEMLINE_{'_'.join(str(part) for part in line['loc']).upper().removeprefix('MEMLINE_')}: {line['msg']}"
            for line in error.errors()
        )
        raise ConfigurationError(f"Settings are wrong. {told}") from None
    if settings.reranker == "http" and settings.rerank_url is None:
        raise ConfigurationError("MEMLINE_RERANKER=http needs MEMLINE_RERANK_URL, such as https://api.example.com/v1/rerank.")
    if settings.model_timeout >= settings.lease:
        raise ConfigurationError(
            f"MEMLINE_MODEL_TIMEOUT ({settings.model_timeout:g} s) must be shorter than MEMLINE_LEASE ({settings.lease:g} s): "
            "else a call outlives the lease that pays for it once."
        )
    return settings
