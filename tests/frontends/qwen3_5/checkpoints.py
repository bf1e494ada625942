"""Whole small checkpoints for tests: tokenizer, template and random weights, in every published form."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.trainers import BpeTrainer

from tests.frontends.qwen3_5 import oracle

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|"
    r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|image_pad|>")
ORDINARY = (
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)

TRAINING = [
    'The answer is {"file": "Parser.java", "line": 88}.\n\nThen the next line.\n',
    "You are a helpful assistant. system user assistant tool function parameter name value\n",
    "if think then answer: the thing is here, and there; the end.\n\n",
    "Überraschung: naïve café, 你好, 🙂\n",
]

#: In the manner of the family's own: trims, splits, macros, namespaces, tojson.
TEMPLATE = """\
{%- macro render(message) -%}
    {{- message.content | trim -}}
{%- endmacro -%}
{%- set ns = namespace(last=-1) -%}
{%- for message in messages -%}
    {%- if message.role == 'user' and not message.content.startswith('<tool_response>') -%}
        {%- set ns.last = loop.index0 -%}
    {%- endif -%}
{%- endfor -%}
{%- if ns.last < 0 -%}
    {{- raise_exception('No user query <|im_end|> found.\\nAt all.') -}}
{%- endif -%}
{%- if tools -%}
<|im_start|>system
# Tools
{% for tool in tools %}
{{ tool | tojson }}
{% endfor %}
Call as <tool_call>
<function=NAME>
</function>
</tool_call><|im_end|>
{% endif -%}
{%- for message in messages -%}
    {%- set content = render(message) -%}
    {%- if message.role == 'assistant' -%}
        {%- set reasoning = message.reasoning_content or '' -%}
        {%- if '</think>' in content -%}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') -%}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') -%}
        {%- endif -%}
        {{- '<|im_start|>assistant\\n' -}}
        {%- if loop.index0 > ns.last -%}
            {{- '<think>\\n' + reasoning + '\\n</think>\\n\\n' -}}
        {%- endif -%}
        {{- content -}}
        {%- for call in message.tool_calls or [] -%}
            {{- '\\n<tool_call>\\n<function=' + call.function.name + '>\\n' -}}
            {%- for name, value in call.function.arguments | items -%}
                {{- '<parameter=' + name + '>\\n' -}}
                {{- (value if value is string else value | tojson) + '\\n</parameter>\\n' -}}
            {%- endfor -%}
            {{- '</function>\\n</tool_call>' -}}
        {%- endfor -%}
        {{- '<|im_end|>\\n' -}}
    {%- elif message.role == 'tool' -%}
        {{- '<|im_start|>user\\n<tool_response>\\n' + content + '\\n</tool_response><|im_end|>\\n' -}}
    {%- else -%}
        {{- '<|im_start|>' + message.role + '\\n' + content + eos_token + '\\n' -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\\n' -}}
    {{- '<think>\\n' if enable_thinking is defined and enable_thinking else '<think>\\n\\n</think>\\n\\n' -}}
{%- endif -%}
"""


def small_tokenizer() -> Tokenizer:
    """A byte-level BPE with the family's split and a few merges; ids 0 … about 340."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=330,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(TRAINING * 4, trainer)
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in ORDINARY])
    return tokenizer


def write_text_files(directory: Path) -> Tokenizer:
    """Tokenizer, template and generation config; gives the library's own tokenizer to compare with."""
    tokenizer = small_tokenizer()
    tokenizer.save(str(directory / "tokenizer.json"))
    (directory / "chat_template.jinja").write_text(TEMPLATE, "utf-8")
    end = tokenizer.token_to_id("<|im_end|>")
    write_json(directory / "tokenizer_config.json", {"eos_token": "<|im_end|>"})
    write_json(
        directory / "generation_config.json",
        {"do_sample": True, "temperature": 0.6, "top_p": 0.95, "eos_token_id": [end]},
    )
    return tokenizer


def write_json(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document), "utf-8")


def change_json(path: Path, **changes: Any) -> None:
    """Sets keys of a JSON object; ``None`` removes one."""
    document = json.loads(path.read_text("utf-8"))
    document.update(changes)
    write_json(path, {key: value for key, value in document.items() if value is not None})


def write_checkpoint(directory: Path, shape: str = "grouped", **changes: Any) -> Any:
    """A whole checkpoint as transformers saves it; gives the transformers model."""
    directory.mkdir(parents=True, exist_ok=True)
    model = oracle.saved_model(shape, directory, vocab_size=384, **changes)
    write_text_files(directory)
    change_json(directory / "config.json", eos_token_id=None)
    return model


def rewrite_tensors(directory: Path, edit: Any) -> None:
    """Loads the single weights file, lets ``edit`` give other tensors, and saves them."""
    path = directory / "model.safetensors"
    save_file(edit(load_file(path)), path, metadata={"format": "pt"})


def stacked(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Each layer's experts, which transformers saves one by one, in two tensors."""
    experts: dict[str, dict[int, torch.Tensor]] = {}
    rest = {}
    for name, tensor in tensors.items():
        match = re.fullmatch(r"(.*\.mlp\.experts\.)(\d+)\.(\w+)\.weight", name)
        if match is None:
            rest[name] = tensor
        else:
            experts.setdefault(match[1] + match[3], {})[int(match[2])] = tensor
    stacks = {
        name: torch.stack([parts[index] for index in range(len(parts))])
        for name, parts in experts.items()
    }
    for name in [name for name in stacks if name.endswith(".gate_proj")]:
        layer = name.removesuffix("gate_proj")
        halves = (stacks.pop(name), stacks.pop(f"{layer}up_proj"))
        stacks[f"{layer}gate_up_proj"] = torch.cat(halves, dim=1)
    return {**rest, **stacks}


def as_released(directory: Path, prefix: str = "model.language_model.") -> None:
    """Renames and nests what transformers saved into the form of the published checkpoints."""

    def rename(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        tensors = stacked(tensors)
        renamed = {
            name.replace("model.", prefix, 1) if name.startswith("model.") else name: tensor
            for name, tensor in tensors.items()
        }
        renamed["model.visual.patch_embed.proj.weight"] = torch.zeros(4, 3)
        renamed["mtp.fc.weight"] = torch.zeros(4, 8)
        return renamed

    rewrite_tensors(directory, rename)
    path = directory / "config.json"
    text = json.loads(path.read_text("utf-8"))
    tied = text.pop("tie_word_embeddings", False)
    kind = text["model_type"].removesuffix("_text")
    write_json(
        path,
        {
            "architectures": [
                text["architectures"][0].replace("CausalLM", "ConditionalGeneration")
            ],
            "model_type": kind,
            "text_config": text,
            "vision_config": {"model_type": kind},
            "tie_word_embeddings": tied,
        },
    )


def as_shards(directory: Path, count: int = 3) -> None:
    """Spreads the weights over files with an index."""
    tensors = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    weight_map = {}
    for shard in range(count):
        file = f"model-{shard + 1:05d}-of-{count:05d}.safetensors"
        part = {name: tensors[name] for name in sorted(tensors)[shard::count]}
        save_file(part, directory / file, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(part, file))
    write_json(
        directory / "model.safetensors.index.json", {"metadata": {}, "weight_map": weight_map}
    )
