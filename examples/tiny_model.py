"""A language model that trains in seconds on a CPU: two layers, random weights, a vocabulary of bytes.

Beside the bytes its vocabulary has one token for each call that an agent of the corridor can make, so that it
learns to make them within a minute.
"""

import json
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl.chat_template_utils import add_response_schema, qwen2_5_chat_template

CALLS = [{"name": "walk", "arguments": {"direction": direction}} for direction in ("left", "right")]
"""The calls that are one token each."""
CONTEXT = 2048
"""Tokens of the longest text."""


def make_tokenizer() -> Any:
    """Return a tokenizer of bytes with Qwen 2.5's chat template, and with a token for each of `CALLS`."""
    alphabet = {letter: place for place, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    inner = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    inner.add_tokens([AddedToken(_call_text(call), normalized=False) for call in CALLS])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|im_end|>", pad_token="<|endoftext|>", model_max_length=CONTEXT
    )
    tokenizer.chat_template = qwen2_5_chat_template
    return add_response_schema(tokenizer)


def make_model(tokenizer: Any, seed: int = 0) -> Qwen2ForCausalLM:
    """Return a model of two layers with random weights."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    return Qwen2ForCausalLM(config)


def _call_text(call: dict[str, Any]) -> str:
    return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"
