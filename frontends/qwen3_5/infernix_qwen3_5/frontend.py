"""The frontend's root: a checkpoint directory in, a loaded model out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from attrs import field, frozen

from infernix_core.checkpoint_files import Keys, read_json_object, read_optional_object, read_text
from infernix_core.checkpoint_tensors import CheckpointTensors
from infernix_core.errors import CheckpointError, InvalidPrompt, Location
from infernix_core.interfaces.frontend import (
    LoadOptions,
    OutputDecoder,
    OutputRequest,
    PreparedPrompt,
    PromptInput,
    StartPhase,
)
from infernix_core.interfaces.language import Language
from infernix_core.interfaces.mask_provider import NO_RAW_MEMBERS, RawMembers
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.interfaces.tools import ToolDeclaration, read_tools
from infernix_core.interfaces.vocabulary import Vocabulary
from infernix_qwen3_5.config import ModelConfig, parse_config, token_ids
from infernix_qwen3_5.continuation import (
    continued_content,
    continued_parts,
    language_prefix,
    require_spelling,
    with_calls,
)
from infernix_qwen3_5.language import SEPARATOR, output_language
from infernix_qwen3_5.mtp_weights import MtpSource
from infernix_qwen3_5.output import output_decoder
from infernix_qwen3_5.prompts import template_variables
from infernix_qwen3_5.sampling import FILE as GENERATION_CONFIG
from infernix_qwen3_5.sampling import checkpoint_options, over, preset
from infernix_qwen3_5.target import Qwen3_5Target
from infernix_qwen3_5.template import ChatTemplate
from infernix_qwen3_5.tokenizer import (
    CLOSE_CALL,
    CLOSE_THINK,
    OPEN_CALL,
    OPEN_THINK,
    TURN_START,
    Tokenizer,
    load_tokenizer,
)
from infernix_qwen3_5.weights import load_weights

TEMPLATE = "chat_template.jinja"
TOKENIZER_CONFIG = "tokenizer_config.json"

#: What the family is told to conclude its reasoning with when it may not go on, before the close.
EARLY_CLOSE = (
    "\n\nConsidering the limited time by the user, I have to give the solution based on the thinking "
    "directly now.\n"
)


@frozen(eq=False)
class Qwen3_5Model:  # noqa: N801 - the family's own name
    """Implements ``LoadedModel``.

    Attributes:
        template: ``None`` when the checkpoint has none; such a model takes raw prompts alone.
    """

    name: str
    config: ModelConfig
    target: Qwen3_5Target
    tokenizer: Tokenizer = field(repr=False)
    template: ChatTemplate | None = field(repr=False)
    checkpoint_sampling: SamplingOptions

    @property
    def vocabulary(self) -> Vocabulary:
        """See ``LoadedModel``."""
        return self.tokenizer.vocabulary

    @property
    def context_length(self) -> int:
        """See ``LoadedModel``."""
        return self.config.context_length

    def prepare(self, prompt: PromptInput) -> PreparedPrompt:
        """See ``LoadedModel``."""
        if prompt.messages is not None:
            return self._prepare_chat(prompt)
        given = {
            "tools": bool(prompt.tools),
            "template_options": bool(prompt.template_options),
            "enable_thinking": prompt.enable_thinking is not None,
            "continue_final": prompt.continue_final,
        }
        for name in (name for name, is_given in given.items() if is_given):
            raise InvalidPrompt(
                "a raw prompt has no template that could use it",
                location=Location(field=name),
                hint="give messages",
            )
        if prompt.text is not None:
            if not isinstance(prompt.text, str):
                raise InvalidPrompt("the text is not a string", location=Location(field="text"))
            ids = self.tokenizer.encode_parts([prompt.text], prompt.most_tokens)
        else:
            ids = self._checked_ids(prompt)
        if not ids:
            raise InvalidPrompt("the prompt is empty", hint="at least one token is needed")
        return PreparedPrompt(tuple(ids), StartPhase.RAW, prompt)

    def language(self, prompt: PreparedPrompt, request: OutputRequest) -> Language | None:
        """See ``LoadedModel``."""
        return output_language(self.vocabulary, prompt.phase, prompt.tools, request)

    def prefix(self, prompt: PreparedPrompt, request: OutputRequest) -> tuple[bytes | int, ...]:
        """See ``LoadedModel``."""
        return language_prefix(self.tokenizer, prompt, request)

    def decoder(
        self,
        prompt: PreparedPrompt,
        request: OutputRequest,
        raw_members: RawMembers = NO_RAW_MEMBERS,
    ) -> OutputDecoder:
        """See ``LoadedModel``."""
        return output_decoder(self.vocabulary, prompt, request, raw_members)

    def early_close(self, prompt: PreparedPrompt) -> tuple[int, ...]:
        """See ``LoadedModel``. Of a prompt that opens no reasoning it is empty too."""
        close = self.tokenizer.control.get(CLOSE_THINK)
        if prompt.phase is not StartPhase.REASONING or close is None:
            return ()
        return tuple(self.tokenizer.encode_parts([EARLY_CLOSE, close, SEPARATOR.decode()]))

    def sampling_defaults(self, prompt: PreparedPrompt) -> SamplingOptions:
        """See ``LoadedModel``."""
        family = preset(
            prompt.phase,
            self.name,
            self.config.hidden_size,
            mixture=self.config.mixture is not None,
        )
        return over(self.checkpoint_sampling, family)

    def _prepare_chat(self, prompt: PromptInput) -> PreparedPrompt:
        if self.template is None:
            raise InvalidPrompt(
                f"{self.name} has no chat template ({TEMPLATE})", hint="give text or token ids"
            )
        control, content = self.tokenizer.control, None
        try:
            variables = template_variables(prompt, self.template.reserved)
            tools = self._declared(prompt)
            if prompt.continue_final:
                thinking = variables.get("enable_thinking")
                content = continued_content(variables["messages"], thinking)
                parts = continued_parts(self.template, variables, control)
                if tools:
                    parts = with_calls(parts, variables, control[OPEN_CALL])
            else:
                parts = self.template.render(variables)
        except RecursionError:
            raise InvalidPrompt("a message, a tool or an option is nested too deeply") from None
        ids = self.tokenizer.encode_parts(parts, prompt.most_tokens)
        if not ids:
            raise InvalidPrompt("the chat template renders these messages as nothing")
        if content:
            require_spelling(self.tokenizer, ids, variables)
        phase = StartPhase.REASONING if self._reasoning_open(ids) else StartPhase.CONTENT
        return PreparedPrompt(tuple(ids), phase, prompt, tools, content)

    def _declared(self, prompt: PromptInput) -> tuple[ToolDeclaration, ...]:
        tools = read_tools(prompt.tools)
        for spelling in (OPEN_CALL, CLOSE_CALL) if tools else ():
            if spelling not in self.vocabulary.framing:
                raise InvalidPrompt(
                    f"{self.name} cannot call tools: its tokenizer has no token {spelling}",
                    location=Location(field="tools"),
                    hint="leave out the tools",
                )
        return tools

    def _reasoning_open(self, ids: list[int]) -> bool:
        """Whether the last turn's last thinking token opens. Spellings in user text are other tokens."""
        control = self.tokenizer.control
        opens, closes = control.get(OPEN_THINK), control.get(CLOSE_THINK)
        if opens is None or closes is None:
            return False
        for token in reversed(ids):
            if token in (opens, closes):
                return token == opens
            if token == control.get(TURN_START):
                return False
        return False

    def _checked_ids(self, prompt: PromptInput) -> list[int]:
        ids = list(prompt.token_ids or ())
        for index, token in enumerate(ids):
            if isinstance(token, bool) or not isinstance(token, int):
                problem = f"{token!r} is not a token id"
            elif not self.tokenizer.has_token(token):
                problem = f"there is no token {token}"
            else:
                continue
            raise InvalidPrompt(
                problem,
                location=Location(field=f"token_ids[{index}]"),
                hint=f"ids of tokens lie in 0 ... {self.vocabulary.size - 1}",
            )
        return ids


class Qwen3_5Frontend:  # noqa: N801 - the family's own name
    """Implements ``ModelFrontend``."""

    def load(self, directory: Path, options: LoadOptions) -> Qwen3_5Model:
        """See ``ModelFrontend``. Small files are read first, so that their errors come at once."""
        directory = Path(directory)
        if not directory.is_dir():
            raise CheckpointError(f"{directory} is not a directory")
        config = parse_config(read_json_object(directory / "config.json"))
        generation = read_optional_object(directory / GENERATION_CONFIG)
        eos_ids = config.eos_ids + token_ids(Keys(generation, GENERATION_CONFIG), "eos_token_id")
        tokenizer = load_tokenizer(directory, eos_ids, config.vocab_size)
        template = _template(directory, tokenizer)
        sampling = checkpoint_options(generation)
        device = _device(options.device)
        dtype = options.dtype or (torch.float32 if device.type == "cpu" else config.dtype)
        tensors = CheckpointTensors.scan(directory)
        weights = load_weights(tensors, config, device, dtype)
        mtp = MtpSource.of(tensors, config, device, dtype)
        return Qwen3_5Model(
            name=public_name(directory),
            config=config,
            target=Qwen3_5Target(config, weights, deterministic=options.deterministic, mtp=mtp),
            tokenizer=tokenizer,
            template=template,
            checkpoint_sampling=sampling,
        )


def public_name(directory: Path) -> str:
    """The folder's name; in the Hugging Face cache, whose folders are named by commits, the repository's."""
    path = Path(os.path.abspath(directory))
    repository = path.parent.parent.name
    if path.parent.name == "snapshots" and repository.startswith("models--"):
        return repository.rsplit("--", 1)[1]
    return path.name


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise CheckpointError(f"{name!r} is no device: expected 'cpu' or 'cuda'") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise CheckpointError(f"the device {name!r} is not available here; expected 'cpu'")
    return device


def _template(directory: Path, tokenizer: Tokenizer) -> ChatTemplate | None:
    """The checkpoint's template: its own file, else the tokenizer's configuration."""
    settings = read_optional_object(directory / TOKENIZER_CONFIG)
    variables = {
        name: text
        for name in ("bos_token", "eos_token", "pad_token", "unk_token")
        if (text := _token_text(settings.get(name))) is not None
    }
    if (directory / TEMPLATE).exists():
        source = read_text(directory / TEMPLATE)
    else:
        found = _default_template(settings.get("chat_template"))
        if found is None:
            return None
        source = found
    return ChatTemplate(source, tokenizer.control, variables)


def _token_text(value: Any) -> str | None:
    """A special token's spelling; older files wrap it in an object."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _default_template(value: Any) -> str | None:
    """``chat_template`` as a string, or the default one of a list of named templates."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list):
        for entry in value:
            if isinstance(entry, dict) and entry.get("name") == "default":
                source = entry.get("template")
                if isinstance(source, str):
                    return source
    raise CheckpointError(
        f"{TOKENIZER_CONFIG}: 'chat_template' is neither a string nor a list with a default template"
    )
